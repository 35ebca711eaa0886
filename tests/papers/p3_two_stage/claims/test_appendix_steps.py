"""The tests of `appendix_steps.py`."""

from attangent.audit import Verdict
from attangent.papers.p3_two_stage.claims import appendix_steps
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P3/taylor-step": "violated",
        "P3/appendix-d": "violated",
        "P3/trace-and-norm": "violated",
        "P3/indicator-product": "violated",
        "P3/descent-contradiction": "violated",
        "P3/definition-6": "violated",
        "P3/equation-18": "violated",
        "P3/norm-from-answer": "violated",
        "P3/stage-length": "holds",
    }
    broken = {
        "P3/stage-length": {"decays": 0.5},
    }
    benign = {
        "P3/appendix-d": {"mean": True},
        "P3/trace-and-norm": {"sizes": [1]},
        "P3/indicator-product": {"positive": True},
        "P3/definition-6": {"factors": [1.0, 1.0, 1.0]},
        "P3/norm-from-answer": {"hidden": 0.01},
    }


def test_separating_tokens_that_are_rare_would_be_believed(monkeypatch):
    monkeypatch.setattr(appendix_steps, "separating_share", lambda settings, d, seed: d**-2.0)
    assert check("P3/equation-18").verdict is Verdict.HOLDS


def test_a_start_at_the_optimum_is_near_it():
    parts = check("P3/descent-contradiction", start=1.0).judgements
    assert parts["start"].verdict is Verdict.HOLDS
    assert parts["inner product"].verdict is Verdict.VIOLATED


def test_a_single_answer_has_the_printed_square():
    assert check("P3/taylor-step", sign=1.0).verdict is Verdict.HOLDS
