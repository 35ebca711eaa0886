"""Maps that act on each coordinate: the one in the code of P1's authors and the one printed in P1."""

import math

import torch
from torch import Tensor

from attangent.attention.features.base import Affine, FeatureMap
from attangent.attention.shapes import Features, Inputs, Pulled

_LOG2_E = math.log2(math.e)


class Elu(FeatureMap):
    """phi(x) = elu(z) + 1 with z = x d^(-1/4): exp(z) below 0 and 1 + z above (the code of P1's authors).

    r = d. Trainable features, not an approximation of exp: phi(0).phi(0) = d.

    Args:
        dim: Size d of keys and queries.

    Example:
        >>> Elu(4)(torch.zeros(1, 4))
        tensor([[1., 1., 1., 1.]])
    """

    name = "elu"

    def __init__(self, dim: int):
        super().__init__(dim, dim)
        self._scale = dim**-0.25

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        below = x.clamp(max=0).mul_(self._scale * _LOG2_E).exp2_()  # exp2 costs half of exp on a CPU
        if torch.is_grad_enabled() and x.requires_grad:
            return torch.add(below, x.relu(), alpha=self._scale)
        return below.add_(x.relu(), alpha=self._scale)

    def pullback(self, x: Inputs, w: Features, grad_w: Features) -> Pulled:
        # elu' is min(elu + 1, 1): the features give the slope without another exponential
        return w.clamp_(max=1).mul_(grad_w).mul_(self._scale), ()

    def affine(self) -> Affine | None:
        return Affine("elu")


class Printed(FeatureMap):
    """phi(x) = d^(-1/4) (x [x >= 0] + exp(x) [x < 0]) + 1, as printed in P1 Section 4.2.

    r = d. Unlike `Elu` it jumps at 0, from 1 + d^(-1/4) down to 1.

    Args:
        dim: Size d of keys and queries.

    Example:
        >>> Printed(16)(torch.tensor([[-1e-9, 0.0, 2.0] + 13 * [0.0]]))[0, :3]
        tensor([1.5000, 1.0000, 2.0000])
    """

    name = "printed"

    def __init__(self, dim: int):
        super().__init__(dim, dim)
        self._scale = dim**-0.25

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return torch.where(x < 0, x.clamp(max=0).exp(), x) * self._scale + 1

    def pullback(self, x: Inputs, w: Features, grad_w: Features) -> Pulled:
        return torch.exp(x.clamp(max=0)).mul_(grad_w).mul_(self._scale), ()
