"""ReLU and exp networks, the companions of the softmax network in P2 Table 1, and kernels of infinite width.

With g = x.z and weights N(0, sigma^2 I) the softmax normaliser becomes its mean, e^(sigma^2 |x|^2 / 2), and
Gaussian moments remain. All kernels are in the output-major order of the networks.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from attangent._core.checks import check_between, check_memory, check_positive, check_size
from attangent.kernels.checks import as_points
from attangent.kernels.network import TwoLayerNetwork
from attangent.kernels.tangent import DenseFactor, Tangent, neuron_blocks

_DOUBLE = torch.zeros((), dtype=torch.float64)
_SIGMAS = 1e-150, 1e150
"""Standard deviations whose squares are finite and not zero."""


@dataclass(frozen=True)
class ActivationGate:
    """P[i, r] = scale slope(x_i.w_r)."""

    X: Float[Tensor, "n p"]
    W: Float[Tensor, "p m"]
    slope: Callable[[Tensor], Tensor]
    scale: float

    def __call__(self, block: slice) -> Tensor:
        return self.scale * self.slope(self.X @ self.W[:, block])


def positive(z: Tensor) -> Tensor:
    """Return the slope of ReLU: 1 if z > 0, else 0."""
    return (z > 0).to(z.dtype)


class _ActivationNetwork(TwoLayerNetwork):
    """F(x) = m^(-1/2) a phi(W'x): its kernel J J' needs no division by m."""

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
        return Tangent(scale * outputs, X, gate, DenseFactor(self.a), self.m, self.width)


class ReLUNetwork(_ActivationNetwork):
    """F(x) = m^(-1/2) a max(W'x, 0), with W (d_in, m) trained and a (d_out, m) fixed."""

    activation = torch.relu
    slope = positive


class ExpNetwork(_ActivationNetwork):
    """F(x) = m^(-1/2) a exp(W'x), with W (d_in, m) trained and a (d_out, m) fixed."""

    activation = torch.exp
    slope = torch.exp


def softmax_limit(
    X: Any, X2: Any = None, d_out: int = 1, sigma: float = 1.0
) -> Float[Tensor, "rows columns"]:
    """delta_kl g e^(sigma^2 g): the limit of `SoftmaxNetwork.kernel`.

    >>> softmax_limit(torch.eye(2, dtype=torch.float64), sigma=1.0)
    tensor([[2.7183, 0.0000],
            [0.0000, 2.7183]], dtype=torch.float64)
    """
    X, X2 = _points(X, X2)
    g = X @ X2.T
    return _each_output(g * torch.exp(check_positive("sigma", sigma) ** 2 * g), d_out)


def relu_limit(X: Any, X2: Any = None, d_out: int = 1, sigma: float = 1.0) -> Float[Tensor, "rows columns"]:
    """delta_kl g (pi - angle(x, z)) / (2 pi): the limit of `ReLUNetwork.kernel`, whatever sigma is."""
    X, X2 = _points(X, X2)
    check_positive("sigma", sigma)
    g = X @ X2.T
    lengths = X.norm(dim=1)[:, None] * X2.norm(dim=1)
    angle = torch.arccos((g / lengths.clamp(min=torch.finfo(g.dtype).tiny)).clamp(-1, 1))
    return _each_output(g * (torch.pi - angle) / (2 * torch.pi), d_out)


def exp_limit(X: Any, X2: Any = None, d_out: int = 1, sigma: float = 1.0) -> Float[Tensor, "rows columns"]:
    """delta_kl g e^(sigma^2 |x + z|^2 / 2): the limit of `ExpNetwork.kernel`."""
    X, X2 = _points(X, X2)
    square = (X[:, None, :] + X2[None, :, :]).square().sum(dim=2)
    return _each_output(
        X @ X2.T * torch.exp(check_between("sigma", sigma, *_SIGMAS) ** 2 * square / 2), d_out
    )


def _points(X: Any, X2: Any) -> tuple[Tensor, Tensor]:
    X = as_points("X", X, None, _DOUBLE)
    return X, X if X2 is None else as_points("X2", X2, X.shape[1], _DOUBLE)


def _each_output(block: Tensor, d_out: int) -> Tensor:
    """Repeat the n x n2 block per output, with zeros between outputs."""
    rows, columns = (check_size("d_out", d_out) * size for size in block.shape)
    check_memory("a kernel for every output", rows=rows, columns=columns)
    return torch.kron(torch.eye(d_out, dtype=block.dtype), block)
