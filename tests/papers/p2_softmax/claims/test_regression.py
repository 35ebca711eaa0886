"""The tests of `regression.py`."""

import math

import torch

from attangent.audit import Verdict
from attangent.kernels import SoftmaxNetwork
from attangent.papers.p2_softmax.claims import regression
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P2/equation-25": "violated",
        "P2/theorem-f.2": "holds",
        "P2/appendix-f-features": "violated",
    }
    broken = {
        "P2/theorem-f.2": {"rate": 2.1},
    }

    def examine(self, finding):
        assert finding.figures


class TestRepairs(ClaimSuite):
    found = {
        "P2/theorem-g.2-logarithm": "violated",
        "P2/equation-25-repaired": "holds",
        "P2/appendix-f-features-repaired": "holds",
        "P2/theorem-g.2-repaired": "holds",
    }
    broken = {
        "P2/equation-25-repaired": {"tolerance": 1e-9},
        "P2/theorem-g.2-repaired": {"rate": 2.2},
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


def test_the_logarithm_would_do_at_a_width_below_the_theorems(monkeypatch):
    right = regression.constants

    def narrow(p, settings):
        found = right(p, settings)
        width = math.log10(p.size / p.lambda_min) - math.log10(p.size) - 3
        return type("Narrow", (), {"log10_width": width, "B": found.B})

    monkeypatch.setattr(regression, "constants", narrow)
    finding = check("P2/theorem-g.2-logarithm", decades=[1e-3, 2e-3, 3e-3, 4e-3])
    assert finding.verdict is Verdict.HOLDS


def test_features_of_another_kernel_are_found_out(monkeypatch):
    right = SoftmaxNetwork.kernel
    monkeypatch.setattr(SoftmaxNetwork, "kernel", lambda self, X: 1.001 * right(self, X))
    assert check("P2/appendix-f-features-repaired").verdict is Verdict.VIOLATED
