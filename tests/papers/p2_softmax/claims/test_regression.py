"""The tests of `papers/p2/regression.py`."""

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
