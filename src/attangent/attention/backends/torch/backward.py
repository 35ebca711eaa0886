"""The prefix's side of the fused backward pass.

With t the logarithm of the whole mass and out the merged output,

    gb = grad e^(-t),  db = -(gb . out)
    dZ = phi(q)' gb,  dk = phi(q)' db,  dphi = gb Z' + db k'

The token side needs nothing new: P = e^(s - t) and delta = grad . out are what a fused backward pass computes
when it is handed out and t in the place of its own output and logsumexp.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from attangent.attention.backends.torch.merge import Block, Divided, blocks_of, times
from attangent.attention.prefix import by_state_head


class Rows(NamedTuple):
    """What there is for each query: (B, H, Lq, ...)."""

    q: Tensor
    out: Tensor
    total: Tensor
    sign: Tensor | None
    grad: Tensor
    grad_q: Tensor | None
    """The token side's gradient of q, to which the prefix's is added; None where it is not wanted."""

    def cut(self, block: Block) -> "Rows":
        return Rows(*(None if part is None else part[block] for part in self))  # type: ignore[arg-type]


def prefix_gradients(prefix: Divided, rows: Rows) -> list[Tensor]:
    """Gradients of Z, k and the map's own weights; that of q is added to `rows.grad_q` in place."""
    blocks = blocks_of(rows.q, prefix.features.size)
    sums = _block_gradients(prefix, rows if len(blocks) == 1 else rows.cut(blocks[0]))
    for block in blocks[1:]:
        for total, term in zip(sums, _block_gradients(prefix, rows.cut(block)), strict=True):
            total += term
    if prefix.sizes is not None:
        sums[0], sums[1] = sums[0] / prefix.sizes.unsqueeze(-1), sums[1] / prefix.sizes
    return sums


def _block_gradients(prefix: Divided, rows: Rows) -> list[Tensor]:
    """As written above, with e^(-t) moved from grad to phi and to dphi: one buffer less."""
    x, heads = prefix.inputs(rows.q), len(prefix.Z)
    grad, out = (part if part.dtype == x.dtype else part.to(x.dtype) for part in (rows.grad, rows.out))
    w, shift = prefix.features.evaluate(x, prefix.sizes)
    per_row = *w.shape[:-1], 1
    share = _prefix_share(rows, shift, prefix.cap).reshape(per_row)
    delta = torch.linalg.vecdot(grad, out).neg_().reshape(per_row)
    grad, weighted = by_state_head(grad, heads), w * share
    grad_Z, grad_k = _summed_products(weighted, grad), _summed_products(delta, weighted).squeeze(1)
    del weighted
    if rows.grad_q is None and not prefix.features.trained():
        return [grad_Z, grad_k]
    grad_w = times(grad, prefix.Z.mT).addcmul_(delta, prefix.k.unsqueeze(-2)).mul_(share)
    grad_x, of_map = prefix.features.pullback(x, w, grad_w)
    if rows.grad_q is not None:
        rows.grad_q.add_(grad_x.reshape(rows.q.shape), alpha=prefix.gain)
    return [grad_Z, grad_k, *of_map]


def _summed_products(left: Tensor, right: Tensor) -> Tensor:
    """left' right for each head, summed over the batch: (B, heads, rows, a) and (B, heads, rows, c)."""
    return torch.bmm(left[0].mT, right[0]) if left.shape[0] == 1 else (left.mT @ right).sum(dim=0)


def _prefix_share(rows: Rows, shift: Tensor | None, cap: float) -> Tensor:
    """e^(shift - t) with the sign of the whole mass; 0 where there is no mass at all, as out is 0 there."""
    total = rows.total
    exponent = total.neg() if shift is None else shift.reshape(total.shape) - total
    share = exponent.clamp_(max=cap).exp_().masked_fill_(total <= torch.finfo(total.dtype).min, 0)
    return share if rows.sign is None else share.mul_(rows.sign)
