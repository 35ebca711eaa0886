"""The tests of `papers/p1/lemmas_k.py`."""

from tests.audit.papers.harness import ClaimSuite


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
