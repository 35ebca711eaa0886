"""Checks of the tensors and options that attention takes."""

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from attangent._core.checks import check_between
from attangent._core.errors import AttangentError

# Fused attention finds the largest scale q.k as scale times the largest q.k: smaller scales underflow.
LEAST_FUSED_SCALE = 1e-30


def check_tokens(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Check q (B, H, Lq, d), k (B, Hkv, Lk, d), v (B, Hkv, Lk, dv): one floating dtype, Hkv divides H."""
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.ndim != 4 or not tensor.is_floating_point():
            raise AttangentError(
                f"{name} is {describe(tensor)}, expected a floating point tensor "
                "(batch, heads, length, head size)"
            )
    if not (q.dtype == k.dtype == v.dtype and q.device == k.device == v.device):
        raise AttangentError(
            f"q, k, v are {describe(q)}, {describe(k)}, {describe(v)}, expected one dtype and one device"
        )
    batch, heads, _, dim = q.shape
    kv_heads = k.shape[1]
    if k.shape[0] != batch or k.shape[3] != dim or v.shape[:3] != k.shape[:3] or dim == 0:
        raise AttangentError(
            f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)} do not fit together, expected "
            "(B, H, Lq, d), (B, Hkv, Lk, d), (B, Hkv, Lk, dv)"
        )
    if kv_heads == 0 or heads % kv_heads:
        raise AttangentError(f"q has {heads} heads and k has {kv_heads}, expected a divisor of {heads}")


def check_state(q: Tensor, v: Tensor, dim: int, size: int, Z: Tensor, mass: Tensor) -> None:
    """Check that Z (Hs, r, dv) and mass (Hs, r) fit the queries, with Hs a divisor of their heads."""
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


def check_merge(q: Tensor, output: Tensor, logsumexp: Tensor) -> None:
    """Check queries (B, H, L, d), an output (B, H, L, dv) and its logsumexp (B, H, L)."""
    tensors = q, output, logsumexp
    valid = all(t.is_floating_point() and t.device == q.device for t in tensors)
    if not valid or not q.shape[:-1] == output.shape[:-1] == logsumexp.shape or q.ndim != 4:
        raise AttangentError(
            f"q, output and logsumexp are {', '.join(map(describe, tensors))}, expected floating point "
            "tensors (B, H, L, d), (B, H, L, dv) and (B, H, L) on one device"
        )


def check_prefix(name: str, value: Tensor, heads: int | None = None, columns: int | None = None) -> Tensor:
    """Return the keys or values of a prefix as (heads, m, d); (m, d) stands for one head."""
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


def check_pair(
    keys: Tensor, values: Tensor, columns: int | None = None, names: tuple[str, str] = ("keys", "values")
) -> tuple[Tensor, Tensor]:
    """Return keys (heads, m, d) and values (heads, m, dv) of a prefix, with as many of each."""
    keys = check_prefix(names[0], keys, columns=columns)
    values = check_prefix(names[1], values, heads=keys.shape[0])
    if keys.shape[1] != values.shape[1]:
        raise AttangentError(
            f"the prefix has {keys.shape[1]} {names[0]} and {values.shape[1]} {names[1]}, "
            "expected as many of each"
        )
    return keys, values


def check_scale(scale: float | None, dim: int) -> float:
    """Return the factor of the logits: 1/sqrt d if `scale` is None."""
    return 1 / math.sqrt(dim) if scale is None else check_between("scale", scale, -1e6, 1e6)


def check_dropout(dropout: float) -> float:
    """Return a dropout rate of at least 0 and below 1."""
    if not 0 <= dropout < 1:
        raise AttangentError(f"dropout is {dropout!r}, expected a number of at least 0 and below 1")
    return float(dropout)


def check_softcap(softcap: float | None) -> float | None:
    """Return a softcap that float32 can divide by, or None."""
    return None if softcap is None else check_between("softcap", softcap, 1e-30, 1e30)


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of the prefix's arithmetic: at least float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def autocast_off(tensor: Tensor) -> AbstractContextManager[Any]:
    """Suspend autocast on the tensor's device if it is enabled."""
    device = tensor.device.type
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


def describe(value: Any) -> str:
    """Describe a tensor as "float32 (2, 8, 16, 64) on cpu", any other value by its type."""
    if not isinstance(value, Tensor):
        return type(value).__name__
    return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)} on {value.device}"
