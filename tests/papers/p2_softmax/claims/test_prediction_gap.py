"""The tests of `prediction_gap.py`."""

import math

import pytest

from attangent.audit import Verdict
from attangent.audit.registry import get
from attangent.papers.p2_softmax.claims import prediction_gap
from attangent.papers.p2_softmax.claims.prediction_gap import WITHOUT_LOG, OnePointGap, one_point_gap
from attangent.papers.p2_softmax.claims.regression import SoftmaxRegression
from tests.papers.harness import ClaimSuite, checking

SMALLER = {"P2/theorem-f.2": {"one_point": [16, 32, 64, 128], "steps": 100, "widths": [64, 256]}}
check = checking(SMALLER)


class TestClaims(ClaimSuite):
    found = {
        "P2/theorem-f.2": "violated",
        "P2/theorem-g.2-logarithm": "violated",
        "P2/theorem-g.2-kernel-norm": "violated",
        "P2/theorem-g.2-repaired": "holds",
    }
    broken = {
        "P2/theorem-g.2-repaired": {"rate": 2.2},
    }
    benign = {
        "P2/theorem-g.2-kernel-norm": {"same_side": False},
    }
    check = staticmethod(check)


def test_theorem_f_2_holds_with_the_drift_as_eps_h_and_would_with_small_gaps(monkeypatch):
    assert check("P2/theorem-f.2").judgements["eps_H = the drift"].verdict is Verdict.HOLDS
    assert check("P2/theorem-f.2", rate=2.1).judgements["eps_H = the drift"].verdict.failed
    monkeypatch.setattr(
        prediction_gap, "one_point_gap", lambda m, settings, seed: OnePointGap(0.1 / m, 0.1, 0.1)
    )
    assert check("P2/theorem-f.2").judgements[WITHOUT_LOG].verdict is Verdict.HOLDS


def test_one_point_exceeds_the_bound_without_the_logarithm():
    gap = one_point_gap(64, get("P2/theorem-f.2").quick, 0)
    assert gap.ratio > 5
    assert gap.drift < 1
    assert gap.allowed < 1


def test_the_logarithm_would_do_at_a_width_below_the_theorems(monkeypatch):
    right = SoftmaxRegression.constants

    def narrow(p, settings):
        found = right(p, settings)
        width = math.log10(p.size / p.lambda_min) - math.log10(p.size) - 3
        return type("Narrow", (), {"log10_width": width, "B": found.B})

    monkeypatch.setattr(SoftmaxRegression, "constants", narrow)
    finding = check("P2/theorem-g.2-logarithm", decades=[1e-3, 2e-3, 3e-3, 4e-3])
    assert finding.verdict is Verdict.HOLDS


def test_the_norm_of_the_kernel_by_hand():
    finding = check("P2/theorem-g.2-kernel-norm", sizes=[4, 8, 16, 32])
    assert finding.numbers["|K*_te|_F / sqrt n, n = 4"] == pytest.approx(
        prediction_gap._test_norm(4, get("P2/theorem-g.2-kernel-norm").quick, 0) / 2
    )
