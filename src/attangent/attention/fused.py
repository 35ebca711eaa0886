"""NTK-Attention around a fused token attention, with a backward pass of its own.

With s the logits, t = log(sum_j e^(s_j) + phi(q) k) and out the merged output,

    out = o e^(lse - t) + phi(q) Z e^(-t)
    gb = grad e^(-t),  db = -(gb . out)
    dZ = phi(q)' gb,  dk = phi(q)' db,  dphi = gb Z' + db k'

and the token side follows from P = e^(s - t), which a fused backward pass computes when it is handed out and
t. The features are computed again in the backward pass, in blocks, so that a prefix costs almost no memory.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attangent.attention._inputs import autocast_off, compute_dtype
from attangent.attention.features.base import FeatureMap
from attangent.attention.kernels import TokenKernel
from attangent.attention.masks import Mask
from attangent.attention.portable import portable_attention
from attangent.attention.prefix import (
    Prefix,
    Weights,
    by_state_head,
    divided,
    largest_exponent,
    largest_gradient_exponent,
    query_gain,
)

_BLOCK = 1 << 17
"""Features computed at once: half a megabyte of float32, which stays in cache."""


@dataclass(frozen=True)
class Call:
    """What the passes need beside tensors that are differentiated."""

    kernel: TokenKernel
    features: FeatureMap
    mask: Mask
    scale: float


def fused_attention(
    kernel: TokenKernel, q: Tensor, k: Tensor, v: Tensor, state: Prefix, mask: Mask, scale: float
) -> Tensor:
    """NTK-Attention through `kernel`; differentiable in q, k, v and all that the state trains."""
    q, k, v = (tensor if tensor.stride(-1) == 1 else tensor.contiguous() for tensor in (q, k, v))
    call = Call(kernel, state.features, mask, scale)
    Z, mass = (weight.to(compute_dtype(q.dtype)) for weight in state.weights())
    inputs = (q, k, v, Z, mass, *state.features.parameters())
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs):
        return _FusedAttention.apply(call, *inputs)
    return forward(call, q, k, v, Z, mass)[0]


class _FusedAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, call: Call, q: Tensor, k: Tensor, v: Tensor, Z: Tensor, mass: Tensor, *trained: Tensor
    ):
        out, total, sign, saved = forward(call, q, k, v, Z, mass)
        ctx.save_for_backward(q, k, v, Z, mass, *trained, out, total, sign)
        ctx.call, ctx.saved = call, saved
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        *inputs, out, total, sign = ctx.saved_tensors
        wanted = ctx.needs_input_grad[1:]
        with autocast_off(grad):
            if torch.is_grad_enabled() and not torch.compiler.is_compiling():
                return None, *_differentiable_backward(ctx.call, inputs, wanted, grad)
            return None, *backward(ctx.call, inputs, wanted, out, total, sign, ctx.saved, grad)


def forward(
    call: Call, q: Tensor, k: Tensor, v: Tensor, Z: Tensor, mass: Tensor
) -> tuple[Tensor, Tensor, Tensor | None, Any]:
    """The merged output, log |whole mass| (B, H, Lq), its sign (None: positive), what the kernel saved."""
    out, lse, saved = call.kernel.forward(q, k, v, call.mask, call.scale)
    if call.mask.empty is not None:
        lse = lse.masked_fill(call.mask.empty, -torch.inf)
    Z, mass, sizes = divided(call.features, Z, mass)
    total = torch.empty(lse.shape, dtype=lse.dtype, device=lse.device)
    sign = None if call.features.positive else torch.empty_like(total)
    for block in _blocks(q, call.features.size):
        w, shift = call.features.evaluate(_features_input(q[block], call, Z), sizes)
        heads = out[block].shape[:3]
        prefix_mass = torch.linalg.vecdot(w, mass.unsqueeze(-2)).view(heads)
        shift = None if shift is None else shift.view(heads)
        keep, add, total[block], flipped = merge_weights(lse[block], prefix_mass, shift, sign is None)
        if sign is not None and flipped is not None:
            sign[block] = flipped
        _merge_(out[block], keep.unsqueeze(-1), (w @ Z).view(*heads, -1), add.unsqueeze(-1))
    return out, total, sign, saved


def _merge_(out: Tensor, keep: Tensor, prefix: Tensor, add: Tensor) -> None:
    if out.dtype == prefix.dtype:
        out.mul_(keep).addcmul_(prefix, add)
    else:
        out.copy_((out.to(prefix.dtype) * keep).addcmul_(prefix, add))


def merge_weights(
    lse: Tensor, mass: Tensor, shift: Tensor | None, positive: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """(keep, add, t, sign): out = keep o + add n and t = log|e^lse + mass e^shift|.

    The sign is None for a positive map. Nothing overflows: keep is at most 1 for a positive map, and add is
    capped where the prefix has no mass.
    """
    log_mass = (mass if positive else mass.abs()).log()
    log_mass = log_mass if shift is None else log_mass + shift
    lowest = torch.finfo(lse.dtype).min
    if positive:
        total = torch.logaddexp(lse, log_mass).clamp_(min=lowest)
        return (lse - total).exp_(), _exp_capped(shift, total, largest_exponent(lse.dtype)), total, None
    top = torch.maximum(lse, log_mass).clamp_(min=lowest)
    tokens, prefix = (lse - top).exp_(), _exp_capped(shift, top, largest_gradient_exponent(lse.dtype))
    whole = tokens + mass * prefix
    size = torch.where(whole == 0, torch.ones_like(whole), whole.abs())
    sign = torch.where(whole < 0, -1.0, 1.0).to(lse.dtype)
    return sign * tokens / size, sign * prefix / size, top + size.log(), sign


def _exp_capped(shift: Tensor | None, total: Tensor, cap: float) -> Tensor:
    difference = total.neg() if shift is None else shift - total
    return difference.clamp_(max=cap).exp_()


def backward(
    call: Call,
    inputs: Sequence[Tensor],
    wanted: Sequence[bool],
    out: Tensor,
    total: Tensor,
    sign: Tensor | None,
    saved: Any,
    grad: Tensor,
) -> tuple[Tensor | None, ...]:
    """Gradients of the inputs q, k, v, Z, k and the map's own weights; None where not wanted."""
    q, k, v, Z, mass, *_ = inputs
    grad = grad if grad.stride(-1) == 1 else grad.contiguous()
    grads: tuple[Tensor | None, ...] = (None, None, None)
    state_grads: Sequence[Tensor | None] = [None] * (len(inputs) - 3)
    if any(wanted[:3]):
        signed = grad if sign is None else grad * sign.unsqueeze(-1).to(grad.dtype)
        grads = call.kernel.backward(signed, q, k, v, out, total, call.mask, call.scale, saved)
    if wanted[0] or any(wanted[3:]):
        state_grads = _prefix_backward(call, q, Z, mass, out, total, sign, grad, grads[0])
    return tuple(g if want else None for g, want in zip((*grads, *state_grads), wanted, strict=True))


def _prefix_backward(
    call: Call,
    q: Tensor,
    Z: Tensor,
    mass: Tensor,
    out: Tensor,
    total: Tensor,
    sign: Tensor | None,
    grad: Tensor,
    grad_q: Tensor | None,
) -> list[Tensor]:
    """Gradients of Z, k and the map's weights; that of q is added to `grad_q`."""
    Z, mass, sizes = divided(call.features, Z, mass)
    gain, sums = query_gain(call.scale, q.shape[-1]), []
    for block in _blocks(q, call.features.size):
        x = _features_input(q[block], call, Z)
        w, shift = call.features.evaluate(x, sizes)
        shift = None if shift is None else shift.view(total[block].shape)
        add = _exp_capped(shift, total[block], largest_gradient_exponent(total.dtype))
        add = add if sign is None else add.mul_(sign[block])
        gb = grad[block].to(Z.dtype) * add.unsqueeze(-1)
        db = torch.linalg.vecdot(gb, out[block].to(Z.dtype)).neg_()
        gb, db = by_state_head(gb, len(Z)), db.reshape(*w.shape[:-1], 1)
        grad_w = torch.addcmul(gb @ Z.mT, db, mass.unsqueeze(-2))
        grad_x, of_map = call.features.pullback(x, w, grad_w)
        if grad_q is not None:
            grad_q[block].add_(grad_x.view(q[block].shape), alpha=gain)
        _add_up(sums, [(w.mT @ gb).sum(dim=0), (w * db).sum(dim=(0, 2)), *of_map])
    if sizes is not None:
        sums[0], sums[1] = sums[0] / sizes.unsqueeze(-1), sums[1] / sizes
    return sums


def _add_up(sums: list[Tensor], terms: list[Tensor]) -> None:
    if not sums:
        sums.extend(terms)
    else:
        for total, term in zip(sums, terms, strict=True):
            total += term


def _features_input(q: Tensor, call: Call, Z: Tensor) -> Tensor:
    gain = query_gain(call.scale, q.shape[-1])
    x = by_state_head(q.to(Z.dtype), len(Z))
    return x if gain == 1 else x * gain


def _blocks(q: Tensor, size: int) -> Iterator[tuple[slice, slice, slice]]:
    """Slices of batch, heads and rows of q with about `_BLOCK` features each."""
    batch, heads, rows, _ = q.shape
    everything = slice(None)
    count = 1 if torch.compiler.is_compiling() else round(batch * heads * rows * size / _BLOCK)
    if count <= 1:
        yield everything, everything, everything
        return
    per_batch = max(1, round(count / batch))
    step = -(-rows // per_batch)
    together = max(1, batch // count) if per_batch == 1 else 1
    for first in range(0, batch, together):
        for row in range(0, rows, step):
            yield slice(first, first + together), everything, slice(row, row + step)


def _differentiable_backward(
    call: Call, inputs: Sequence[Tensor], wanted: Sequence[bool], grad: Tensor
) -> tuple[Tensor | None, ...]:
    """`backward` for gradients of gradients: the portable path, differentiated."""
    q, k, v, Z, mass, *_ = inputs
    out = portable_attention(q, k, v, Weights(call.features, Z, mass), call.mask, call.scale)
    chosen = [tensor for tensor, want in zip(inputs, wanted, strict=True) if want]
    found = iter(torch.autograd.grad(out, chosen, grad, create_graph=True, allow_unused=True))
    return tuple(next(found) if want else None for want in wanted)
