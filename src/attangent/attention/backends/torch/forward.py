"""NTK-Attention around a fused token attention, with a backward pass of its own.

With s the logits, t = log(sum_j e^(s_j) + phi(q) k) and out the merged output,

    out = o e^(lse - t) + phi(q) Z e^(-t)

and `fused_backward` has the gradients. The features are computed again in the backward pass, in blocks, so
that a prefix costs almost no memory.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attangent.attention._inputs import autocast_off, compute_dtype
from attangent.attention.backends.cpu.call import Prepared, Tokens
from attangent.attention.backends.cpu.prepare import prepare, takes, takes_tokens
from attangent.attention.backends.portable import portable_attention
from attangent.attention.backends.torch.backward import Rows, prefix_gradients
from attangent.attention.backends.torch.merge import (
    Block,
    Divided,
    blocks_of,
    merge_weights,
    times,
    whole_mass,
)
from attangent.attention.backends.torch.tokens import CpuFlash, FusedTokens
from attangent.attention.features.base import FeatureMap
from attangent.attention.masks import Mask
from attangent.attention.prefix import Prefix, Weights, largest_exponent, query_gain


class Call(NamedTuple):
    """What the passes need beside tensors that are differentiated."""

    fused: FusedTokens
    features: FeatureMap
    mask: Mask
    scale: float
    cap: float
    """The largest exponent of a weight in the gradients; see `prefix.largest_exponent`."""


def fused_attention(
    fused: FusedTokens, q: Tensor, k: Tensor, v: Tensor, state: Prefix, mask: Mask, scale: float
) -> Tensor:
    """NTK-Attention through `fused`; differentiable in q, k, v and all that the state trains."""
    if not q.stride(-1) == k.stride(-1) == v.stride(-1) == 1:
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    Z, mass = state.weights()
    dtype = compute_dtype(q.dtype)
    call = Call(fused, state.features, mask, scale, largest_exponent(dtype, Z.dtype, mass.dtype))
    if Z.dtype != dtype or mass.dtype != dtype:
        Z, mass = Z.to(dtype), mass.to(dtype)
    if torch.is_grad_enabled():
        inputs = q, k, v, Z, mass, *state.features.trained()
        if any(tensor.requires_grad for tensor in inputs):
            return _FusedAttention.apply(call, *inputs)
    return forward(call, q, k, v, Z, mass, for_backward=False)[0]


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
    call: Call, q: Tensor, k: Tensor, v: Tensor, Z: Tensor, mass: Tensor, for_backward: bool = True
) -> tuple[Tensor, Tensor | None, Tensor | None, Any]:
    """The merged output; and for a backward pass log |whole mass| (B, H, Lq), its sign (None: positive) and
    what the fused forward pass saved.
    """
    found = _attended(call, q, k, v, Z, mass, for_backward)
    if found is not None:
        return *found, None
    out, lse, saved = call.fused.forward(q, k, v, call.mask, call.scale)
    if call.mask.empty is not None:
        lse = lse.masked_fill(call.mask.empty, -torch.inf)
    compiled = _compiled(call, Z, mass, q, out)
    if compiled is not None:
        return out, *compiled.forward(q, out, lse, for_backward), saved
    lse = lse.contiguous()
    prefix = Divided.of(call.features, Z, mass, call.scale, call.cap)
    blocks = blocks_of(q, call.features.size)
    if len(blocks) == 1:
        return out, *_merge_(prefix, q, out, lse, for_backward), saved
    parts = [_merge_(prefix, q[block], out[block], lse[block], for_backward) for block in blocks]
    total, sign = (_assembled(lse, blocks, part) for part in zip(*parts, strict=True))
    return out, total, sign, saved


def _attended(
    call: Call, q: Tensor, k: Tensor, v: Tensor, Z: Tensor, mass: Tensor, for_backward: bool
) -> tuple[Tensor, Tensor | None, Tensor | None] | None:
    """Tokens and prefix in one compiled call, where there is one and it is quicker."""
    if not isinstance(call.fused, CpuFlash):
        return None
    compiled = _compiled(call, Z, mass, q)
    if compiled is None or not takes_tokens(compiled.compiled, q, k, v, call.mask):
        return None
    return compiled.attend(q, Tokens(k, v, call.mask, call.scale), for_backward)


def _compiled(call: Call, Z: Tensor, mass: Tensor, *rows: Tensor) -> Prepared | None:
    """The prefix for compiled code, where there is such code and it can take these rows."""
    if not takes(*rows):
        return None
    gain = query_gain(call.scale, call.features.dim)
    return prepare(call.features, Z, mass, gain, call.cap)


def _merge_(
    prefix: Divided, q: Tensor, out: Tensor, lse: Tensor, for_backward: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Adds the prefix to `out` in place; the logarithm of the whole mass, where wanted, and its sign."""
    positive = prefix.features.positive
    w, shift = prefix.features.evaluate(prefix.inputs(q), prefix.sizes)
    mass = torch.linalg.vecdot(w, prefix.k.unsqueeze(-2))
    if mass.shape != lse.shape:
        mass = mass.view(lse.shape)
    shift = None if shift is None else shift.reshape(lse.shape)
    total = whole_mass(lse, mass, shift, positive) if for_backward else None
    keep, add, sign = merge_weights(lse, mass, shift, positive)
    _add_prefix_(out, keep.unsqueeze(-1), w, prefix.Z, add)
    return total, sign


def _add_prefix_(out: Tensor, keep: Tensor, w: Tensor, Z: Tensor, add: Tensor) -> None:
    """out = keep out + add (w Z), in place; w is spent."""
    if out.dtype == w.dtype and w.shape[0] == 1 and out.is_contiguous():
        out.mul_(keep)
        add = add if add.shape == w.shape[:-1] else add.reshape(w.shape[:-1])
        w.mul_(add.unsqueeze(-1))
        out.view(Z.shape[0], w.shape[2], Z.shape[2]).baddbmm_(w[0], Z)
        return
    numerator, add = times(w, Z).view(out.shape), add.unsqueeze(-1)
    if out.dtype == w.dtype:
        out.mul_(keep).addcmul_(numerator, add)
    else:
        out.copy_((out.to(w.dtype) * keep).addcmul_(numerator, add))


def _assembled(like: Tensor, blocks: Sequence[Block], parts: Sequence[Tensor | None]) -> Tensor | None:
    whole = torch.empty(like.shape, dtype=like.dtype, device=like.device)
    for block, part in zip(blocks, parts, strict=True):
        if part is None:
            return None
        whole[block] = part
    return whole


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
    state_grads: list[Any] = [None] * (len(inputs) - 3)
    if any(wanted[:3]):
        signed = grad if sign is None else grad * sign.unsqueeze(-1).to(grad.dtype)
        grads = call.fused.backward(signed, q, k, v, out, total, call.mask, call.scale, saved)
    if wanted[0] or any(wanted[3:]):
        rows = Rows(q, out, total, sign, grad, grads[0] if wanted[0] else None)
        state_grads = _state_gradients(call, Z, mass, rows)
        if call.features.positive:
            state_grads[1] = torch.where(mass < 0, -state_grads[1], state_grads[1])
    return tuple(g if want else None for g, want in zip((*grads, *state_grads), wanted, strict=True))


def _state_gradients(call: Call, Z: Tensor, mass: Tensor, rows: Rows) -> list[Tensor]:
    """Those of Z, |mass| and the map's own weights; that of q is added to `rows.grad_q` in place."""
    laid_out = (part for part in (rows.q, rows.out, rows.grad, rows.grad_q) if part is not None)
    compiled = _compiled(call, Z, mass, *laid_out)
    if compiled is not None:
        return compiled.backward(*rows)
    return prefix_gradients(Divided.of(call.features, Z, mass, call.scale, call.cap), rows)


def _differentiable_backward(
    call: Call, inputs: Sequence[Tensor], wanted: Sequence[bool], grad: Tensor
) -> tuple[Tensor | None, ...]:
    """`backward` for gradients of gradients: the portable path, differentiated."""
    q, k, v, Z, mass, *_ = inputs
    out = portable_attention(q, k, v, Weights(call.features, Z, mass), call.mask, call.scale)
    chosen = [tensor for tensor, want in zip(inputs, wanted, strict=True) if want]
    found = iter(torch.autograd.grad(out, chosen, grad, create_graph=True, allow_unused=True))
    return tuple(next(found) if want else None for want in wanted)
