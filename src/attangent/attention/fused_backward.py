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

from attangent.attention.merge import Block, Divided, blocks_of, times
from attangent.attention.prefix import by_state_head, largest_exponent


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
    x = prefix.inputs(rows.q)
    w, shift = prefix.features.evaluate(x, prefix.sizes)
    gb = rows.grad.to(x.dtype) * _prefix_share(rows, shift).unsqueeze(-1)
    db = torch.linalg.vecdot(gb, rows.out.to(x.dtype)).neg_().reshape(*w.shape[:-1], 1)
    gb = by_state_head(gb, len(prefix.Z))
    grad_w = times(gb, prefix.Z.mT).addcmul_(db, prefix.k.unsqueeze(-2))
    grad_x, of_map = prefix.features.pullback(x, w, grad_w)
    if rows.grad_q is not None:
        rows.grad_q.add_(grad_x.view(rows.q.shape), alpha=prefix.gain)
    grad_Z = torch.bmm(w[0].mT, gb[0]) if len(w) == 1 else (w.mT @ gb).sum(dim=0)
    return [grad_Z, w.mul_(db).sum(dim=(0, 2)), *of_map]


def _prefix_share(rows: Rows, shift: Tensor | None) -> Tensor:
    """e^(shift - t) with the sign of the whole mass."""
    total = rows.total
    exponent = total.neg() if shift is None else shift.view(total.shape) - total
    share = exponent.clamp_(max=largest_exponent(total.dtype)).exp_()
    return share if rows.sign is None else share.mul_(rows.sign)
