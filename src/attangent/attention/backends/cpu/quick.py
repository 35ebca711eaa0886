"""Attention with a prefix: work that is the same in every call is done once.

On a short sequence, checking the inputs, choosing a path and filling in a call cost more than the prefix
itself. A `CallPlan` keeps the result of that work for similar calls. It holds numbers and no address, so it
stays valid when weights are trained, moved or replaced.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from attangent._core.errors import AttangentError
from attangent.attention._inputs import LEAST_FUSED_SCALE, check_scale, check_state, check_tokens
from attangent.attention.backends.cpu.library import (
    TYPES,
    AttentionLibrary,
    CompiledPrefix,
    GradientFields,
    empty_rows,
)
from attangent.attention.backends.cpu.prepare import (
    differentiates_tokens,
    is_plain,
    readable,
    takes,
    takes_tokens,
)
from attangent.attention.backends.torch.fused import FusedAttention
from attangent.attention.backends.torch.portable import PrefixCall
from attangent.attention.backends.torch.tokens import (
    GradientRows,
    KeyValues,
    flash,
    is_fused,
)
from attangent.attention.features.base import Affine
from attangent.attention.masks import resolve_mask
from attangent.attention.prefix import Prefix, largest_exponent
from attangent.attention.shapes import Outputs, RowNumbers, StateMass, StateZ

_is_transforming = torch._C._are_functorch_transforms_active
_is_tracing = torch._C._get_tracing_state


class CallPlan(NamedTuple):
    """How to make calls of one signature.

    Attributes:
        call: The call in the general form.
        library: The compiled code.
        form: The map's form without its weights.
        weight_heads: Number of heads with separate weights of the map; 0 for a map without weights.
        gain: From `query_gain`.
        fields: The fields of the forward pass.
        attends: Whether the compiled code attends to the tokens too.
        backward: The fields of backward passes by the layout of their tensors; None for the general path.
    """

    call: PrefixCall
    library: AttentionLibrary
    form: Affine
    weight_heads: int
    gain: float
    fields: bytes
    attends: bool
    backward: dict[tuple[Any, ...], GradientFields | None]

    def prefix(self, Z: StateZ, mass: StateMass) -> CompiledPrefix | None:
        """Return the prefix with its present weights; None if the map's form has changed."""
        affine = self.form
        if self.weight_heads:
            affine = readable(self.call.features, Z)
            if affine is None or (affine.kind, _weight_heads(affine)) != (self.form.kind, self.weight_heads):
                return None
        return CompiledPrefix(self.library, self.call.features, affine, Z, mass, self.gain, self.call.cap)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, Z: StateZ, mass: StateMass, for_backward: bool
    ) -> tuple[Outputs, RowNumbers | None, RowNumbers | None] | None:
        """Return what `fused.forward` returns; None if that must do it."""
        prefix = self.prefix(Z, mass)
        if prefix is None:
            return None
        tokens = KeyValues(k, v, self.call.mask, self.call.scale)
        if self.attends:
            return prefix.attend(q, tokens, for_backward, self.fields)
        out, lse = flash(q, *tokens)
        return out, *prefix.forward(q, out, lse, for_backward, self.fields)

    def differentiate(self, saved: Sequence[Any], grad: Outputs) -> list[Tensor] | None:
        """Return all gradients; None if the general path must compute them."""
        q, k, v, Z, mass, *_, out, total, sign = saved
        prefix = self.prefix(Z, mass) if self.attends else None
        if prefix is None:
            return None
        # hooks on saved tensors may have changed their layout
        layout = (
            *(q.stride(), k.stride(), v.stride(), Z.stride(), mass.stride(), out.stride(), total.stride()),
            *(q.dtype, k.dtype, v.dtype, Z.dtype, mass.dtype, out.dtype, total.dtype),
            *(grad.stride(), grad.dtype, torch.get_num_threads()),
        )
        tokens = KeyValues(k, v, self.call.mask, self.call.scale)
        grad_q = torch.empty_like(q)
        rows = GradientRows(q, out, total, sign, grad, grad_q)
        if layout not in self.backward:
            self.backward[layout] = _gradient_fields(prefix, tokens, rows)
        known = self.backward[layout]
        return None if known is None else [grad_q, *prefix.backward(rows, tokens, known)]


_plans: WeakKeyDictionary[nn.Module, tuple[tuple[Any, ...], CallPlan | None]] = WeakKeyDictionary()
"""The signature of the last call with a state and its plan; None if the general path must make it."""


def quick_attention(
    q: Tensor, k: Tensor, v: Tensor, state: Prefix, causal: bool, scale: float | None
) -> Outputs | None:
    """Compute `ntk_attention` without mask, dropout and softcap; None if the general path must do it."""
    if torch.compiler.is_compiling() or not (type(q) is type(k) is type(v) is Tensor):
        return None
    if _is_transforming() or _is_tracing() is not None or torch.is_autocast_enabled("cpu"):
        return None
    try:
        Z, mass = state.weights()
        inputs = q, k, v, Z, mass, state.features, causal, scale
        signature = _signature(*inputs)
        known = _plans.get(state)  # type: ignore[call-overload]
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return None  # the general path explains what is wrong, if anything is
    if known is None or known[0] != signature:
        known = _plans[state] = signature, _planned(*inputs)  # type: ignore[index]
    plan = known[1]
    if plan is None:
        return None
    if torch.is_grad_enabled():
        tensors = q, k, v, Z, mass, *plan.call.features.trained()
        if any(tensor.requires_grad for tensor in tensors):
            return FusedAttention.apply(plan.call, plan, *tensors)
    results = plan.attend(q, k, v, Z, mass, for_backward=False)
    return None if results is None else results[0]


def _signature(*inputs: Any) -> tuple[Any, ...]:
    q, k, v, Z, mass, features, causal, scale = inputs
    return (
        *(q.shape, k.shape, v.shape, Z.shape, mass.shape, q.stride(), k.stride(), v.stride()),
        *(q.dtype, k.dtype, v.dtype, Z.dtype, mass.dtype),
        *(q.is_cpu, k.is_cpu, v.is_cpu, Z.is_cpu, mass.is_cpu, Z.is_contiguous(), mass.is_contiguous()),
        *(type(Z), type(mass), features, features.positive, causal, scale, torch.get_num_threads()),
    )


@torch.no_grad()  # a plan may call torch's attention, whose tensors gradient checkpointing would count
def _planned(*inputs: Any) -> CallPlan | None:
    q, k, v, Z, mass, features, causal, scale = inputs
    try:
        check_tokens(q, k, v)
        check_state(q, v, features.dim, features.size, Z, mass)
    except AttangentError:
        return None
    if q.dtype not in TYPES:
        return None
    factor = check_scale(scale, q.shape[-1])
    mask = resolve_mask(None, causal, q, k)
    unmasked = mask.bias is None and mask.empty is None and factor >= LEAST_FUSED_SCALE
    laid_out = q.stride(-1) == k.stride(-1) == v.stride(-1) == 1
    if not unmasked or not laid_out or not is_fused(q, k, v, mask):
        return None
    call = PrefixCall(features, factor, largest_exponent(torch.float32), mask)
    prefix = call.compiled(Z, mass)
    if prefix is None or not (Z.is_contiguous() and mass.is_contiguous()):
        return None
    attends = takes_tokens(prefix.library, q, k, v, mask)
    rows = (empty_rows(q, v.shape[-1]), None) if attends else flash(q, k, v, mask, factor)
    tensors = {"q": q, "k": k, "v": v, "out": rows[0], "lse": rows[1]}
    fields = prefix.fields(prefix.parts(q), tensors, KeyValues(k, v, mask, factor))
    form = Affine(prefix.affine.kind)
    return CallPlan(
        call, prefix.library, form, _weight_heads(prefix.affine), prefix.gain, fields, attends, {}
    )


def _weight_heads(affine: Affine) -> int:
    return 0 if affine.weight is None else len(affine.weight)


def _gradient_fields(prefix: CompiledPrefix, tokens: KeyValues, rows: GradientRows) -> GradientFields | None:
    q, k, v = rows.q, tokens.k, tokens.v
    read_whole = prefix.Z, prefix.mass, rows.total
    if not all(is_plain(tensor) and tensor.is_contiguous() for tensor in read_whole):
        return None
    if not takes(q, k, v, rows.out, rows.grad) or not differentiates_tokens(q, k):
        return None
    gradients = {"grad_k": torch.empty_like(k), "grad_v": torch.empty_like(v)}
    return prefix.gradient_fields({**rows._asdict(), "k": k, "v": v, **gradients}, tokens)
