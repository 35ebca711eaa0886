"""The tests of `regression.py`."""

import torch

from attangent.audit import Verdict
from attangent.kernels import SoftmaxNetwork
from attangent.papers.p2_softmax.claims import regression
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
