"""The tests of `papers/p2/identities.py`."""

import pytest
import torch

from attangent.audit import Verdict
from attangent.kernels import SoftmaxNetwork
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P2/claim-3.4": "holds",
        "P2/definition-3.6": "holds",
        "P2/definition-3.7": "holds",
    }
    broken = {
        "P2/definition-3.7": {"init": "independent"},
    }

    def examine(self, finding):
        assert finding.figures


def test_gradient_claim_finds_a_wrong_formula(monkeypatch):
    right = SoftmaxNetwork.gradient

    def uncentred(self, X, Y):
        S = self.probabilities(X)
        return right(self, X, Y) + 1e-6 * X.T @ S

    monkeypatch.setattr(SoftmaxNetwork, "gradient", uncentred)
    assert check("P2/claim-3.4").verdict is Verdict.VIOLATED


@pytest.mark.parametrize(
    "falsify", [lambda H: 1.0001 * H, lambda H: H - 2 * H.diagonal().max() * torch.eye(len(H))]
)
def test_kernel_claim_finds_a_wrong_kernel(monkeypatch, falsify):
    right = SoftmaxNetwork.kernel
    monkeypatch.setattr(SoftmaxNetwork, "kernel", lambda self, X: falsify(right(self, X)))
    assert check("P2/definition-3.6").verdict is Verdict.VIOLATED


class TestSmallStatements(ClaimSuite):
    found = {
        "P2/lemma-5.3-quarter": "violated",
        "P2/table-1-exponent": "holds",
        "P2/definition-f.1": "holds",
        "P2/fact-a.5": "holds",
        "P2/lemma-a.9": "holds",
    }
    broken = {
        "P2/table-1-exponent": {"power": 1.0},
        "P2/definition-f.1": {"scale": 1.01},
        "P2/fact-a.5": {"slope": 1.0},
        "P2/lemma-a.9": {"factor": 1.0},
    }
    benign = {
        "P2/lemma-5.3-quarter": {"divisor": 2.0},
    }


def test_the_exponent_at_a_million_points():
    assert check("P2/table-1-exponent").numbers["exponent at n = 10^6"] == pytest.approx(55.9, abs=0.1)
