"""Attention with a prefix: work that is the same in every call is done once.

On a short sequence, checking the inputs, choosing a path and filling in a call cost more than the prefix
itself. A `CallPlan` keeps the result of that work for similar calls. It holds numbers and no address, so it
stays valid when weights are trained, moved or replaced.
"""

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from attangent._core.errors import AttangentError
from attangent.attention._inputs import LEAST_FUSED_SCALE, check_scale, check_state, check_tokens
from attangent.attention.backends.cpu.library import TYPES, AttentionLibrary, empty_rows, is_done, packed
from attangent.attention.backends.cpu.prepare import prepare, readable, takes_tokens
from attangent.attention.backends.torch.fused import FusedAttention, FusedCall, KnownFields
from attangent.attention.backends.torch.tokens import CpuFlash, KeyValues, fused_for
from attangent.attention.masks import resolve_mask
from attangent.attention.prefix import Prefix, largest_exponent, query_gain
from attangent.attention.shapes import Outputs

_is_transforming = torch._C._are_functorch_transforms_active
_is_tracing = torch._C._get_tracing_state


class CallPlan(NamedTuple):
    """How to make calls of one signature.

    Attributes:
        signature: All that the plan depends on.
        call: The call in the general form, for gradients; None if the general path must make these calls.
        library: The compiled code.
        fields: The fields of the compiled call.
        attends: Whether the compiled code attends to the tokens too.
        of_map: Kind of the map's form and number of heads with separate weights; None without weights.
    """

    signature: tuple[Any, ...]
    call: FusedCall | None = None
    library: AttentionLibrary | None = None
    fields: bytes = b""
    attends: bool = False
    of_map: tuple[str, int] | None = None


_plans: WeakKeyDictionary[nn.Module, CallPlan] = WeakKeyDictionary()


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
        plan = _plans.get(state)  # type: ignore[call-overload]
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return None  # the general path explains what is wrong, if anything is
    if plan is None or plan.signature != signature:
        plan = _plans[state] = _planned(signature, *inputs)  # type: ignore[index]
    if plan.call is None:
        return None
    if torch.is_grad_enabled():
        tensors = q, k, v, Z, mass, *plan.call.features.trained()
        if any(tensor.requires_grad for tensor in tensors):
            return FusedAttention.apply(plan.call, *tensors)
    return _attend(plan, plan.call, q, k, v, Z, mass)


def _signature(*inputs: Any) -> tuple[Any, ...]:
    q, k, v, Z, mass, features, causal, scale = inputs
    return (
        *(q.shape, k.shape, v.shape, Z.shape, mass.shape, q.stride(), k.stride(), v.stride()),
        *(q.dtype, k.dtype, v.dtype, Z.dtype, mass.dtype),
        *(q.is_cpu, k.is_cpu, v.is_cpu, Z.is_cpu, mass.is_cpu, Z.is_contiguous(), mass.is_contiguous()),
        *(type(Z), type(mass), features, features.positive, causal, scale, torch.get_num_threads()),
    )


@torch.no_grad()  # a plan may call torch's attention, whose tensors gradient checkpointing would count
def _planned(signature: tuple[Any, ...], *inputs: Any) -> CallPlan:
    q, k, v, Z, mass, features, causal, scale = inputs
    nothing = CallPlan(signature)
    try:
        check_tokens(q, k, v)
        check_state(q, v, features.dim, features.size, Z, mass)
    except AttangentError:
        return nothing
    if q.dtype not in TYPES:
        return nothing
    factor = check_scale(scale, q.shape[-1])
    mask = resolve_mask(None, causal, q, k)
    unmasked = mask.bias is None and mask.empty is None and factor >= LEAST_FUSED_SCALE
    laid_out = q.stride(-1) == k.stride(-1) == v.stride(-1) == 1
    fused = fused_for(q, k, v, mask)
    if not unmasked or not laid_out or not isinstance(fused, CpuFlash):
        return nothing
    call = FusedCall(fused, features, mask, factor, largest_exponent(torch.float32))
    prefix = prepare(features, Z, mass, query_gain(factor, features.dim), call.cap)
    if prefix is None or not (Z.is_contiguous() and mass.is_contiguous()):
        return nothing
    attends = takes_tokens(prefix.library, q, k, v, mask)
    tensors = dict(zip(("out", "lse"), _token_rows(attends, call, q, k, v), strict=True))
    fields = prefix.fields(
        prefix.parts(q), {"q": q, "k": k, "v": v, **tensors}, KeyValues(k, v, mask, factor)
    )
    form, weight, *_ = prefix.affine
    of_map = None if weight is None else (form, len(weight))
    known = KnownFields(fields, {}) if attends else None
    return CallPlan(signature, call._replace(known=known), prefix.library, fields, attends, of_map)


def _token_rows(
    attends: bool, call: FusedCall, q: Tensor, k: Tensor, v: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Return the output and the logsumexp of tokens by torch; if compiled code attends, room for it."""
    if attends:
        return empty_rows(q, v.shape[-1]), None
    out, lse, _ = call.fused.forward(q, k, v, call.mask, call.scale)
    return out, lse


def _attend(plan: CallPlan, call: FusedCall, *inputs: Tensor) -> Outputs | None:
    library = plan.library
    assert library is not None
    q, k, v, Z, mass = inputs
    tensors: dict[str, Tensor | None] = {"q": q, "Z": Z, "mass": mass}
    if plan.of_map is not None:
        affine = readable(call.features, Z)
        if affine is None or affine.weight is None or plan.of_map != (affine.kind, len(affine.weight)):
            return None
        tensors |= {"weight": affine.weight, "bias": affine.bias, "level": affine.level}
    out, tensors["lse"] = _token_rows(plan.attends, call, q, k, v)
    tensors["out"] = out
    if plan.attends:
        tensors |= {"k": k, "v": v}
    done = is_done(library.forward(plan.fields, packed(tensors), library.parallel))
    return out if done else call.fused.forward(q, k, v, call.mask, call.scale)[0]
