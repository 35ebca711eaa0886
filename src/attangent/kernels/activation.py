"""Two-layer networks with an entrywise activation, the companions of the softmax network in P2 Table 1."""

import math
from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from attangent.kernels.factors import ActivationGate, Rows
from attangent.kernels.network import TwoLayerNetwork
from attangent.kernels.tangent import Tangent, neuron_blocks


def positive(z: Tensor) -> Tensor:
    """The slope of ReLU: 1 where z > 0."""
    return (z > 0).to(z.dtype)


class _ActivationNetwork(TwoLayerNetwork):
    """F(x) = m^(-1/2) a phi(W' x): its kernel J J' needs no division by m."""

    activation: ClassVar[Callable[[Tensor], Tensor]]
    slope: ClassVar[Callable[[Tensor], Tensor]]

    @property
    def width(self) -> float:
        return 1.0

    def _tangent(self, X: Tensor) -> Tangent:
        scale = 1 / math.sqrt(self.m)
        outputs = torch.zeros(len(X), self.d_out, dtype=X.dtype, device=X.device)
        for block in neuron_blocks(self.m, max(len(X), self.d_out), X.element_size()):
            outputs += type(self).activation(X @ self.W[:, block]) @ self.a[:, block].T
        gate = ActivationGate(X, self.W, type(self).slope, scale)
        return Tangent(scale * outputs, X, gate, Rows(self.a), self.m, self.width)


class ReLUNetwork(_ActivationNetwork):
    """F(x) = m^(-1/2) a max(W' x, 0), with W (d_in, m) trained and a (d_out, m) fixed."""

    activation = torch.relu
    slope = positive


class ExpNetwork(_ActivationNetwork):
    """F(x) = m^(-1/2) a exp(W' x), with W (d_in, m) trained and a (d_out, m) fixed."""

    activation = torch.exp
    slope = torch.exp
