"""Merging by compiled code, decoding.c: one call in place of seven small operations of torch."""

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Merge = Callable[[Tensor, Tensor, Tensor], bool]
"""Merges the prefix into out (B, H, 1, dv), given lse (B, H, 1) and queries (B, H, 1, d).

False says that nothing was done and torch must.
"""

_VERSION, _BLOCK, _MOST = 2, 16, 1024
_TYPES = {torch.float32: 0, torch.bfloat16: 1}
_MOST_PRODUCTS = 1_000_000
"""Beyond it torch, which uses several threads, is faster."""


@cache
def library() -> Any | None:
    """The compiled code; None where the package was installed without a compiler, or from an older source."""
    path = Path(__file__).with_name("decoding.lib")  # as an .so it would pass for a module of Python
    if not path.is_file():
        return None
    try:
        found = ctypes.CDLL(str(path))
        return found if found.decoding_version() == _VERSION else None
    except (OSError, AttributeError):
        return None


class _Prefix(ctypes.Structure):
    """As decoding.c has it, and the tensors it points to."""

    kept: list[Tensor]
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("heads", "dim", "features", "columns", "values")),
        *((name, ctypes.c_void_p) for name in ("W", "bias", "Z", "first", "level")),
    ]


def merge_learned(W: Tensor, bias: Tensor, first: Tensor, Z: Tensor, level: Tensor) -> Merge | None:
    """u = first + (t + t erf t) Z with t = bias + q W, l = level.

    W: (H, d, r); bias: (H, 1, r); first: (H, 1, dv); Z: (H, r, dv); level: (1, H, 1, 1).
    """
    return _merge("merge_learned", W, _pad(bias, -1), Z, _pad(first, -1), level)


def merge_anchors(W: Tensor, bias: Tensor, U: Tensor) -> Merge | None:
    """u = softmax(t) U and l = logsumexp(t) with t = bias + q W.

    W: (H, d, r); bias: (H, 1, r); U: (H, r, dv).
    """
    return _merge("merge_anchors", W, _pad(bias, -1, -torch.inf), U)


def _merge(name: str, W: Tensor, bias: Tensor, Z: Tensor, *others: Tensor) -> Merge | None:
    values, known = Z.shape[-1], library()
    if known is None:
        return None
    kept = [part.contiguous() for part in (_pad(W, -1), bias, _pad(_pad(Z, -1), -2), *others)]
    (heads, dim, features), columns = kept[0].shape, kept[2].shape[-1]
    if max(dim, features, columns) > _MOST:
        return None
    if any(part.dtype != torch.float32 or part.device.type != "cpu" for part in kept):
        return None
    function, most = getattr(known, name), _MOST_PRODUCTS // (heads * features * (dim + columns))
    pointers, numbers = [ctypes.c_void_p] * 3, [ctypes.c_int64, ctypes.c_int]
    function.restype, function.argtypes = None, [*pointers, *numbers, ctypes.c_void_p]
    prefix = _Prefix(heads, dim, features, columns, values, *(part.data_ptr() for part in kept))
    prefix.kept = kept
    pointer = ctypes.byref(prefix)

    def merge(out: Tensor, lse: Tensor, q: Tensor) -> bool:
        (batch, _, length, _), kind = q.shape, _TYPES.get(q.dtype)
        if length != 1 or batch > most or kind is None or out.dtype != q.dtype:
            return False
        if not (q.is_contiguous() and out.is_contiguous() and lse.is_contiguous()):
            return False
        function(out.data_ptr(), lse.data_ptr(), q.data_ptr(), batch, kind, pointer)
        return True

    return merge


def _pad(tensor: Tensor, dim: int, value: float = 0.0) -> Tensor:
    """With `value` to a multiple of the block."""
    more = -tensor.shape[dim] % _BLOCK
    return F.pad(tensor, (0, 0) * (-1 - dim) + (0, more), value=value)
