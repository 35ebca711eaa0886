"""Attention with a prefix and without gradients: what does not differ from call to call is worked out once.

On a short sequence the checks, the choice of a path and the filling in of a call cost more than the prefix
itself. A `Plan` keeps their outcome for calls alike: it holds numbers and no address, so that nothing of it
goes stale when weights are trained, moved or replaced.
"""

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from attangent.attention._inputs import LEAST_FUSED_SCALE, all_fit, check_scale
from attangent.attention.backends.cpu.call import TYPES, Tokens, empty_rows, is_done
from attangent.attention.backends.cpu.library import Compiled
from attangent.attention.backends.cpu.prepare import prepare, readable, takes_tokens
from attangent.attention.backends.torch.tokens import CpuFlash, fused_for
from attangent.attention.masks import Mask, resolve_mask
from attangent.attention.prefix import Prefix, largest_exponent, query_gain

_flash = CpuFlash().forward
_is_transforming = torch._C._are_functorch_transforms_active
_is_tracing = torch._C._get_tracing_state
_WITHOUT_WEIGHTS = None, None, None


class Plan(NamedTuple):
    """How calls of one kind are made; the general path must make them where there is no compiled code."""

    kind: tuple[Any, ...]
    compiled: Compiled | None = None
    fields: bytes = b""
    mask: Mask = Mask()
    scale: float = 1.0
    attends: bool = False
    """Whether the compiled code attends to the tokens too."""
    of_map: tuple[str, int] | None = None
    """The kind of the map's form and how many heads have weights of their own; None without weights."""


_plans: WeakKeyDictionary[nn.Module, Plan] = WeakKeyDictionary()


def quick_attention(
    q: Tensor, k: Tensor, v: Tensor, state: Prefix, causal: bool, scale: float | None
) -> Tensor | None:
    """`ntk_attention` without mask, dropout and softcap; None where the general path must be taken."""
    if torch.is_grad_enabled() or not (type(q) is type(k) is type(v) is Tensor):
        return None
    if _is_transforming() or _is_tracing() is not None or torch.is_autocast_enabled("cpu"):
        return None
    try:
        Z, mass = state.weights()
        given = q, k, v, Z, mass, state.features, causal, scale
        kind = _kind(*given)
        plan = _plans.get(state)  # type: ignore[call-overload]
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return None  # the general path says what is wrong, if anything is
    if plan is None or plan.kind != kind:
        plan = _plans[state] = _planned(kind, *given)  # type: ignore[index]
    return None if plan.compiled is None else _attend(plan, plan.compiled, q, k, v, state, Z, mass)


def _kind(*given: Any) -> tuple[Any, ...]:
    """All that a plan depends on."""
    q, k, v, Z, mass, features, causal, scale = given
    return (
        *(q.shape, k.shape, v.shape, Z.shape, mass.shape, q.stride(), k.stride(), v.stride()),
        *(q.dtype, k.dtype, v.dtype, Z.dtype, mass.dtype),
        *(q.is_cpu, k.is_cpu, v.is_cpu, Z.is_cpu, mass.is_cpu, Z.is_contiguous(), mass.is_contiguous()),
        *(type(Z), type(mass), features, features.positive, causal, scale, torch.get_num_threads()),
    )


def _planned(kind: tuple[Any, ...], *given: Any) -> Plan:
    q, k, v, Z, mass, features, causal, scale = given
    nothing = Plan(kind)
    if q.dtype not in TYPES or not all_fit(q, k, v, features.dim, features.size, Z, mass):
        return nothing
    factor, mask = check_scale(scale, q.shape[-1]), resolve_mask(None, causal, q, k)
    unmasked = mask.bias is None and mask.empty is None and factor >= LEAST_FUSED_SCALE
    laid_out = q.stride(-1) == k.stride(-1) == v.stride(-1) == 1
    if not unmasked or not laid_out or not isinstance(fused_for(q, k, v, mask), CpuFlash):
        return nothing
    gain, cap = query_gain(factor, features.dim), largest_exponent(torch.float32)
    prefix = prepare(features, Z, mass, gain, cap)
    if prefix is None or not (Z.is_contiguous() and mass.is_contiguous()):
        return nothing
    attends = takes_tokens(prefix.compiled, q, k, v, mask)
    out, lse, *_ = empty_rows(q, v.shape[-1]) if attends else _flash(q, k, v, mask, factor)
    fields = bytes(prefix.fields(q, out, lse, Tokens(k, v, mask, factor)))
    form, weight, *_ = prefix.affine
    of_map = None if weight is None else (form, len(weight))
    return Plan(kind, prefix.compiled, fields, mask, factor, attends, of_map)


def _attend(
    plan: Plan, compiled: Compiled, q: Tensor, k: Tensor, v: Tensor, state: Prefix, Z: Tensor, mass: Tensor
) -> Tensor | None:
    weights: Any = _WITHOUT_WEIGHTS
    if plan.of_map is not None:
        affine = readable(state.features, Z)
        if affine is None or affine.weight is None or plan.of_map != (affine.kind, len(affine.weight)):
            return None
        weights = [None if part is None else part.data_ptr() for part in affine[1:]]
    if plan.attends:
        out, lse = empty_rows(q, v.shape[-1])
        rows, tokens = (q.data_ptr(), out.data_ptr(), lse.data_ptr()), (k.data_ptr(), v.data_ptr())
        prefix = Z.data_ptr(), mass.data_ptr(), *weights
        done = is_done(compiled.add(plan.fields, *rows, *prefix, *tokens, None, compiled.parallel))
        return out if done else _flash(q, k, v, plan.mask, plan.scale)[0]
    out, lse, _ = _flash(q, k, v, plan.mask, plan.scale)
    addresses = q.data_ptr(), out.data_ptr(), lse.data_ptr(), Z.data_ptr(), mass.data_ptr()
    is_done(compiled.add(plan.fields, *addresses, *weights, None, None, None, compiled.parallel))
    return out
