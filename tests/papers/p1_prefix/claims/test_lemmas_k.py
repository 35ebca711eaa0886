"""The tests of `papers/p1/lemmas_k.py`."""

from tests.papers.harness import ClaimSuite, check, line


class TestClaims(ClaimSuite):
    found = {
        "P1/lemma-k.1": "holds",
        "P1/lemma-k.2": "holds",
    }
    broken = {
        "P1/lemma-k.1": {"C": 0.0},
        "P1/lemma-k.2": {"C": 0.0, "sigma": 3.0},
    }

    def examine(self, finding):
        assert finding.figures


def test_parts_that_cannot_fail_do_not_hold_by_themselves():
    parts = check("P1/lemma-k.1").judgements
    assert {name for name, part in parts.items() if part.empty} >= {"4", "9", "12"}
    assert not parts["3"].empty
    growth = line(check("P1/lemma-k.1", m=65536), "over log m")
    assert growth.kept is False
    assert not growth.claimed
