"""Maps of an activation: on each coordinate of the query (P1), or on a hidden layer that is trained."""

import math
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from attangent._core.checks import check_choice, check_memory, check_not_negative, check_size
from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent.attention.features.base import (
    Affine,
    FeatureMap,
    check_weights,
    checked_damping,
    damped,
    sum_heads,
)
from attangent.attention.shapes import Evaluated, Features, HeadWeights, Inputs, Pulled, StateMass

Activation = Literal["elu", "gelu"]
_LOG2_E = math.log2(math.e)


class _Elementwise(FeatureMap):
    """A map that acts on each coordinate of x d^(-1/4): r = d, and no weights."""

    def __init__(self, dim: int):
        super().__init__(dim, dim)
        self._scale = dim**-0.25

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return self.evaluate(x, None)[0]


class Elu(_Elementwise):
    """phi(x) = elu(z) + 1 with z = x d^(-1/4): exp(z) below 0 and 1 + z above (the code of P1's authors).

    r = d. Trainable features, not an approximation of exp: phi(0).phi(0) = d.

    Args:
        dim: Size d of keys and queries.

    Example:
        >>> Elu(4)(torch.zeros(1, 4))
        tensor([[1., 1., 1., 1.]])
    """

    name = "elu"

    def evaluate(self, x: Inputs, sizes: StateMass | None) -> Evaluated:
        below = x.clamp(max=0).mul_(self._scale * _LOG2_E).exp2_()  # exp2 costs half of exp on a CPU
        if torch.is_grad_enabled() and x.requires_grad:
            return torch.add(below, x.relu(), alpha=self._scale), None
        return below.add_(x.relu(), alpha=self._scale), None

    def pullback(self, x: Inputs, w: Features, grad_w: Features) -> Pulled:
        # elu' is min(elu + 1, 1): the features give the slope without another exponential
        return w.clamp_(max=1).mul_(grad_w).mul_(self._scale), ()

    def affine(self, dtype: torch.dtype = torch.float32) -> Affine | None:
        return Affine("elu")


class Printed(_Elementwise):
    """phi(x) = d^(-1/4) (x [x >= 0] + exp(x) [x < 0]) + 1, as printed in P1 Section 4.2.

    r = d. Unlike `Elu` it jumps at 0, from 1 + d^(-1/4) down to 1.

    Args:
        dim: Size d of keys and queries.

    Example:
        >>> Printed(16)(torch.tensor([[-1e-9, 0.0, 2.0] + 13 * [0.0]]))[0, :3]
        tensor([1.5000, 1.0000, 2.0000])
    """

    name = "printed"

    def evaluate(self, x: Inputs, sizes: StateMass | None) -> Evaluated:
        return torch.where(x < 0, x.clamp(max=0).exp(), x) * self._scale + 1, None

    def pullback(self, x: Inputs, w: Features, grad_w: Features) -> Pulled:
        return torch.exp(x.clamp(max=0)).mul_(grad_w).mul_(self._scale), ()


class Learned(FeatureMap):
    """phi(x) = [1, act(W x + b)] with W (r-1, d) or (heads, r-1, d) and b (r-1) or (heads, r-1), trained.

    Args:
        weight: W.
        bias: b.
        activation: `elu` stands for elu + 1, which keeps every feature positive; `gelu` features take both
            signs.
        damping: R, (c, d) or (heads, c, d), not trained: the map then acts on (I - R'R) x.

    Raises:
        AttangentError: If a tensor has another shape or is not finite.

    Example:
        >>> Learned.draw(dim=4, size=8, seed=0)(torch.randn(3, 4)).shape
        torch.Size([3, 8])
    """

    name = "learned"
    damping: Tensor | None

    def __init__(
        self, weight: Tensor, bias: Tensor, activation: Activation = "elu", damping: Tensor | None = None
    ):
        weight = check_weights("weight", weight)
        if bias.shape != weight.shape[:-1]:
            raise AttangentError(
                f"bias has shape {tuple(bias.shape)}, expected {tuple(weight.shape[:-1])}: one entry per row"
            )
        check_weights("bias", bias.unsqueeze(-1))
        check_choice("activation", activation, get_args(Activation))
        super().__init__(weight.shape[-1], weight.shape[-2] + 1)
        self.activation: Activation = activation
        self.positive = activation == "elu"
        self.weight = nn.Parameter(weight.detach().clone())
        self.bias = nn.Parameter(bias.detach().clone())
        self.register_buffer("damping", checked_damping(damping, weight))

    @classmethod
    def draw(
        cls,
        dim: int,
        size: int,
        seed: int,
        *,
        heads: int | None = None,
        gain: float = 1.0,
        activation: Activation = "elu",
        dtype: torch.dtype = torch.float32,
    ) -> "Learned":
        """Draw initial weights W ~ gain N(0, 1/d) and set b = 0.

        Args:
            dim: Size d of keys and queries.
            size: Number r of features, at least 2.
            seed: Seed of W.
            heads: Number of heads with separate weights; None to share one set.
            gain: Factor of the weights.
            activation: `elu` or `gelu`.
            dtype: Dtype of the weights.

        Returns:
            The map.

        Raises:
            AttangentError: If a size is too small or the weights would not fit into memory.
        """
        rows = check_size("size", size, least=2) - 1
        check_not_negative("gain", gain)
        shape = (rows, check_size("dim", dim)) if heads is None else (check_size("heads", heads), rows, dim)
        check_memory("learned features", heads=heads or 1, size=rows, dim=dim)
        weight = torch.randn(shape, generator=generator(seed, "learned features"), dtype=torch.float64)
        weight = (gain * dim**-0.5 * weight).to(dtype)
        return cls(weight, torch.zeros(shape[:-1], dtype=dtype), activation)

    def trained(self) -> tuple[Tensor, ...]:
        return self.weight, self.bias

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return self.evaluate(x, None)[0]

    def evaluate(self, x: Inputs, sizes: StateMass | None) -> Evaluated:
        y = self._hidden(x)
        hidden = F.elu(y) + 1 if self.activation == "elu" else F.gelu(y)
        return torch.cat([torch.ones_like(hidden[..., :1]), hidden], dim=-1), None

    def pullback(self, x: Inputs, w: Features, grad_w: Features) -> Pulled:
        # the slope of elu is min(elu + 1, 1), so that only gelu needs its input again
        slope = w[..., 1:].clamp(max=1) if self.activation == "elu" else _gelu_slope(self._hidden(x))
        grad_y = grad_w[..., 1:] * slope
        grad_weight = (grad_y.mT @ x).sum_to_size(self.weight.shape)
        grad_bias = grad_y.sum(dim=-2).sum_to_size(self.bias.shape).to(self.bias.dtype)
        grads = damped(grad_weight, self.damping).to(self.weight.dtype), grad_bias
        return grad_y @ self.acting_weight(x.dtype), grads

    def affine(self, dtype: torch.dtype = torch.float32) -> Affine | None:
        weight = self.acting_weight(dtype)
        bias = self.bias.to(dtype)
        if weight.ndim == 2:
            weight = weight.unsqueeze(0)
            bias = bias.unsqueeze(0)
        return Affine("learned-elu" if self.activation == "elu" else "learned-gelu", weight, bias)

    def affine_gradients(self, weight: HeadWeights, bias: Tensor) -> tuple[Tensor, ...]:
        grad_weight = damped(sum_heads(weight, self.weight), self.damping)
        return grad_weight, sum_heads(bias, self.bias)

    def describe(self) -> dict[str, Any]:
        return {"activation": self.activation}

    def acting_weight(self, dtype: torch.dtype) -> Float[Tensor, "*heads rows dim"]:
        """Return W (I - R'R), the matrix that acts on x itself.

        Args:
            dtype: Dtype of the result.

        Returns:
            W (r-1, d) or (heads, r-1, d).
        """
        return damped(self.weight.to(dtype), self.damping)

    def _hidden(self, x: Inputs) -> Float[Tensor, "*rows hidden"]:
        return x @ self.acting_weight(x.dtype).mT + self.bias.to(x.dtype).unsqueeze(-2)


def _gelu_slope(y: Tensor) -> Tensor:
    density = torch.exp(-0.5 * y.square()) * (2 * torch.pi) ** -0.5
    return torch.special.ndtr(y) + y * density
