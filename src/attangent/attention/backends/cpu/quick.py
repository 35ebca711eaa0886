"""Attention with a prefix and without gradients: work that is the same in every call is done once.

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
from attangent.attention.backends.cpu.library import TYPES, AttentionLibrary, empty_rows, is_done
from attangent.attention.backends.cpu.prepare import prepare, readable, takes_tokens
from attangent.attention.backends.torch.tokens import CpuFlash, KeyValues, fused_for
from attangent.attention.masks import Mask, resolve_mask
from attangent.attention.prefix import Prefix, largest_exponent, query_gain
from attangent.attention.shapes import Outputs

_flash = CpuFlash().forward
_is_transforming = torch._C._are_functorch_transforms_active
_is_tracing = torch._C._get_tracing_state
_WITHOUT_WEIGHTS = None, None, None


class CallPlan(NamedTuple):
    """How to make calls of one signature.

    Attributes:
        signature: All that the plan depends on.
        library: The compiled code; None if the general path must make these calls.
        fields: The fields of the call without addresses.
        mask: The resolved mask.
        scale: Factor of the logits.
        attends: Whether the compiled code attends to the tokens too.
        of_map: Kind of the map's form and number of heads with separate weights; None without weights.
    """

    signature: tuple[Any, ...]
    library: AttentionLibrary | None = None
    fields: bytes = b""
    mask: Mask = Mask()
    scale: float = 1.0
    attends: bool = False
    of_map: tuple[str, int] | None = None


_plans: WeakKeyDictionary[nn.Module, CallPlan] = WeakKeyDictionary()


def quick_attention(
    q: Tensor, k: Tensor, v: Tensor, state: Prefix, causal: bool, scale: float | None
) -> Outputs | None:
    """Compute `ntk_attention` without mask, dropout and softcap; None if the general path must do it."""
    if torch.is_grad_enabled() or not (type(q) is type(k) is type(v) is Tensor):
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
    return None if plan.library is None else _attend(plan, plan.library, state, q, k, v, Z, mass)


def _signature(*inputs: Any) -> tuple[Any, ...]:
    q, k, v, Z, mass, features, causal, scale = inputs
    return (
        *(q.shape, k.shape, v.shape, Z.shape, mass.shape, q.stride(), k.stride(), v.stride()),
        *(q.dtype, k.dtype, v.dtype, Z.dtype, mass.dtype),
        *(q.is_cpu, k.is_cpu, v.is_cpu, Z.is_cpu, mass.is_cpu, Z.is_contiguous(), mass.is_contiguous()),
        *(type(Z), type(mass), features, features.positive, causal, scale, torch.get_num_threads()),
    )


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
    if not unmasked or not laid_out or not isinstance(fused_for(q, k, v, mask), CpuFlash):
        return nothing
    cap = largest_exponent(torch.float32)
    prefix = prepare(features, Z, mass, query_gain(factor, features.dim), cap)
    if prefix is None or not (Z.is_contiguous() and mass.is_contiguous()):
        return nothing
    attends = takes_tokens(prefix.library, q, k, v, mask)
    out, lse, *_ = empty_rows(q, v.shape[-1]) if attends else _flash(q, k, v, mask, factor)
    fields = bytes(prefix.fields(q, out, lse, KeyValues(k, v, mask, factor)))
    form, weight, *_ = prefix.affine
    of_map = None if weight is None else (form, len(weight))
    return CallPlan(signature, prefix.library, fields, mask, factor, attends, of_map)


def _attend(plan: CallPlan, library: AttentionLibrary, state: Prefix, *tensors: Tensor) -> Outputs | None:
    q, k, v, Z, mass = tensors
    weights: Any = _WITHOUT_WEIGHTS
    if plan.of_map is not None:
        affine = readable(state.features, Z)
        if affine is None or affine.weight is None or plan.of_map != (affine.kind, len(affine.weight)):
            return None
        weights = [None if tensor is None else tensor.data_ptr() for tensor in affine[1:]]
    prefix = Z.data_ptr(), mass.data_ptr(), *weights
    if plan.attends:
        out, lse = empty_rows(q, v.shape[-1])
        rows = q.data_ptr(), out.data_ptr(), lse.data_ptr()
        done = library.add(plan.fields, *rows, *prefix, k.data_ptr(), v.data_ptr(), None, library.parallel)
        return out if is_done(done) else _flash(q, k, v, plan.mask, plan.scale)[0]
    out, lse, _ = _flash(q, k, v, plan.mask, plan.scale)
    rows = q.data_ptr(), out.data_ptr(), lse.data_ptr()
    is_done(library.add(plan.fields, *rows, *prefix, None, None, None, library.parallel))
    return out
