"""The tests of `lemmas.py`."""

import pytest
import torch

from attangent.audit import registry
from attangent.papers.p2_softmax.claims.lemmas import _printed_kernel, take_step
from attangent.papers.p2_softmax.claims.regression import SoftmaxRegression
from tests.papers.harness import ClaimSuite


class TestMoves(ClaimSuite):
    found = {
        "P2/lemma-5.1": "holds",
        "P2/lemma-b.1": "violated",
    }
    broken = {
        "P2/lemma-5.1": {"C": 0.0, "x_norm": 60.0, "sigma": 1.0},
    }
    benign = {
        "P2/lemma-b.1": {"C": 40.0},
    }

    def examine(self, finding):
        assert finding.figures


def test_printed_kernel_is_the_networks_kernel():
    p = SoftmaxRegression.draw(registry.get("P2/lemma-5.1").quick, 3)
    torch.testing.assert_close(_printed_kernel(p, p.network.W), p.kernel, rtol=1e-11, atol=1e-12)


class TestSteps(ClaimSuite):
    found = {
        "P2/lemma-d.1": "holds",
        "P2/lemma-e.1": "holds",
        "P2/lemma-e.3": "measured",
    }
    broken = {
        "P2/lemma-d.1": {"init": "independent", "sigma": 1.0},
        "P2/lemma-e.1": {"rate": 400.0},
        "P2/lemma-e.3": {"rate": 2.1},
    }

    def examine(self, finding):
        assert finding.figures


def test_terms_of_a_step_against_their_printed_sums():
    """C0, C1 and C2 neuron by neuron, as Lemma E.1 writes them."""
    settings = registry.get("P2/lemma-e.1").quick | {"m": 64, "n": 3}
    p = SoftmaxRegression.draw(settings, 0)
    first, network = take_step(p, p.network, p.rate(0.5))
    step, moved = take_step(p, network, p.rate(0.5))
    m, a, eta = network.m, network.a, p.rate(0.5)
    W, W2, R = network.W, moved.W, network.forward(p.X) - p.Y
    gradient = network.gradient(p.X, p.Y)
    v0, v1, v2 = (torch.zeros_like(R) for _ in range(3))
    for i, x in enumerate(p.X):
        e, e2 = torch.exp(W.T @ x), torch.exp(W2.T @ x)
        z = -eta * gradient.T @ x
        for l in range(network.d_out):
            v0[i, l] = m * (a[l] * (1 / e2.sum() - 1 / e.sum()) * e2).sum()
            v1[i, l] = m * (a[l] * e / e.sum() * z).sum()
            v2[i, l] = m * (a[l] * e / e.sum() * (torch.exp(z) - 1 - z)).sum()
    for name, v in {"C0": v0, "C1": v1, "C2": v2}.items():
        assert step.terms[name] == pytest.approx(2 * (R * v).sum().item(), rel=1e-6, abs=1e-12)
    assert first.gap < 1e-12
    assert step.before == pytest.approx(first.after)
