"""The tests of `papers/p5/training.py`."""

from attangent.audit import Verdict
from tests.audit.papers.harness import ClaimSuite, checking, ours

check = checking(seed=1)


class TestClaims(ClaimSuite):
    found = {
        "P5/theorem-5.2-convergence": "measured",
        "P5/theorem-5.2-asymmetry": "not reproduced",
        "P5/theorem-5.3": "not reproduced",
    }
    broken = {
        "P5/theorem-5.2-convergence": {"rate": 2.5},
    }
    benign = {
        "P5/theorem-5.2-asymmetry": {"m": 2, "steps": 300, "n": 64, "seed": 2},
        "P5/theorem-5.3": {"m": 2, "steps": 300, "n": 64, "seed": 2},
    }
    check = staticmethod(check)

    def examine(self, finding):
        assert all(line.kept for line in ours(finding) if "risk with" not in line.name)


def test_too_few_steps_leave_convergence_open():
    assert check("P5/theorem-5.2-convergence", most_steps=3, rate=0.01).verdict is Verdict.OPEN
