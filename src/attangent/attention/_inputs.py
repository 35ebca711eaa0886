"""Checks of what a user hands to an attention, made before any work is done."""

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from attangent._core.errors import AttangentError

LARGEST_SCALE = 1e6
LEAST_FUSED_SCALE = 1e-30
"""Fused attention takes the largest q.k for the largest scale q.k, and divides by the scale."""
_SOFTCAPS = 1e-30, 1e30


def all_fit(q: Any, k: Any, v: Any, dim: int, size: int, Z: Any, mass: Any) -> bool:
    """Whether tokens and state fit together: quick, where `check_tokens` and `check_state` explain."""
    try:
        return _all_fit(q, k, v, dim, size, Z, mass)
    except (AttributeError, ValueError, TypeError):
        return False


def _all_fit(q: Any, k: Any, v: Any, dim: int, size: int, Z: Any, mass: Any) -> bool:
    batch, heads, _, columns = q.shape
    _, kv_heads, length, _ = k.shape
    state_heads, _, value_size = Z.shape
    return (
        columns == dim
        and k.shape == (batch, kv_heads, length, dim)
        and v.shape == (batch, kv_heads, length, value_size)
        and Z.shape == (state_heads, size, value_size)
        and mass.shape == (state_heads, size)
        and min(kv_heads, state_heads) > 0
        and heads % kv_heads == heads % state_heads == 0
        and q.is_floating_point()
        and q.dtype == k.dtype == v.dtype
        and q.device == k.device == v.device == Z.device
    )


def check_tokens(q: Any, k: Any, v: Any) -> None:
    """q (B, H, Lq, d), k (B, Hkv, Lk, d), v (B, Hkv, Lk, dv) of one floating dtype, Hkv dividing H."""
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if not isinstance(tensor, Tensor) or tensor.ndim != 4 or not tensor.is_floating_point():
            raise AttangentError(
                f"{name} is {describe(tensor)}, expected a floating point tensor "
                "(batch, heads, length, head size)"
            )
    if not (q.dtype == k.dtype == v.dtype and q.device == k.device == v.device):
        raise AttangentError(
            f"q, k, v are {describe(q)}, {describe(k)}, {describe(v)}, expected one dtype and one device"
        )
    (batch, heads, _, dim), shared = q.shape, k.shape[:3]
    if k.shape[0] != batch or k.shape[3] != dim or v.shape[:3] != shared or dim == 0:
        raise AttangentError(
            f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)} do not fit together, expected "
            "(B, H, Lq, d), (B, Hkv, Lk, d), (B, Hkv, Lk, dv)"
        )
    if shared[1] == 0 or heads % shared[1]:
        raise AttangentError(f"q has {heads} heads and k has {shared[1]}, expected a divisor of {heads}")


def check_state(q: Tensor, v: Tensor, dim: int, size: int, Z: Tensor, mass: Tensor) -> None:
    """A state whose Z (Hs, r, dv) and mass (Hs, r) fit queries q, with Hs dividing the heads of q."""
    heads = Z.shape[0] if Z.ndim == 3 else 0
    if dim != q.shape[-1] or Z.shape != (heads, size, v.shape[-1]) or mass.shape != (heads, size):
        raise AttangentError(
            f"the state has features of dimension {dim}, Z {tuple(Z.shape)} and k {tuple(mass.shape)}, "
            f"expected dimension {q.shape[-1]}, Z (heads, {size}, {v.shape[-1]}) and k (heads, {size})"
        )
    if heads == 0 or q.shape[1] % heads:
        raise AttangentError(
            f"the state has {heads} heads and q has {q.shape[1]}, expected a divisor of {q.shape[1]}"
        )
    if Z.device != q.device:
        raise AttangentError(
            f"the state is on {Z.device} and q on {q.device}: move it with state.to(q.device)"
        )


def check_is_prefix(state: Any) -> None:
    """Something with a feature map and weights, such as a PrefixState."""
    if not hasattr(type(state), "weights"):
        raise AttangentError(f"state is {describe(state)}, expected a prefix such as a PrefixState")


def check_flag(name: str, value: Any) -> bool:
    """`value` as True or False."""
    if not isinstance(value, bool | int):
        raise AttangentError(f"{name} is {describe(value)}, expected True or False")
    return bool(value)


def check_merge(q: Any, output: Any, logsumexp: Any) -> None:
    """Queries (B, H, L, d) with the output (B, H, L, dv) and logsumexp (B, H, L) of token attention."""
    tensors = q, output, logsumexp
    whole = all(isinstance(t, Tensor) and t.is_floating_point() for t in tensors)
    whole = whole and q.device == output.device == logsumexp.device
    if not whole or not q.shape[:-1] == output.shape[:-1] == logsumexp.shape or q.ndim != 4:
        raise AttangentError(
            f"q, output and logsumexp are {', '.join(map(describe, tensors))}, expected floating point "
            "tensors (B, H, L, d), (B, H, L, dv) and (B, H, L) on one device"
        )


def check_prefix(name: str, value: Any, heads: int | None = None, columns: int | None = None) -> Tensor:
    """Keys or values of a prefix, (heads, m, d), or (m, d) for one head, as (heads, m, d)."""
    if not isinstance(value, Tensor) or not value.is_floating_point() or value.ndim not in (2, 3):
        raise AttangentError(
            f"{name} is {describe(value)}, expected a floating point tensor (heads, length, size)"
        )
    value = value.unsqueeze(0) if value.ndim == 2 else value
    if (heads is not None and value.shape[0] != heads) or (columns is not None and value.shape[2] != columns):
        raise AttangentError(
            f"{name} has shape {tuple(value.shape)}, "
            f"expected ({heads or 'heads'}, length, {columns or 'size'})"
        )
    return value


def check_scale(scale: float | None, dim: int) -> float:
    """The factor of the logits: 1/sqrt d unless given."""
    if scale is None:
        return 1 / math.sqrt(dim)
    if not isinstance(scale, int | float) or not abs(scale) <= LARGEST_SCALE:
        raise AttangentError(
            f"scale is {scale!r}, expected a number from {-LARGEST_SCALE:g} to {LARGEST_SCALE:g}, "
            "or None for 1/sqrt d"
        )
    return float(scale)


def check_share(name: str, value: float) -> float:
    """`value` as a number from 0 to below 1."""
    if not isinstance(value, int | float) or not 0 <= value < 1:
        raise AttangentError(f"{name} is {value!r}, expected a number of at least 0 and below 1")
    return float(value)


def check_softcap(softcap: float | None) -> float | None:
    """`softcap` as a number above zero that float32 can divide by, or None."""
    low, high = _SOFTCAPS
    if softcap is not None and not (isinstance(softcap, int | float) and low <= softcap <= high):
        raise AttangentError(
            f"softcap is {softcap!r}, expected a number above 0, from {low:g} to {high:g}, or None"
        )
    return softcap


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of the prefix's arithmetic: at least float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def autocast_off(tensor: Tensor) -> AbstractContextManager[Any]:
    """Suspends autocast on the tensor's device where it is on."""
    device = tensor.device.type
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


def describe(value: Any) -> str:
    """A tensor as "float32 (2, 8, 16, 64) on cpu", anything else by its type."""
    if not isinstance(value, Tensor):
        return type(value).__name__
    return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)} on {value.device}"
