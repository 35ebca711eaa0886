"""Maps whose features are exponentials of scores; they are evaluated in log space and cannot overflow."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent.attention._inputs import check_softcap
from attangent.attention.features.affine import Affine
from attangent.attention.features.base import FeatureMap, check_weights, summed_over_heads
from attangent.attention.features.damping import checked_damping, damped

_LARGEST = 1 << 27  # numbers of a projection, a gigabyte
_FLOOR = 1e-20  # an empty row keeps its gradient, yet a high score there does not push the others below 0


class Exponential(FeatureMap):
    """phi_j(x) = exp(score_j(x)); a subclass supplies `scores` and `pullback`."""

    def scores(self, x: Tensor) -> Tensor:
        """log phi(x), (..., d) to (..., r)."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return self.scores(x).exp()

    def row_sizes(self, Z: Tensor, k: Tensor) -> Tensor | None:
        sizes = torch.maximum(Z.detach().abs().amax(dim=-1), k.detach().abs())
        largest = sizes.amax(dim=-1, keepdim=True)
        floor = torch.where(largest > 0, _FLOOR * largest, torch.ones_like(largest))
        return torch.maximum(sizes, floor)

    def evaluate(self, x: Tensor, sizes: Tensor | None) -> tuple[Tensor, Tensor | None]:
        scores = self.scores(x)
        if sizes is not None:
            scores = scores + sizes.log().unsqueeze(-2)
        shift = scores.detach().amax(dim=-1, keepdim=True).clamp(min=torch.finfo(x.dtype).min)
        return (scores - shift).exp(), shift


class PositiveRandom(Exponential):
    """phi_j(x) = exp(w_j.x d^(-1/4) - |x|^2 / (2 sqrt d)) / sqrt r with w_j ~ N(0, I).

    The positive random features of Performers: phi(q).phi(k) is exp(q.k/sqrt d) on average, with a variance
    that grows like exp(|q + k|^2/sqrt d).

    >>> PositiveRandom(4, size=6, seed=0)(torch.randn(3, 4)).shape
    torch.Size([3, 6])
    """

    name = "positive-random"
    projection: Tensor

    def __init__(self, dim: int, size: int, seed: int = 0, projection: Tensor | None = None):
        super().__init__(dim, size)
        if projection is None:
            if size * dim > _LARGEST:
                raise AttangentError(
                    f"{size:,} random features in {dim:,} dimensions are {size * dim:,} numbers, expected at "
                    f"most {_LARGEST:,}: choose fewer"
                )
            drawn = generator(seed, "positive random features")
            projection = torch.randn(size, dim, generator=drawn, dtype=torch.float64)
        self.seed = seed
        self.register_buffer("projection", check_weights("projection", projection, dim))
        if projection.shape != (size, dim):
            raise AttangentError(
                f"projection has shape {tuple(projection.shape)}, expected a row for each of {size} features"
            )

    def scores(self, x: Tensor) -> Tensor:
        half_square = x.square().sum(dim=-1, keepdim=True) / (2 * math.sqrt(self.dim))
        return x @ self._directions(x).mT - half_square - 0.5 * math.log(self.size)

    def pullback(self, x: Tensor, w: Tensor, grad_w: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        grad_scores = grad_w * w
        total = grad_scores.sum(dim=-1, keepdim=True)
        return grad_scores @ self._directions(x) - total * x / math.sqrt(self.dim), ()

    def describe(self) -> dict[str, Any]:
        return {"dim": self.dim, "size": self.size, "seed": self.seed}

    @classmethod
    def rebuild(cls, described: dict[str, Any], tensors: dict[str, Any]) -> "PositiveRandom":
        return cls(**described, projection=tensors["projection"])

    def _directions(self, x: Tensor) -> Tensor:
        return self.projection.to(x.dtype) * self.dim**-0.25


class Anchors(Exponential):
    """phi_j(q) = exp(q.c_j/sqrt d) for anchor keys c (r, d) or (heads, r, d): weighted virtual tokens.

    With masses k and rows U = Z/k the prefix is exactly r further tokens with keys c_j, values U_j and log
    k_j added to their logits. A given key is encoded by its nearest anchor, so that Eq. (7) is exact where
    the anchors are the prefix. `softcap` caps the scores as some models cap their logits: cap
    tanh(score/cap). With `damping` R, (c, d) or (heads, c, d), which is not trained, the map is of
    (I - R'R) q in the place of q, so that the keys are c (I - R'R).

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
        self.register_buffer("damping", None if damping is None else checked_damping(damping, keys))

    def acting_keys(self, dtype: torch.dtype) -> Tensor:
        """c (I - R'R), the keys that the prefix has."""
        return damped(self.keys.to(dtype), self.damping)

    def scores(self, x: Tensor) -> Tensor:
        raw = x @ self.acting_keys(x.dtype).mT / math.sqrt(self.dim)
        return raw if self.softcap is None else self.softcap * torch.tanh(raw / self.softcap)

    def trained(self) -> tuple[Tensor, ...]:
        return (self.keys,)

    def encode(self, keys: Tensor) -> Tensor:
        nearest = torch.cdist(keys, self.acting_keys(keys.dtype).detach()).argmin(dim=-1)
        return nn.functional.one_hot(nearest, self.size).to(keys.dtype)

    def pullback(self, x: Tensor, w: Tensor, grad_w: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        grad_scores = grad_w * w / math.sqrt(self.dim)
        keys = self.acting_keys(x.dtype)
        if self.softcap is not None:
            raw = x @ keys.mT / math.sqrt(self.dim)
            grad_scores = grad_scores * (1 - torch.tanh(raw / self.softcap).square())
        grad_keys = grad_scores.mT @ x
        extra = tuple(range(grad_keys.ndim - self.keys.ndim))
        grad_keys = grad_keys.sum(dim=extra) if extra else grad_keys
        return grad_scores @ keys, (damped(grad_keys, self.damping).to(self.keys.dtype),)

    def affine(self) -> Affine | None:
        if self.softcap is not None:
            return None
        keys = self.acting_keys(torch.float32)
        return Affine("exponential", (keys if keys.ndim == 3 else keys.unsqueeze(0)) / math.sqrt(self.dim))

    def affine_gradients(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        own = summed_over_heads(weight, self.keys)
        return (damped(own / math.sqrt(self.dim), self.damping),)

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
        keys = [map_.acting_keys(self.keys.dtype) for map_ in (self, other)]
        return Anchors(torch.cat(keys, dim=-2), self.softcap)
