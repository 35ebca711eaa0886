"""The tests of `papers/p5/training.py`."""

from attangent.audit import Verdict
from attangent.papers.p5_forecasting.claims import training
from tests.papers.harness import ClaimSuite, checking, ours

FEWER = {"widths": [32, 64, 96, 128]}
SMALLER = {"P5/theorem-5.2-asymmetry": FEWER, "P5/theorem-5.3": FEWER}
"""Settings that show the same in less time."""
check = checking(SMALLER, seed=1)


class TestClaims(ClaimSuite):
    found = {
        "P5/theorem-5.2-convergence": "measured",
        "P5/theorem-5.2-asymmetry": "violated",
        "P5/theorem-5.2-asymmetry-repaired": "holds",
        "P5/theorem-5.3": "not reproduced",  # its proof decides
        "P5/theorem-5.3-repaired": "holds",
    }
    broken = {
        "P5/theorem-5.2-convergence": {"rate": 2.5},
        "P5/theorem-5.3-repaired": {"grid": [-1.0, 0.5]},
    }
    check = staticmethod(check)

    def examine(self, finding):
        assert all(line.kept for line in ours(finding))


def _aligned(settings, seed):
    return training.Trained(0.0, 0.0, 0.1, 0.05)


def test_weights_that_take_the_sign_would_be_believed(monkeypatch):
    monkeypatch.setattr(training, "trained", _aligned)
    assert check("P5/theorem-5.3").verdict is Verdict.MEASURED
    monkeypatch.setattr(training, "wrong_signs", lambda end: (training.WrongSigns(0.0, 0.0, 0.04),) * 2)
    assert check("P5/theorem-5.2-asymmetry").verdict is Verdict.HOLDS


def test_descent_that_has_not_converged_decides_nothing():
    assert check("P5/theorem-5.2-asymmetry", pair_steps=3).verdict is Verdict.OPEN


def test_weights_that_take_the_sign_break_the_repaired_form(monkeypatch):
    monkeypatch.setattr(training, "trained", _aligned)
    assert check("P5/theorem-5.2-asymmetry-repaired").verdict is Verdict.VIOLATED


def test_attention_for_negative_weights_is_a_part_of_its_own():
    assert check("P5/theorem-5.3").judgements["(1) if w < 0"].verdict is Verdict.HOLDS


def test_too_few_steps_leave_convergence_open():
    assert check("P5/theorem-5.2-convergence", most_steps=3, rate=0.01).verdict is Verdict.OPEN
