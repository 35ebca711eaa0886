"""The tests of `papers/p2/convergence.py`."""

from attangent.audit import Verdict
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P2/theorem-4.2": "measured",
        "P2/corollary-4.3": "measured",
        "P2/learning-rate-limit": "holds",
        "P2/lemma-5.3": "measured",
    }
    broken = {
        "P2/theorem-4.2": {"rate": 2.1},
        "P2/corollary-4.3": {"rate": 2.1},
        "P2/learning-rate-limit": {"below": [2.05], "shown": [2.05]},
        "P2/lemma-5.3": {"rate": 2.1},
    }

    def examine(self, finding):
        assert finding.figures


def test_a_rate_of_one_percent_above_the_limit_is_found_out():
    finding = check("P2/learning-rate-limit", below=[2.02], shown=[2.02])
    assert finding.verdict is Verdict.VIOLATED


def test_too_few_steps_leave_the_theorem_open():
    assert check("P2/theorem-4.2", most_steps=5).verdict is Verdict.OPEN
