import json

import pytest

from attangent import AttangentError
from benchmarks.harness.benchmark import Benchmark, Contestant, Goal
from benchmarks.harness.report import load, markdown, merge, write

SIZE = {"n": 2, "m": 8}


def toy(name="toy", goals=()):
    contestants = [Contestant(who, lambda size: lambda: None) for who in ("base", "ours", "peer")]
    return Benchmark(name, f"About {name}.", [SIZE], contestants, "base", goals=goals)


def row(name="toy", contestant="ours", **changes):
    return {
        "name": name,
        "size": SIZE,
        "contestant": contestant,
        "baseline": "base",
        "ratio": 0.5,
        "ratio_by_round": [0.4, 0.75],
        "seconds": 0.0125,
        "rounds": 9,
        "peak_bytes": 3 * 2**20,
        "peak_ratio": 1.5,
        "unavailable": None,
        "versions": {"torch": "2.13"},
        "threads": 1,
        "cpu": "A CPU",
        "date": "2026-01-31",
    } | changes


EMPTY = {"about": {}, "rows": [], "goals": []}


def test_a_run_replaces_its_own_rows_and_no_others():
    known = ["other", "toy"]
    first = merge(EMPTY, toy("other"), [row("other")], known)
    second = merge(first, toy(), [row(ratio=0.5), row(contestant="base")], known)
    third = merge(second, toy(), [row(ratio=0.25)], known)
    assert third["rows"] == [row("other"), row(ratio=0.25)]
    assert third["about"] == {"other": "About other.", "toy": "About toy."}


def test_goals_are_replaced_with_the_rows():
    goal = Goal("ours", "base", SIZE, at_most=0.5)
    rows = [row(contestant="base", seconds=2.0), row(seconds=0.5)]
    once = merge(EMPTY, toy(goals=[goal]), rows, ["toy"])
    twice = merge(once, toy(goals=[goal]), rows, ["toy"])
    assert twice["goals"] == once["goals"]
    assert once["goals"] == [
        {"name": "toy", "goal": "time of ours at n=2 m=8 / base", "at_most": 0.5, "measured": 0.25}
    ]


def test_benchmarks_that_are_gone_leave_the_results():
    old = merge(EMPTY, toy("gone"), [row("gone")], ["gone"])
    new = merge(old, toy(), [row()], ["toy"])
    assert new["rows"] == [row()]
    assert new["about"].keys() == {"toy"}


def test_merging_leaves_what_it_was_given_as_it_is():
    before = merge(EMPTY, toy("other"), [row("other")], ["other", "toy"])
    copied = json.loads(json.dumps(before))
    merge(before, toy(), [row()], ["other", "toy"])
    assert before == copied


def test_results_survive_the_file(tmp_path):
    results = merge(EMPTY, toy(), [row()], ["toy"])
    write(tmp_path / "results.json", json.dumps(results))
    assert load(tmp_path / "results.json") == results


def test_no_file_means_no_results_yet(tmp_path):
    assert load(tmp_path / "results.json") == EMPTY


@pytest.mark.parametrize("text", ["{", "[]", "3", '{"rows": []}'])
def test_a_file_of_something_else_is_refused_by_name(tmp_path, text):
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(AttangentError, match=r"results.json is not a file of benchmark results"):
        load(path)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "results.json"
    write(path, "old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("benchmarks.harness.report.os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write(path, "new")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("results.json", "old")]


def test_the_page_shows_ratios_times_memory_goals_and_the_command():
    goals = [Goal("ours", "base", SIZE, at_most=0.65), Goal("ours", "peer", SIZE, at_most=1 / 30)]
    rows = [
        row(contestant="base", ratio=1.0, ratio_by_round=[1.0, 1.0], seconds=0.025, peak_ratio=1.0),
        row(),
        row(contestant="peer", ratio=400.0, ratio_by_round=[390.0, 1234.0], seconds=0.15, peak_bytes=None)
        | {"peak_ratio": None},
    ]
    page = markdown(merge(EMPTY, toy(goals=goals), rows, ["toy"]))
    assert "## toy\n\nAbout toy.\n" in page
    head = "| size | contestant | time / base | median, interval | time | memory / base | peak memory |"
    assert head in page
    assert "| n=2 m=8 | base | 1 |  | 25 ms | 1 | 3 MiB |" in page
    assert "| n=2 m=8 | ours | 0.5 | 0.4 to 0.75 | 12.5 ms | 1.5 | 3 MiB |" in page
    assert "| n=2 m=8 | peer | 400 | 390 to 1,234 | 150 ms | not measured | not measured |" in page
    assert "| time of ours at n=2 m=8 / base | 0.65 | 0.5 | met |" in page
    assert "| time of ours at n=2 m=8 / peer | 0.0333 | 0.0833 | not met |" in page
    assert page.count("A CPU, 1 thread, 9 rounds, 2026-01-31; torch 2.13.") == 1
    assert "Made by `python -m benchmarks --only toy`." in page


def test_the_page_says_why_a_contestant_did_not_run_and_what_was_not_measured():
    goal = Goal("peer", "base", SIZE, at_most=1.0)
    absent = row(contestant="peer", unavailable="no jax | here", ratio=None, seconds=None, versions={})
    page = markdown(merge(EMPTY, toy(goals=[goal]), [row(contestant="base"), absent], ["toy"]))
    assert "| n=2 m=8 | peer | not run: no jax \\| here |  |  |  |  |" in page
    assert "| time of peer at n=2 m=8 / base | 1 | not measured |  |" in page
