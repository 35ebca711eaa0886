from benchmarks.harness.changes import changes


def row(contestant, ratio, size=1):
    return {"name": "toy", "size": {"n": size}, "contestant": contestant, "baseline": "base", "ratio": ratio}


def test_only_large_changes_of_rows_that_both_have_are_told_the_slower_first():
    then = [row("base", 1.0), row("a", 2.0), row("b", 1.0), row("c", 1.0), row("gone", 1.0)]
    now = [row("base", 1.5), row("a", 1.0), row("b", 1.04), row("c", 1.2), row("new", 1.0), row("a", 9.0, 2)]
    found = changes(now, then)
    assert [change[2:] for change in found] == [("c", "base", 1.0, 1.2), ("a", "base", 2.0, 1.0)]


def test_what_was_not_measured_has_no_change():
    assert changes([row("a", None)], [row("a", 1.0)]) == []
    assert changes([row("a", 1.0)], [row("a", None)]) == []
