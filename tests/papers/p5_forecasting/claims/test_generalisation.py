"""The tests of `papers/p5/generalisation.py`."""

import pytest

from attangent.audit import Verdict
from attangent.papers.p5_forecasting.claims import generalisation
from attangent.papers.p5_forecasting.theory.ssm import ResidualSSM
from tests.papers.harness import ClaimSuite, checking, line

SMALLER = {"P5/proposition-6.3-attention": {"steps": 80}}
"""Settings that show the same in less time."""
check = checking(SMALLER, seed=1)


class TestClaims(ClaimSuite):
    found = {
        "P5/proposition-6.3-attention": "measured",
        "P5/proposition-6.3-linear": "violated",
        "P5/proposition-6.3-linear-repaired": "holds",
        "P5/proposition-j.1-step": "violated",
    }
    broken = {
        "P5/proposition-6.3-linear-repaired": {"n": 20},
    }
    benign = {"P5/proposition-j.1-step": {"sign": 1.0}}
    check = staticmethod(check)


def test_a_risk_of_the_order_of_the_noise_is_found_out(monkeypatch):
    monkeypatch.setattr(generalisation, "_attention_risk", lambda settings, sigma, seed: 3 * sigma**2)
    assert check("P5/proposition-6.3-attention").verdict is Verdict.NOT_REPRODUCED


def test_the_parts_of_the_linear_network():
    parts = check("P5/proposition-6.3-linear").judgements
    assert parts["equation"].verdict is parts["uniqueness"].verdict is Verdict.VIOLATED
    assert parts["risk"].verdict is Verdict.HOLDS


def test_features_that_solve_it_would_be_believed(monkeypatch):
    right = ResidualSSM.features

    def solvable(self):
        P = right(self)
        P[-1] = P[-2] + P[:-2].mean(dim=0)
        return P

    monkeypatch.setattr(ResidualSSM, "features", solvable)
    assert line(check("P5/proposition-6.3-linear"), "distance of the equation").kept


def test_too_little_data_keeps_the_linear_network_off_the_noise_level():
    finding = check("P5/proposition-6.3-linear", n=10)
    assert finding.judgements["risk"].verdict is Verdict.VIOLATED


def test_the_linear_network_is_within_five_percent_of_its_risk():
    for seed in range(3):
        numbers = check("P5/proposition-6.3-linear", seed).numbers
        assert numbers["risk / (sigma^2 (1 + s^2))"] == pytest.approx(1, abs=0.05)
