"""The claims of P2: what they find, and that each can find the opposite."""

import math

import pytest
import torch

from attangent.audit import Verdict, registry
from attangent.audit.papers.p2 import regression
from attangent.audit.papers.p2.decomposition import take_step
from attangent.audit.papers.p2.perturbation import _printed_kernel
from attangent.audit.papers.p2.softmax_regression import constants, softmax_regression
from attangent.kernels import SoftmaxNetwork

FOUND = {
    "P2/claim-3.4": "holds",
    "P2/definition-3.6": "holds",
    "P2/definition-3.7": "holds",
    "P2/theorem-4.2": "measured",
    "P2/corollary-4.3": "measured",
    "P2/learning-rate-limit": "holds",
    "P2/lemma-5.1": "holds",
    "P2/lemma-5.3": "measured",
    "P2/lemma-b.1": "holds",
    "P2/lemma-d.1": "holds",
    "P2/lemma-e.1": "holds",
    "P2/lemma-e.3": "measured",
    "P2/equation-25": "violated",
    "P2/theorem-f.2": "holds",
    "P2/appendix-f-features": "violated",
}


def check(id, seed=0, **changes):
    claim = registry.get(id)
    return claim.check(claim.quick | changes, seed)


@pytest.mark.parametrize(("id", "verdict"), FOUND.items(), ids=FOUND)
def test_what_the_audit_finds(id, verdict):
    finding = check(id, seed=1)
    assert finding.verdict == verdict
    assert finding.figures


BROKEN_HYPOTHESES = {
    "P2/definition-3.7": {"init": "independent"},
    "P2/theorem-4.2": {"rate": 2.1},
    "P2/corollary-4.3": {"rate": 2.1},
    "P2/learning-rate-limit": {"below": [2.05], "shown": [2.05]},
    "P2/lemma-5.1": {"C": 0.0, "x_norm": 60.0},
    "P2/lemma-5.3": {"rate": 2.1},
    "P2/lemma-b.1": {"C": 0.0},
    "P2/lemma-d.1": {"init": "independent"},
    "P2/lemma-e.1": {"rate": 400.0},
    "P2/lemma-e.3": {"rate": 2.1},
    "P2/theorem-f.2": {"rate": 2.1},
}


@pytest.mark.parametrize(("id", "changes"), BROKEN_HYPOTHESES.items(), ids=BROKEN_HYPOTHESES)
def test_violated_where_a_hypothesis_is_broken(id, changes):
    assert check(id, **changes).verdict is Verdict.VIOLATED


def test_a_rate_of_one_percent_above_the_limit_is_found_out():
    finding = check("P2/learning-rate-limit", below=[2.02], shown=[2.02])
    assert finding.verdict is Verdict.VIOLATED


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


def test_too_few_steps_leave_the_theorem_open():
    assert check("P2/theorem-4.2", most_steps=5).verdict is Verdict.OPEN


def test_constants_of_theorem_4_2_by_hand():
    settings = registry.get("P2/theorem-4.2").quick | {"sigma": 0.1, "C": 10.0}
    p = softmax_regression(settings, 0)
    nd, lam, m = 24, p.lambda_min, settings.m
    B = max(10 * 0.1 * math.sqrt(math.log(nd / 0.05)), 1)
    found = constants(p, settings)
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


def test_printed_kernel_is_the_networks_kernel():
    p = softmax_regression(registry.get("P2/lemma-5.1").quick, 3)
    torch.testing.assert_close(_printed_kernel(p, p.network.W), p.kernel, rtol=1e-11, atol=1e-12)


def test_terms_of_a_step_against_their_printed_sums():
    """C0, C1 and C2 neuron by neuron, as Lemma E.1 writes them."""
    settings = registry.get("P2/lemma-e.1").quick | {"m": 64, "n": 3}
    p = softmax_regression(settings, 0)
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
    for C, v in zip(step.C[:3], (v0, v1, v2), strict=True):
        assert pytest.approx(2 * (R * v).sum().item(), rel=1e-6, abs=1e-12) == C
    assert first.gap < 1e-12
    assert step.before == pytest.approx(first.after)
