"""Two-layer networks with an entrywise activation, the companions of the softmax network in P2 Table 1."""

import math
from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from attangent.kernels._inputs import check_size
from attangent.kernels.factors import ActivationGate, Rows
from attangent.kernels.initial import Init
from attangent.kernels.network import TwoLayerNetwork
from attangent.kernels.tangent import Tangent, neuron_blocks


def positive(z: Tensor) -> Tensor:
    """The slope of ReLU: 1 where z > 0."""
    return (z > 0).to(z.dtype)


class _ActivationNetwork(TwoLayerNetwork):
    """F(x) = m^(-1/2) a phi(W' x): its kernel J J' needs no division by m."""

    activation: ClassVar[Callable[[Tensor], Tensor]]
    slope: ClassVar[Callable[[Tensor], Tensor]]

    def __init__(
        self,
        d_in: int,
        d_out: int,
        m: int,
        sigma: float = 1.0,
        init: Init = "symmetric",
        seed: int = 0,
        dtype: torch.dtype = torch.float64,
    ):
        self.d_in, self.d_out = check_size("d_in", d_in), check_size("d_out", d_out)
        self.m, self.sigma = m, sigma
        self._draw(d_in, d_out, init, seed, dtype)

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
