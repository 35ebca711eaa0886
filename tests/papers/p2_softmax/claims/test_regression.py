"""The tests of `regression.py`."""

import math

import pytest
import torch

from attangent.audit import Verdict, registry
from attangent.kernels import SoftmaxNetwork
from attangent.papers.p2_softmax.claims import regression
from attangent.papers.p2_softmax.claims.regression import SoftmaxRegression
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P2/equation-25": "violated",
        "P2/appendix-f-features": "violated",
    }

    def examine(self, finding):
        assert finding.figures


class TestRepairs(ClaimSuite):
    found = {
        "P2/equation-25-repaired": "holds",
        "P2/appendix-f-features-repaired": "holds",
    }
    broken = {
        "P2/equation-25-repaired": {"tolerance": 1e-9},
    }


def test_equation_25_would_hold_if_the_kernel_were_the_identity(monkeypatch):
    def identity(self, X, X2=None):
        return torch.eye(self.d_out * len(X), dtype=torch.float64) / self.m

    monkeypatch.setattr(SoftmaxNetwork, "kernel", identity)
    assert check("P2/equation-25").verdict is Verdict.HOLDS


def test_printed_features_would_do_for_a_single_neuron(monkeypatch):
    def one_neuron(p):
        return torch.linspace(1, 2, p.size, dtype=torch.float64)[:, None]

    def kernel(self, X, X2=None):
        w = torch.linspace(1, 2, self.d_out * len(X), dtype=torch.float64)
        return w[:, None] * w * (X @ X.T / self.m).tile(self.d_out, self.d_out)

    monkeypatch.setattr(regression, "_neuron_features", one_neuron)
    monkeypatch.setattr(SoftmaxNetwork, "kernel", kernel)
    assert check("P2/appendix-f-features").verdict is Verdict.HOLDS


def test_features_of_another_kernel_are_found_out(monkeypatch):
    right = SoftmaxNetwork.kernel
    monkeypatch.setattr(SoftmaxNetwork, "kernel", lambda self, X: 1.001 * right(self, X))
    assert check("P2/appendix-f-features-repaired").verdict is Verdict.VIOLATED


def test_constants_of_theorem_4_2_by_hand():
    settings = registry.get("P2/theorem-4.2").quick | {"sigma": 0.1, "C": 10.0}
    p = SoftmaxRegression.draw(settings, 0)
    nd, lam, m = 24, p.lambda_min, settings.m
    B = max(10 * 0.1 * math.sqrt(math.log(nd / 0.05)), 1)
    found = p.constants(settings)
    assert pytest.approx(B) == found.B
    width = lam**-2 * nd**2 * math.exp(18 * B) * math.log(nd / 0.05) ** 2
    assert found.log10_width == pytest.approx(math.log10(width))
    assert found.log10_rate == pytest.approx(math.log10(0.1 * lam / (m * nd**2 * math.exp(16 * B))))
    assert found.log10_radius == pytest.approx(math.log10(lam / (2 * nd * math.exp(10 * B))))
    start = p.Y.norm().item()
    moved = 4 / (m * lam) * math.exp(3 * B) * math.sqrt(nd) * start
    assert found.log10_movement == pytest.approx(math.log10(moved))
    steps = lam**-2 * nd**2 * math.exp(16 * B) * math.log(nd / 0.01)
    assert found.log10_steps == pytest.approx(math.log10(steps))
