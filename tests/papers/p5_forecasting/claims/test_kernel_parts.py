"""The tests of `papers/p5/kernel_parts.py`."""

from tests.papers.harness import ClaimSuite


class TestClaims(ClaimSuite):
    found = {
        "P5/lemma-k.3": "holds",
    }
    broken = {
        "P5/lemma-k.3": {"constant": 0.1},
    }

    def examine(self, finding):
        assert finding.figures
