"""The arithmetic that the fused passes share: shares of tokens and prefix, and blocks that stay in cache."""

from typing import NamedTuple

import torch
from torch import Tensor

from attangent.attention.features.base import FeatureMap
from attangent.attention.prefix import by_state_head, largest_exponent, query_gain

_BLOCK = 3 << 16
"""Features computed at once: 0.8 MB of float32, which stay in cache and are worth the calls they cost."""

Block = tuple[slice, slice, slice]


class Divided(NamedTuple):
    """A map with Z and k, their rows divided by the sizes the map wants (see `FeatureMap.row_sizes`)."""

    features: FeatureMap
    Z: Tensor
    k: Tensor
    sizes: Tensor | None
    gain: float
    cap: float

    @classmethod
    def of(cls, features: FeatureMap, Z: Tensor, mass: Tensor, scale: float, cap: float) -> "Divided":
        k = mass.abs() if features.positive else mass
        sizes = features.row_sizes(Z, k)
        if sizes is not None:
            Z, k = Z / sizes.unsqueeze(-1), k / sizes
        return cls(features, Z, k, sizes, query_gain(scale, features.dim), cap)

    def inputs(self, q: Tensor) -> Tensor:
        """What the map is applied to: (B, heads of the state, rows, d), scaled, at least float32."""
        x = by_state_head(q if q.dtype == self.Z.dtype else q.to(self.Z.dtype), self.Z.shape[0])
        return x if self.gain == 1 else x * self.gain


def times(w: Tensor, weights: Tensor) -> Tensor:
    """(B, heads, rows, r) times (heads, r, c), with less ado than matmul for a single batch element."""
    return torch.bmm(w[0], weights).unsqueeze(0) if w.shape[0] == 1 else w @ weights


def merge_weights(
    lse: Tensor, mass: Tensor, shift: Tensor | None, positive: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """(keep, add, sign): out = keep o + add n, with keep and add the shares e^lse and e^shift have of
    e^lse + mass e^shift. The sign is that of the whole, None for a positive map.

    Nothing overflows: tokens that weigh less than e^(shift - cap) are given that weight, which shows only
    where the prefix weighs as little.
    """
    cap = largest_exponent(lse.dtype)
    if positive:
        if shift is None:
            add = lse.clamp(min=-cap).neg_().exp_()
        else:
            add = (shift - torch.maximum(lse, shift - cap)).exp_()
        keep = (mass * add).add_(1).reciprocal_()
        return keep, add.mul_(keep), None
    shift = torch.zeros_like(lse) if shift is None else shift
    top = torch.maximum(lse, mass.abs().log_() + shift).clamp_(min=torch.finfo(lse.dtype).min)
    tokens, prefix = (lse - top).exp_(), (shift - top).clamp_(max=cap).exp_()
    whole = tokens + mass * prefix
    size = torch.where(whole == 0, torch.ones_like(whole), whole)
    return tokens / size, prefix / size, torch.where(whole < 0, -1.0, 1.0).to(lse.dtype)


def whole_mass(lse: Tensor, mass: Tensor, shift: Tensor | None, positive: bool) -> Tensor:
    """log|e^lse + mass e^shift|; the lowest number where there is no mass at all."""
    log_mass = mass.abs().log_()
    log_mass = log_mass if shift is None else log_mass.add_(shift)
    lowest = torch.finfo(lse.dtype).min
    if positive:
        return torch.logaddexp(lse, log_mass).clamp_(min=lowest)
    top = torch.maximum(lse, log_mass).clamp_(min=lowest)
    whole = (lse - top).exp_().addcmul_(mass.sign(), (log_mass - top).exp_()).abs_()
    return top.add_(torch.where(whole == 0, torch.ones_like(whole), whole).log_())


def blocks_of(q: Tensor, size: int) -> list[Block]:
    """Slices of batch, heads and rows of q with about `_BLOCK` features each."""
    batch, heads, rows, _ = q.shape
    everything = slice(None)
    count = 1 if torch.compiler.is_compiling() else round(batch * heads * rows * size / _BLOCK)
    if count <= 1:
        return [(everything, everything, everything)]
    per_batch = max(1, round(count / batch))
    step = -(-rows // per_batch)
    together = max(1, batch // count) if per_batch == 1 else 1
    return [
        (slice(first, first + together), everything, slice(row, row + step))
        for first in range(0, batch, together)
        for row in range(0, rows, step)
    ]
