"""The tests of `papers/p1/kernel_training.py`."""

import pytest

from tests.audit.papers.harness import ClaimSuite, check, line

EASY = {"n": 3, "d": 3, "sigma": 1.0, "candidates": 1}


class TestClaims(ClaimSuite):
    found = {
        "P1/lemma-i.3": "open",
        "P1/lemma-i.4": "not reproduced",
        "P1/lemma-i.5": "open",
        "P1/theorem-3.2": "not reproduced",
    }
    broken = {
        "P1/lemma-i.3": {"C": 0.0, "rate": 1e14, "steps": 3},
        "P1/lemma-i.5": {"C": 0.0, "sigma": 1e4, "steps": 3},
    }
    benign = {
        "P1/theorem-3.2": {**EASY, "steps": 100},
        "P1/lemma-i.4": EASY,
    }

    def examine(self, finding):
        assert finding.figures


@pytest.mark.parametrize("seed", range(3))
def test_the_counter_example_holds_on_every_seed(seed):
    finding = check("P1/theorem-3.2", seed)
    assert line(finding, "largest |F(t)").kept is False
    assert line(finding, "the same with lambda of the exact kernel").kept is True
    assert finding.numbers["largest |log L - log predicted|"] < 1e-4
    missing = {h.name: h.missing_decades for h in finding.hypotheses}
    assert missing["width m"] > 50
    assert missing["largest |x|"] == 0
