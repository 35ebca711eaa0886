"""What attention asks of a prefix, and the two terms it adds: phi(q) Z and phi(q) k."""

import math
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from attangent.attention.features.base import FeatureMap


class Prefix(Protocol):
    """Anything with a feature map of size r and weights Z (heads, r, dv), mass (heads, r).

    `heads` divides the heads of the queries; consecutive query heads share one. Where the map is positive the
    masses enter as k = |mass|, otherwise as they are.
    """

    @property
    def features(self) -> FeatureMap: ...

    def weights(self) -> tuple[Tensor, Tensor]: ...


class Weights(NamedTuple):
    """A prefix of given Z and mass."""

    features: FeatureMap
    Z: Tensor
    mass: Tensor

    def weights(self) -> tuple[Tensor, Tensor]:
        return self.Z, self.mass


def reflected(mass: Tensor) -> Tensor:
    """|mass| with the slope 1 at 0, where that of abs is 0 and masses could not leave it."""
    return torch.where(mass < 0, -mass, mass)


def by_state_head(x: Tensor, heads: int) -> Tensor:
    """(B, H, L, d) as (B, heads, (H/heads) L, d): the queries of each head of the state."""
    batch, all_heads, length, dim = x.shape
    return x if heads == all_heads else x.reshape(batch, heads, all_heads // heads * length, dim)


def query_gain(scale: float, dim: int) -> float:
    """The factor of q under which exp(gain q.k/sqrt d) is exp(scale q.k); exactly 1 for the usual scale."""
    gain = scale * math.sqrt(dim)
    return 1.0 if math.isclose(gain, 1, rel_tol=1e-12) else gain


def largest_exponent(*dtypes: torch.dtype) -> float:
    """A cap on the exponent of a prefix's weight, which leaves room for large masses and gradients.

    The narrowest of the dtypes decides: gradients computed in float64 may be those of float32 weights.
    """
    return 600.0 if all(dtype == torch.float64 for dtype in dtypes) else 60.0


def prefix_terms(q: Tensor, state: Prefix, scale: float) -> tuple[Tensor, Tensor, Tensor]:
    """(n, mass, shift) with phi(q) Z = n exp(shift) and phi(q) k = mass exp(shift).

    n is (B, H, L, dv), mass and shift (B, H, L, 1). Differentiable; the shift counts as a constant.
    """
    Z, k = (weight.to(q.dtype) for weight in state.weights())
    k = reflected(k) if state.features.positive else k
    sizes = state.features.row_sizes(Z, k)
    if sizes is not None:
        Z, k = Z / sizes.unsqueeze(-1), k / sizes
    gain = query_gain(scale, q.shape[-1])
    x = by_state_head(q if gain == 1 else q * gain, Z.shape[0])
    w, shift = state.features.evaluate(x, sizes)
    mass = w @ k.unsqueeze(-1)
    shift = torch.zeros_like(mass) if shift is None else shift.detach()
    rows = q.shape[:-1]
    return (w @ Z).reshape(*rows, Z.shape[-1]), mass.reshape(*rows, 1), shift.reshape(*rows, 1)
