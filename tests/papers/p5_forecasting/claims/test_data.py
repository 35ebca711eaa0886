"""The tests of `papers/p5/data.py`."""

import torch

from attangent.audit import Verdict
from attangent.papers.p5_forecasting.claims import data
from attangent.papers.p5_forecasting.theory.ssm import ResidualSSM
from tests.papers.harness import ClaimSuite, checking, ours

check = checking(seed=1)


class TestClaims(ClaimSuite):
    found = {
        "P5/claim-c.2": "violated",
        "P5/claim-c.2-repaired": "holds",
        "P5/definition-6.1": "holds",
    }
    benign = {
        "P5/claim-c.2": {"tolerance": 0.5},
    }
    check = staticmethod(check)

    def examine(self, finding):
        assert all(line.kept for line in ours(finding) if "risk with" not in line.name)


def test_a_wrong_wedge_is_found_out(monkeypatch):
    right = ResidualSSM.wedge.fget
    monkeypatch.setattr(ResidualSSM, "wedge", property(lambda self: 1.1 * right(self)))
    assert check("P5/definition-6.1").verdict is Verdict.VIOLATED


def test_other_weights_are_found_out(monkeypatch):
    right = ResidualSSM.features
    monkeypatch.setattr(ResidualSSM, "features", lambda self: 1.01 * right(self))
    assert check("P5/claim-c.2-repaired").verdict is Verdict.VIOLATED


class TestFacts(ClaimSuite):
    found = {
        "P5/fact-b.2": "violated",
        "P5/fact-b.2-repaired": "holds",
        "P5/fact-b.8": "violated",
        "P5/fact-b.8-repaired": "holds",
    }
    benign = {
        "P5/fact-b.2": {"ts": [3.0]},
    }


def test_a_smaller_ball_is_found_out(monkeypatch):
    right = data._ball
    monkeypatch.setattr(data, "_ball", lambda t, sigma: 0.9 * right(t, sigma))
    assert check("P5/fact-b.2-repaired").verdict is Verdict.VIOLATED


def test_weights_on_the_small_values_would_be_believed(monkeypatch):
    def smallest(settings, seed):
        x = torch.arange(8, dtype=torch.float64).expand(3, 8)
        return torch.eye(8, dtype=torch.float64)[:1].expand(3, 8), x

    monkeypatch.setattr(data, "_softmax_and_values", smallest)
    assert check("P5/fact-b.8").verdict is Verdict.HOLDS


def test_squares_under_a_sample_variance_are_found_out(monkeypatch):
    right = torch.Tensor.var
    monkeypatch.setattr(torch.Tensor, "var", lambda self, dim, correction: right(self, dim=dim))
    assert check("P5/fact-b.8-repaired").verdict is Verdict.VIOLATED
