"""Maps whose features are exponentials of scores; evaluated in log space, they cannot overflow."""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attangent._core.checks import check_memory
from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent.attention._inputs import check_softcap
from attangent.attention.features.base import (
    Affine,
    FeatureMap,
    check_weights,
    checked_damping,
    damped,
    sum_heads,
)
from attangent.attention.shapes import (
    Evaluated,
    Features,
    HeadWeights,
    Inputs,
    Pulled,
    StateMass,
    StateZ,
)

# Relative size of an empty row: it keeps its gradient, and a high score there does not push others to 0.
_FLOOR = 1e-20


class Exponential(FeatureMap):
    """phi_j(x) = exp(score_j(x)); a subclass supplies `scores` and `pullback`.

    Args:
        dim: Size d of keys and queries.
        size: Number r of features.

    Example:
        >>> Exponential(4, size=6).positive
        True
    """

    def scores(self, x: Inputs) -> Features:
        """Compute log phi(x).

        Args:
            x: Queries or keys (..., d).

        Returns:
            Scores (..., r).
        """
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return self.scores(x).exp()

    def row_sizes(self, Z: StateZ, k: StateMass) -> StateMass | None:
        # moving the size of each row of [Z|k] into its score makes the largest *term* e^0, not the
        # largest feature, which may meet a row of zeros
        sizes = torch.maximum(Z.detach().abs().amax(dim=-1), k.detach().abs())
        largest = sizes.amax(dim=-1, keepdim=True)
        floor = torch.where(largest > 0, _FLOOR * largest, torch.ones_like(largest))
        return torch.maximum(sizes, floor)

    def evaluate(self, x: Inputs, sizes: StateMass | None) -> Evaluated:
        scores = self.scores(x)
        if sizes is not None:
            scores = scores + sizes.log().unsqueeze(-2)
        shift = scores.detach().amax(dim=-1, keepdim=True).clamp(min=torch.finfo(x.dtype).min)
        return (scores - shift).exp(), shift


class PositiveRandom(Exponential):
    """phi_j(x) = exp(w_j.x d^(-1/4) - |x|^2 / (2 sqrt d)) / sqrt r with w_j ~ N(0, I).

    The positive random features of Performers: phi(q).phi(k) is exp(q.k/sqrt d) on average, with a variance
    that grows like exp(|q + k|^2/sqrt d).

    Args:
        dim: Size d of keys and queries.
        size: Number r of features.
        seed: Seed of the projection.
        projection: w (r, d); drawn from `seed` by default.

    Raises:
        AttangentError: If the projection is too large or of another shape.

    Example:
        >>> PositiveRandom(4, size=6, seed=0)(torch.randn(3, 4)).shape
        torch.Size([3, 6])
    """

    name = "positive-random"
    projection: Tensor

    def __init__(self, dim: int, size: int, seed: int = 0, projection: Tensor | None = None):
        super().__init__(dim, size)
        if projection is None:
            check_memory("random features", size=size, dim=dim)
            drawn = generator(seed, "positive random features")
            projection = torch.randn(size, dim, generator=drawn, dtype=torch.float64)
        self.seed = seed
        self.register_buffer("projection", check_weights("projection", projection, dim))
        if projection.shape != (size, dim):
            raise AttangentError(
                f"projection has shape {tuple(projection.shape)}, expected {(size, dim)}: one row per feature"
            )

    def scores(self, x: Inputs) -> Features:
        half_square = x.square().sum(dim=-1, keepdim=True) / (2 * math.sqrt(self.dim))
        return x @ self._directions(x).mT - half_square - 0.5 * math.log(self.size)

    def pullback(self, x: Inputs, w: Features, grad_w: Features) -> Pulled:
        grad_scores = grad_w * w
        total = grad_scores.sum(dim=-1, keepdim=True)
        return grad_scores @ self._directions(x) - total * x / math.sqrt(self.dim), ()

    def describe(self) -> dict[str, Any]:
        return {"dim": self.dim, "size": self.size, "seed": self.seed}

    @classmethod
    def rebuild(cls, described: dict[str, Any], tensors: dict[str, Any]) -> "PositiveRandom":
        # a missing projection must fail: drawing it again could take any amount of memory
        return cls(**described, projection=tensors["projection"])

    def _directions(self, x: Inputs) -> Float[Tensor, "size dim"]:
        return self.projection.to(x.dtype) * self.dim**-0.25


class Anchors(Exponential):
    """phi_j(q) = exp(q.c_j/sqrt d) for anchor keys c (r, d) or (heads, r, d): weighted virtual tokens.

    With masses k and rows U = Z/k the prefix is exactly r further tokens with keys c_j, values U_j and
    log k_j added to their logits. A given key is encoded by its nearest anchor, so Eq. (7) is exact if the
    anchors are the prefix.

    Args:
        keys: Anchor keys c (r, d) or (heads, r, d); trained.
        softcap: Cap of the scores, cap tanh(score/cap), as some models cap their logits; None for no cap.
        damping: R, (c, d) or (heads, c, d), not trained: the map then acts on (I - R'R) q, so that the keys
            are c (I - R'R).

    Raises:
        AttangentError: If a tensor has another shape or is not finite.

    Example:
        >>> Anchors(torch.zeros(5, 4))(torch.ones(1, 4))
        tensor([[1., 1., 1., 1., 1.]], grad_fn=<ExpBackward0>)
    """

    name = "anchors"
    damping: Tensor | None

    def __init__(self, keys: Tensor, softcap: float | None = None, damping: Tensor | None = None):
        keys = check_weights("keys", keys)
        super().__init__(keys.shape[-1], keys.shape[-2])
        self.softcap = check_softcap(softcap)
        self.keys = nn.Parameter(keys.detach().clone())
        self.register_buffer("damping", checked_damping(damping, keys))

    def acting_keys(self, dtype: torch.dtype) -> Float[Tensor, "*heads size dim"]:
        """Return c (I - R'R), the keys of the prefix.

        Args:
            dtype: Dtype of the result.

        Returns:
            Keys (r, d) or (heads, r, d).
        """
        return damped(self.keys.to(dtype), self.damping)

    def scores(self, x: Inputs) -> Features:
        raw = x @ self.acting_keys(x.dtype).mT / math.sqrt(self.dim)
        return raw if self.softcap is None else self.softcap * torch.tanh(raw / self.softcap)

    def trained(self) -> tuple[Tensor, ...]:
        return (self.keys,)

    def encode(self, keys: Inputs) -> Features:
        nearest = torch.cdist(keys, self.acting_keys(keys.dtype).detach()).argmin(dim=-1)
        return nn.functional.one_hot(nearest, self.size).to(keys.dtype)

    def pullback(self, x: Inputs, w: Features, grad_w: Features) -> Pulled:
        grad_scores = grad_w * w / math.sqrt(self.dim)
        keys = self.acting_keys(x.dtype)
        if self.softcap is not None:
            raw = x @ keys.mT / math.sqrt(self.dim)
            grad_scores = grad_scores * (1 - torch.tanh(raw / self.softcap).square())
        grad_keys = (grad_scores.mT @ x).sum_to_size(self.keys.shape)
        return grad_scores @ keys, (damped(grad_keys, self.damping).to(self.keys.dtype),)

    def affine(self, dtype: torch.dtype = torch.float32) -> Affine | None:
        if self.softcap is not None:
            return None
        keys = self.acting_keys(dtype)
        return Affine("exponential", (keys if keys.ndim == 3 else keys.unsqueeze(0)) / math.sqrt(self.dim))

    def affine_gradients(self, weight: HeadWeights, bias: Tensor) -> tuple[Tensor, ...]:
        grad_keys = sum_heads(weight, self.keys)
        return (damped(grad_keys / math.sqrt(self.dim), self.damping),)

    def describe(self) -> dict[str, Any]:
        return {"softcap": self.softcap}

    def joined(self, other: FeatureMap) -> FeatureMap | None:
        if self.same_as(other):
            return None
        if not isinstance(other, Anchors) or other.dim != self.dim or other.softcap != self.softcap:
            return super().joined(other)
        if self.keys.shape[:-2] != other.keys.shape[:-2]:
            raise AttangentError(
                f"anchors of shapes {tuple(self.keys.shape)} and {tuple(other.keys.shape)} cannot be joined, "
                "expected the same number of heads"
            )
        keys = [anchors.acting_keys(self.keys.dtype) for anchors in (self, other)]
        return Anchors(torch.cat(keys, dim=-2), self.softcap)
