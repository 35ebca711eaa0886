"""ScalarAttention of P5: the conformance suite and what is its own."""

import math

import torch

from attangent.kernels import unit_data
from attangent.papers.p5_forecasting.theory.scalar_attention import ScalarAttention, VarianceGate
from tests.kernels.conformance import NetworkConformance


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
    monkeypatch.setattr("attangent.papers.p5_forecasting.theory.scalar_attention._ATTENTION_ENTRIES", 30)
    torch.testing.assert_close(gate(slice(0, 11)), whole)
    torch.testing.assert_close(gate(slice(2, 7)), part)
    torch.testing.assert_close(part, whole[:, 2:7])
