"""The tests of `papers/p5/training_dynamic.py`."""

import pytest

from attangent.audit import Verdict, registry
from attangent.papers.p5_forecasting.claims import training_dynamic
from attangent.papers.p5_forecasting.claims.scalar_regression import scalar_regression
from attangent.papers.p5_forecasting.claims.training_dynamic import WeightStep
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P5/equation-17": "violated",
        "P5/equation-17-repaired": "holds",
        "P5/lemma-g.1": "violated",
        "P5/lemma-g.1-repaired": "holds",
        "P5/lemma-h.2": "violated",
        "P5/equation-20": "violated",
        "P5/lemma-h.1-sum": "violated",
    }
    benign = {
        "P5/lemma-h.2": {"factor": 2.0},
        "P5/equation-20": {"n": 4},
        "P5/lemma-h.1-sum": {"terms": 4},
    }


def test_the_other_sign_would_be_believed_and_breaks_the_repair(monkeypatch):
    change, term = WeightStep.change, WeightStep.term
    monkeypatch.setattr(WeightStep, "change", lambda self, sign: change(self, -sign))
    monkeypatch.setattr(WeightStep, "term", lambda self, sign: term(self, -sign))
    assert check("P5/equation-17").verdict is Verdict.HOLDS
    assert check("P5/lemma-g.1").verdict is Verdict.HOLDS
    assert check("P5/equation-17-repaired").verdict is Verdict.VIOLATED
    assert check("P5/lemma-g.1-repaired").verdict is Verdict.VIOLATED


@pytest.mark.parametrize("seed", range(3))
def test_the_printed_leading_term_is_positive_on_the_windows_of_the_proof(seed):
    settings = registry.get("P5/lemma-g.1").quick
    assert training_dynamic._progress_on_two_windows(settings | {"m": 16}, seed) < 0
    assert check("P5/lemma-g.1", seed).judgements["G.2"].verdict is Verdict.VIOLATED


def test_a_loss_that_grows_breaks_part_2():
    assert check("P5/lemma-h.2", rate=60.0, steps=30).judgements["Part 2"].verdict is Verdict.VIOLATED


def test_the_leading_term_is_the_slope_of_the_loss():
    p = scalar_regression(registry.get("P5/lemma-g.1").quick, 0)
    step = WeightStep.of(p, 1e-6)
    assert step.fall == pytest.approx(step.term(-1.0), rel=1e-3)
    assert training_dynamic.STEP["m"] == p.network.m
