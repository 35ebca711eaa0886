"""ScalarAttention of P5: the conformance suite and what is its own."""

import math

import pytest
import torch

from attangent import AttangentError
from attangent._core.random import generator
from attangent.kernels import unit_data
from attangent.papers.p5_forecasting.theory.attention_model import (
    AttentionModel,
    Remedies,
    ScalarAttention,
    VarianceGate,
    attention,
    local_change,
    printed_gradient,
    train_attention,
)
from attangent.papers.p5_forecasting.theory.ssm import ResidualSSM
from tests.kernels.conformance import NetworkConformance

VARIANTS = [
    Remedies(),
    Remedies(train_values=True),
    Remedies(differential=True),
    Remedies(patch=2),
    Remedies(rotary=0.3),
    Remedies(recency=0.5),
    Remedies(position_bias=True, train_values=True, residual=True),
]


def data(n=20, d=6):
    return ResidualSSM(d, sigma=0.1).sample(n, generator(0, "data"))


def test_without_remedies_it_is_the_scalar_attention_of_the_kernels():
    x, _ = data()
    model = AttentionModel(6, 8, seed=2)
    with torch.no_grad():
        model.w += torch.randn(8, generator=generator(1, "move"), dtype=torch.float64)
    peer = ScalarAttention(6, 8).with_weights(model.w.detach()[None])
    peer.a = model.a.detach()[None]
    torch.testing.assert_close(model(x), peer.forward(x)[:, 0])


@pytest.mark.parametrize("remedies", VARIANTS)
def test_every_variant_starts_at_zero_and_learns(remedies):
    x, y = data()
    model = AttentionModel(6, 8, remedies)
    start = x[:, -1] if remedies.residual else 0 * y
    torch.testing.assert_close(model(x), start, atol=1e-12, rtol=0)
    losses = train_attention(model, x, y, 60, 0.05)
    assert losses[-1] < losses[0]
    assert len(losses) == 61


def test_each_optimiser_lowers_the_loss_and_values_stay_fixed():
    x, y = data()
    for optimiser, rate in (("descent", 0.2), ("adam", 0.05), ("signs", 0.02)):
        model = AttentionModel(6, 8)
        losses = train_attention(model, x, y, 40, rate, optimiser)
        assert losses[-1] < losses[0]
        assert set(model.a.tolist()) == {1.0, -1.0}


def test_one_step_of_descent_is_the_closed_form():
    x, y = data()
    model, peer = AttentionModel(6, 8), ScalarAttention(6, 8)
    peer = peer.with_weights(model.w.detach()[None].clone())
    peer.a = model.a.detach()[None]
    gradient = peer.gradient(x, y[:, None])[0] * 2 / len(x)
    before = model.w.detach().clone()
    train_attention(model, x, y, 1, 0.1, "descent")
    torch.testing.assert_close(model.w.detach(), before - 0.1 * gradient)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AttentionModel(6, 3), "m is 3, expected an even number"),
        (lambda: AttentionModel(4, 4, Remedies(patch=5)), "patch is 5, expected at most d = 4"),
        (lambda: Remedies(rotary=-1.0), "rotary is -1.0"),
        (lambda: train_attention(AttentionModel(4, 4), *data(), 1, 0.1, "magic"), "optimiser is 'magic'"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(AttangentError, match=message):
        make()


def test_gradient_in_many_dimensions_against_autograd():
    rng = generator(0, "many")
    X, W, V, G = (torch.randn(rows, 3, generator=rng, dtype=torch.float64) for rows in (5, 3, 3, 5))
    true = torch.func.grad(lambda W: (attention(X, W, V) * G).sum())(W)
    torch.testing.assert_close(printed_gradient(X, W, V, G), true)
    stepped = W - 0.01 * true
    change = (X @ stepped @ X.T - X @ W @ X.T).diagonal()
    torch.testing.assert_close(local_change(X, W, V, G, 0.01), change)


class TestScalarAttention(NetworkConformance):
    def make(self, d_in, d_out, m, **settings):
        return ScalarAttention(d_in, m, **settings)

    def outputs(self, network, w, X):
        S = torch.softmax((X[:, -1:] * w)[:, :, None] * X[:, None, :], dim=2)
        return (S * X[:, None, :]).sum(dim=2) @ network.a.T / math.sqrt(network.m)

    def summands(self, tangent):
        """The variance is the difference of two moments, each up to max |x|^2."""
        X = tangent.gate.X.abs()
        size = X[:, -1:] * X.amax(dim=1, keepdim=True).square() / math.sqrt(tangent.m)
        return size.expand(-1, tangent.m)

    def test_duplicate_points_make_the_kernel_singular(self):
        network, X, _ = self.example()
        H = network.kernel(torch.cat([X, X[:1]]))
        assert (H[0] - H[-1]).abs().max() <= 1e-15


def test_kernel_is_the_printed_one():
    network = ScalarAttention(5, 16, init="independent")
    X, _ = unit_data(3, 5, 1, seed=0)
    S = network.attention(X)
    variance = (S * X[:, None] ** 2).sum(2) - (S * X[:, None]).sum(2) ** 2
    expected = X[:, -1:] * X[:, -1] * (variance @ variance.T) / 16
    torch.testing.assert_close(network.kernel(X), expected, rtol=1e-10, atol=1e-14)


def test_a_last_value_of_zero_is_answered_by_zero():
    network = ScalarAttention(4, 32)
    X, _ = unit_data(3, 4, 1, seed=0)
    X[:, -1] = 0
    assert network.forward(X).abs().max() < 1e-14
    assert network.kernel(X).abs().max() == 0


def test_attention_of_many_neurons_is_made_in_pieces(monkeypatch):
    X, _ = unit_data(3, 4, 1, seed=0)
    gate = VarianceGate(X, torch.linspace(-2, 2, 11).double()[None], 0.5)
    whole, part = gate(slice(0, 11)), gate(slice(2, 7))
    monkeypatch.setattr("attangent.papers.p5_forecasting.theory.attention_model._ATTENTION_ENTRIES", 30)
    torch.testing.assert_close(gate(slice(0, 11)), whole)
    torch.testing.assert_close(gate(slice(2, 7)), part)
    torch.testing.assert_close(part, whole[:, 2:7])
