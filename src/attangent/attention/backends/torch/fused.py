"""NTK-Attention around a fused token attention, with its own backward pass.

With s the logits, t = log(sum_j e^(s_j) + phi(q) k) and out the merged output,

    out = o e^(lse - t) + phi(q) Z e^(-t)

`prefix_side` has the gradients. The backward pass computes the features again, block by block, so that a
prefix costs almost no memory.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attangent.attention._inputs import autocast_off, compute_dtype
from attangent.attention.backends.cpu.library import CompiledPrefix
from attangent.attention.backends.cpu.prepare import differentiates_tokens, takes, takes_tokens
from attangent.attention.backends.torch.portable import (
    PrefixCall,
    differentiable_backward,
    portable_attention,
)
from attangent.attention.backends.torch.prefix_side import TorchPrefix
from attangent.attention.backends.torch.tokens import (
    GradientRows,
    KeyValues,
    flash,
    flash_gradients,
    only_wanted,
)
from attangent.attention.masks import Mask
from attangent.attention.prefix import Prefix, PrefixWeights, largest_exponent
from attangent.attention.shapes import Keys, Outputs, Queries, RowNumbers, StateMass, StateZ, Values


def fused_attention(q: Queries, k: Keys, v: Values, state: Prefix, mask: Mask, scale: float) -> Outputs:
    """Compute NTK-Attention around `flash`; differentiable in q, k, v and all that the state trains."""
    if not q.stride(-1) == k.stride(-1) == v.stride(-1) == 1:
        q = q.contiguous()
        k = k.contiguous()
        v = v.contiguous()
    Z, mass = state.weights()
    dtype = compute_dtype(q.dtype)
    call = PrefixCall(state.features, scale, largest_exponent(dtype, Z.dtype, mass.dtype), mask)
    if Z.dtype != dtype or mass.dtype != dtype:
        Z = Z.to(dtype)
        mass = mass.to(dtype)
    if torch.is_grad_enabled():
        inputs = q, k, v, Z, mass, *state.features.trained()
        if any(tensor.requires_grad for tensor in inputs):
            return FusedAttention.apply(call, None, *inputs)
    return forward(call, q, k, v, Z, mass, for_backward=False)[0]


class FusedAttention(torch.autograd.Function):
    """`fused_attention` of a `PrefixCall` and q, k, v, Z, mass and the trained weights of the map.

    A `CallPlan`, if there is one, does what it can, and the general path the rest.
    """

    @staticmethod
    def forward(ctx: Any, call: PrefixCall, plan: Any, *inputs: Tensor):
        q, k, v, Z, mass, *_ = inputs
        results = None if plan is None else plan.attend(q, k, v, Z, mass, for_backward=True)
        out, total, sign = forward(call, q, k, v, Z, mass) if results is None else results
        ctx.save_for_backward(*inputs, out, total, sign)
        ctx.call = call
        ctx.plan = plan
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        *inputs, out, total, sign = saved = ctx.saved_tensors
        wanted = ctx.needs_input_grad[2:]
        is_compiling = torch.compiler.is_compiling()
        if ctx.plan is not None and any(wanted[:3]) and not (is_compiling or torch.is_grad_enabled()):
            grads = ctx.plan.differentiate(saved, grad)
            if grads is not None:
                return None, None, *(grads if all(wanted) else only_wanted(grads, wanted))
        with autocast_off(grad):
            if torch.is_grad_enabled() and not is_compiling:
                # gradients of gradients: differentiate the portable path
                call = ctx.call
                q, k, v, Z, mass, *_ = inputs
                prefix = PrefixWeights(call.features, Z, mass)
                again = portable_attention(q, k, v, prefix, call.mask, call.scale)
                return None, None, *differentiable_backward(again, inputs, wanted, grad)
            # hooks on saved tensors may have changed their layout, which kernels would misread
            inputs = [_contiguous_rows(tensor) for tensor in inputs[:3]] + inputs[3:]
            total = total.contiguous()
            sign = None if sign is None else sign.contiguous()
            rows = GradientRows(
                inputs[0], _contiguous_rows(out), total, sign, _contiguous_rows(grad), grad_q=None
            )
            return None, None, *backward(ctx.call, inputs, wanted, rows)


def _contiguous_rows(tensor: Tensor) -> Tensor:
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def forward(
    call: PrefixCall, q: Queries, k: Keys, v: Values, Z: StateZ, mass: StateMass, for_backward: bool = True
) -> tuple[Outputs, RowNumbers | None, RowNumbers | None]:
    """Return the merged output and, for a backward pass, log |total mass| and its sign (None: positive)."""
    tokens = KeyValues(k, v, call.mask, call.scale)
    compiled = _token_code(call, Z, mass, q, k, v)
    if compiled is not None:
        # one compiled call attends to tokens and prefix; it leaves a prefix of zeros to torch
        results = compiled.attend(q, tokens, for_backward)
        if results is not None:
            return results
    out, lse = flash(q, k, v, call.mask, call.scale)
    if call.mask.empty is not None:
        lse = lse.masked_fill(call.mask.empty, -torch.inf)
    return out, *_prefix(call, Z, mass, q, out).forward(q, out, lse, for_backward)


def _token_code(
    call: PrefixCall, Z: StateZ, mass: StateMass, q: Queries, k: Keys, v: Values
) -> CompiledPrefix | None:
    """Return the prefix for compiled code that attends to the tokens too; None if torch must."""
    compiled = call.compiled(Z, mass) if takes(q) else None
    return compiled if compiled is not None and takes_tokens(compiled.library, q, k, v, call.mask) else None


def _prefix(call: PrefixCall, Z: StateZ, mass: StateMass, *rows: Tensor) -> CompiledPrefix | TorchPrefix:
    """Return the prefix for compiled code if possible, else for torch; both have the same two passes."""
    compiled = call.compiled(Z, mass) if takes(*rows) else None
    return TorchPrefix.of(call.features, Z, mass, call.scale, call.cap) if compiled is None else compiled


def backward(
    call: PrefixCall, inputs: Sequence[Tensor], wanted: Sequence[bool], rows: GradientRows
) -> tuple[Tensor | None, ...]:
    """Return the gradients of q, k, v, Z, k and the map's weights; None if not wanted."""
    q, k, v, Z, mass, *_ = inputs
    _, out, total, sign, grad, _ = rows
    tokens = KeyValues(k, v, call.mask, call.scale)
    if any(wanted[:3]):
        compiled = _token_code(call, Z, mass, q, k, v)
        if compiled is not None and takes(q, out, grad) and differentiates_tokens(q, k):
            grad_q = torch.empty_like(q)
            grads = grad_q, *compiled.backward(rows._replace(grad_q=grad_q), tokens)
            return only_wanted(grads, wanted)
    grads: tuple[Tensor | None, ...] = (None, None, None)
    state_grads: list[Any] = [None] * (len(inputs) - 3)
    if any(wanted[:3]):
        # P = e^(s - t) changes sign with the total mass: so does the gradient that the kernel receives
        signed = grad if sign is None else grad * sign.unsqueeze(-1).to(grad.dtype)
        grads = flash_gradients(signed, q, tokens, out, total)
    if wanted[0] or any(wanted[3:]):
        rows = rows._replace(grad_q=grads[0] if wanted[0] else None)
        laid_out = [tensor for tensor in (q, out, grad, rows.grad_q) if tensor is not None]
        state_grads = _prefix(call, Z, mass, *laid_out).backward(rows)
    return only_wanted((*grads, *state_grads), wanted)
