"""The prefix's side of both passes of fused attention, in torch operations.

With t the logarithm of the total mass and out the merged output,

    out = o e^(lse - t) + phi(q) Z e^(-t)
    gb = grad e^(-t),  db = -(gb . out)
    dZ = phi(q)' gb,  dk = phi(q)' db,  dphi = gb Z' + db k'

The token side needs nothing new: P = e^(s - t) and delta = grad . out are exactly what a fused backward pass
computes if it receives out and t as its output and logsumexp.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from attangent.attention.backends.torch.tokens import GradientRows
from attangent.attention.features.base import FeatureMap
from attangent.attention.prefix import by_state_head, largest_exponent, query_gain, reflected
from attangent.attention.shapes import Outputs, Queries, RowNumbers, StateMass, StateZ

# Features computed at once: 0.8 MB of float32 stay in cache and outweigh the cost of the calls.
_BLOCK = 3 << 16

Block = tuple[slice, slice, slice]
Rows = Float[Tensor, "*rows"]
HeadRows = Float[Tensor, "batch state_heads rows _"]


class TorchPrefix(NamedTuple):
    """A map with Z and k = mass, or |mass|; rows of both are divided by the map's sizes (see `row_sizes`)."""

    features: FeatureMap
    Z: StateZ
    k: StateMass
    mass: StateMass
    sizes: StateMass | None
    gain: float
    cap: float

    @classmethod
    def of(cls, features: FeatureMap, Z: StateZ, mass: StateMass, scale: float, cap: float) -> "TorchPrefix":
        k = reflected(mass) if features.positive else mass
        sizes = features.row_sizes(Z, k)
        if sizes is not None:
            Z = Z / sizes.unsqueeze(-1)
            k = k / sizes
        return cls(features, Z, k, mass, sizes, query_gain(scale, features.dim), cap)

    def forward(
        self, q: Queries, out: Outputs, lse: RowNumbers, for_backward: bool
    ) -> tuple[RowNumbers | None, RowNumbers | None]:
        """Add the prefix to `out` in place; return log |total mass| if wanted, and its sign."""
        lse = lse.contiguous()
        blocks = blocks_of(q, self.features.size)
        if len(blocks) == 1:
            return self._merge_(q, out, lse, for_backward)
        parts = [self._merge_(q[block], out[block], lse[block], for_backward) for block in blocks]
        total, sign = (_assembled(lse, blocks, part) for part in zip(*parts, strict=True))
        return total, sign

    def backward(self, rows: GradientRows) -> list[Tensor]:
        """Return the gradients of Z, mass and the map's weights; add that of q to `grad_q` in place."""
        blocks = blocks_of(rows.q, self.features.size)
        sums = self._block_gradients(rows if len(blocks) == 1 else _cut(rows, blocks[0]))
        for block in blocks[1:]:
            for running, term in zip(sums, self._block_gradients(_cut(rows, block)), strict=True):
                running += term
        if self.sizes is not None:
            sums[0] = sums[0] / self.sizes.unsqueeze(-1)
            sums[1] = sums[1] / self.sizes
        if self.features.positive:
            sums[1] = torch.where(self.mass < 0, -sums[1], sums[1])
        return sums

    def inputs(self, q: Queries) -> HeadRows:
        """Return the input of the map: (B, heads of the state, rows, d), scaled, at least float32."""
        x = by_state_head(q if q.dtype == self.Z.dtype else q.to(self.Z.dtype), self.Z.shape[0])
        return x if self.gain == 1 else x * self.gain

    def _merge_(
        self, q: Queries, out: Outputs, lse: RowNumbers, for_backward: bool
    ) -> tuple[RowNumbers | None, RowNumbers | None]:
        positive = self.features.positive
        w, shift = self.features.evaluate(self.inputs(q), self.sizes)
        mass = torch.linalg.vecdot(w, self.k.unsqueeze(-2))
        if mass.shape != lse.shape:
            mass = mass.view(lse.shape)
        shift = None if shift is None else shift.reshape(lse.shape)
        total = total_mass(lse, mass, shift, positive) if for_backward else None
        keep, add, sign = merge_weights(lse, mass, shift, positive)
        _add_prefix_(out, keep.unsqueeze(-1), w, self.Z, add)
        return total, sign

    def _block_gradients(self, rows: GradientRows) -> list[Tensor]:
        q, out, total, sign, grad, grad_q = rows
        x = self.inputs(q)
        grad, out = (tensor if tensor.dtype == x.dtype else tensor.to(x.dtype) for tensor in (grad, out))
        w, shift = self.features.evaluate(x, self.sizes)
        per_row = *w.shape[:-1], 1
        share = _prefix_share(total, sign, shift, self.cap).reshape(per_row)
        delta = torch.linalg.vecdot(grad, out).neg_().reshape(per_row)
        grad = by_state_head(grad, len(self.Z))
        # e^(-t) multiplies phi and dphi instead of grad, as in the formulas: one buffer less
        weighted = w * share
        grad_Z = _summed_products(weighted, grad)
        grad_k = _summed_products(delta, weighted).squeeze(1)
        del weighted
        if grad_q is None and not self.features.trained():
            return [grad_Z, grad_k]
        grad_w = _times(grad, self.Z.mT).addcmul_(delta, self.k.unsqueeze(-2)).mul_(share)
        grad_x, of_map = self.features.pullback(x, w, grad_w)
        if grad_q is not None:
            grad_q.add_(grad_x.reshape(q.shape), alpha=self.gain)
        return [grad_Z, grad_k, *of_map]


def merge_weights(
    lse: Rows, mass: Rows, shift: Rows | None, positive: bool
) -> tuple[Rows, Rows, Rows | None]:
    """Return (keep, add, sign) with out = keep o + add n.

    keep and add are the shares that e^lse and e^shift have of e^lse + mass e^shift. The sign is that of the
    sum, None for a positive map. Nothing overflows: tokens that weigh less than e^(shift - cap) get that
    weight, which is visible only if the prefix weighs as little.
    """
    cap = largest_exponent(lse.dtype)
    if positive:
        if shift is None:
            add = lse.clamp(min=-cap).neg_().exp_()
        else:
            add = (shift - torch.maximum(lse, shift - cap)).exp_()
        keep = (mass * add).add_(1).reciprocal_()
        return keep, add.mul_(keep), None
    # a signed mass may cancel the tokens: divide by the sum itself, relative to the larger of both
    shift = torch.zeros_like(lse) if shift is None else shift
    top = torch.maximum(lse, mass.abs().log_() + shift).clamp_(min=torch.finfo(lse.dtype).min)
    tokens = (lse - top).exp_()
    prefix = (shift - top).clamp_(max=cap).exp_()
    total = tokens + mass * prefix
    divisor = torch.where(total == 0, torch.ones_like(total), total)
    return tokens / divisor, prefix / divisor, torch.where(total < 0, -1.0, 1.0).to(lse.dtype)


def total_mass(lse: Rows, mass: Rows, shift: Rows | None, positive: bool) -> Rows:
    """Return log|e^lse + mass e^shift|; the lowest finite number if there is no mass at all."""
    log_mass = mass.abs().log_()
    log_mass = log_mass if shift is None else log_mass.add_(shift)
    lowest = torch.finfo(lse.dtype).min
    if positive:
        return torch.logaddexp(lse, log_mass).clamp_(min=lowest)
    top = torch.maximum(lse, log_mass).clamp_(min=lowest)
    relative = (lse - top).exp_().addcmul_(mass.sign(), (log_mass - top).exp_()).abs_()
    return top.add_(torch.where(relative == 0, torch.ones_like(relative), relative).log_())


def blocks_of(q: Queries, size: int) -> list[Block]:
    """Slice batch, heads and rows of q into blocks of about `_BLOCK` features each."""
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


def _cut(rows: GradientRows, block: Block) -> GradientRows:
    return GradientRows(*(None if tensor is None else tensor[block] for tensor in rows))  # type: ignore[arg-type]


def _assembled(like: Tensor, blocks: Sequence[Block], parts: Sequence[Tensor | None]) -> Tensor | None:
    result = torch.empty(like.shape, dtype=like.dtype, device=like.device)
    for block, part in zip(blocks, parts, strict=True):
        if part is None:
            return None
        result[block] = part
    return result


def _times(w: HeadRows, weights: Float[Tensor, "state_heads _ _"]) -> HeadRows:
    """Multiply per head; a single batch element avoids the overhead of matmul."""
    return torch.bmm(w[0], weights).unsqueeze(0) if w.shape[0] == 1 else w @ weights


def _add_prefix_(out: Outputs, keep: Tensor, w: HeadRows, Z: StateZ, add: RowNumbers) -> None:
    """Compute out = keep out + add (w Z) in place; w is overwritten."""
    if out.dtype == w.dtype and w.shape[0] == 1 and out.is_contiguous():
        # baddbmm_ accumulates into out and saves the buffer of w Z
        out.mul_(keep)
        add = add if add.shape == w.shape[:-1] else add.reshape(w.shape[:-1])
        w.mul_(add.unsqueeze(-1))
        out.view(Z.shape[0], w.shape[2], Z.shape[2]).baddbmm_(w[0], Z)
        return
    numerator = _times(w, Z).view(out.shape)
    add = add.unsqueeze(-1)
    if out.dtype == w.dtype:
        out.mul_(keep).addcmul_(numerator, add)
    else:
        out.copy_((out.to(w.dtype) * keep).addcmul_(numerator, add))


def _summed_products(left: HeadRows, right: HeadRows) -> Tensor:
    """Return left' right per head, summed over the batch."""
    return torch.bmm(left[0].mT, right[0]) if left.shape[0] == 1 else (left.mT @ right).sum(dim=0)


def _prefix_share(total: Rows, sign: Rows | None, shift: Tensor | None, cap: float) -> Rows:
    """Return e^(shift - t) with the sign of the total mass; 0 if there is no mass, since out is then 0."""
    exponent = total.neg() if shift is None else shift.reshape(total.shape) - total
    share = exponent.clamp_(max=cap).exp_().masked_fill_(total <= torch.finfo(total.dtype).min, 0)
    return share if sign is None else share.mul_(sign)
