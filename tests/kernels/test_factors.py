"""Gates made in pieces."""

import torch

from attangent.kernels import unit_data
from attangent.kernels.factors import VarianceGate


def test_attention_of_many_neurons_is_made_in_pieces(monkeypatch):
    X, _ = unit_data(3, 4, 1, seed=0)
    gate = VarianceGate(X, torch.linspace(-2, 2, 11).double()[None], 0.5)
    whole, part = gate(slice(0, 11)), gate(slice(2, 7))
    monkeypatch.setattr("attangent.kernels.factors._ATTENTION_ENTRIES", 30)
    torch.testing.assert_close(gate(slice(0, 11)), whole)
    torch.testing.assert_close(gate(slice(2, 7)), part)
    torch.testing.assert_close(part, whole[:, 2:7])
