"""The tests of `first_stage.py`."""

from attangent.audit import Verdict
from attangent.papers.p3_two_stage.claims import first_stage
from tests.papers.harness import ClaimSuite, checking, line, measured

SMALLER = {
    "P3/theorem-2": {"dimensions": [8, 12, 16, 24], "runs": 2},
}
"""Settings that show the same in less time."""


check = checking(SMALLER)


class TestClaims(ClaimSuite):
    found = {
        "P3/theorem-1": "holds",  # the proof of the case r/u fixed is checked elsewhere
        "P3/theorem-2": "violated",
    }
    check = staticmethod(check)


class TestRepairs(ClaimSuite):
    found = {"P3/theorem-1-repaired": "holds", "P3/theorem-2-repaired": "holds"}


def test_the_hard_part_is_left_alone_if_the_ratio_falls_with_d():
    finding = check("P3/theorem-1")
    assert finding.judgements[first_stage.FALLING].verdict is Verdict.HOLDS
    assert finding.judgements["a.2"].verdict is Verdict.HOLDS
    falling, fixed = (measured(finding, f"({part})") for part in (first_stage.FALLING, first_stage.FIXED))
    assert falling < -0.5
    assert abs(fixed) < 0.25  # the proof decides this part


def test_a_bound_below_the_floor_of_every_v_decides_nothing():
    assert check("P3/theorem-1", loss_d=4096, loss_N=500).judgements["a.2"].verdict is Verdict.OPEN


def test_another_angle_is_found_out(monkeypatch):
    monkeypatch.setattr(first_stage.math, "atan", lambda x: 2 * x)
    assert check("P3/theorem-1-repaired", r=0.2).verdict.failed


def test_easy_weights_of_the_asked_order_would_be_believed(monkeypatch):
    def as_asked(settings, d, seed):
        return first_stage._EasyStage(3.0 * d, 1.0 * d, 4.0 * d, 1 / d)

    monkeypatch.setattr(first_stage, "_easy_stage_one", as_asked)
    assert check("P3/theorem-2").verdict is Verdict.HOLDS


def test_the_clash_of_theorem_2_with_proposition_4():
    clash = line(check("P3/theorem-2"), "K/lambda of Proposition 4")
    assert clash.measured < 0.1 * clash.bound


def test_hard_part_learned_below_the_bound_is_found_out(monkeypatch):
    """(a.2) fails where V is handed over already trained."""
    monkeypatch.setattr(first_stage, "_hard_loss", lambda settings, seed: (0.05, 0.4, 0.0))
    assert check("P3/theorem-1").judgements["a.2"].verdict is Verdict.VIOLATED


def test_another_drift_is_found_out(monkeypatch):
    right = first_stage.easy_pull
    monkeypatch.setattr(first_stage, "easy_pull", lambda d: 1.3 * right(d))
    assert check("P3/theorem-2-repaired").verdict.failed
