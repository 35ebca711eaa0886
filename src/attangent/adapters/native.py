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

_VERSION, _BLOCK, _MOST = 1, 16, 1024
_MOST_PRODUCTS = 1_000_000
"""Beyond it torch, which uses several threads, is faster."""


@cache
def library() -> Any | None:
    """The compiled code; None where the package was installed without a compiler, or from an older source."""
    path = Path(__file__).with_name("libdecoding.so")
    if not path.is_file():
        return None
    try:
        found = ctypes.CDLL(str(path))
        return found if found.decoding_version() == _VERSION else None
    except (OSError, AttributeError):
        return None


def merge_learned(columns: Tensor, bias: Tensor, first: Tensor, rest: Tensor, level: Tensor) -> Merge | None:
    """u = first + (t + t erf t) rest with t = bias + q columns, l = level.

    columns: (H, d, r); bias: (H, 1, r); first: (H, 1, dv); rest: (H, r, dv); level: (1, H, 1, 1).
    """
    columns, bias, rest = _pad(columns, -1), _pad(bias, -1), _pad(_pad(rest, -1), -2)
    return _merge("merge_learned", first.shape[-1], columns, bias, _pad(first, -1), rest, level)


def merge_anchors(columns: Tensor, bias: Tensor, U: Tensor) -> Merge | None:
    """u = softmax(t) U and l = logsumexp(t) with t = bias + q columns.

    columns: (H, d, r); bias: (H, 1, r); U: (H, r, dv).
    """
    columns, bias = _pad(columns, -1), _pad(bias, -1, -torch.inf)
    return _merge("merge_anchors", U.shape[-1], columns, bias, _pad(_pad(U, -1), -2))


def _merge(name: str, values: int, columns: Tensor, bias: Tensor, *others: Tensor) -> Merge | None:
    given = [part.contiguous() for part in (columns, bias, *others)]
    heads, dim, features = columns.shape
    padded = values + -values % _BLOCK
    known = library()
    if known is None or max(features, padded) > _MOST:
        return None
    if any(part.dtype != torch.float32 or part.device.type != "cpu" for part in given):
        return None
    function, sizes_type = getattr(known, name), ctypes.c_int64 * 12
    function.restype, function.argtypes = None, [ctypes.c_void_p] * (4 + len(given))
    most = _MOST_PRODUCTS // (heads * features * (dim + padded))

    def merge(out: Tensor, lse: Tensor, q: Tensor) -> bool:
        batch, q_steps, out_steps, lse_steps = len(q), q.stride(), out.stride(), lse.stride()
        if q.shape[2] != 1 or batch > most or q_steps[3] != 1 or out_steps[3] != 1:
            return False
        if q.dtype != torch.float32 or out.dtype != torch.float32:
            return False
        sizes = sizes_type(
            batch, heads, dim, features, padded, values, *q_steps[:2], *out_steps[:2], *lse_steps[:2]
        )
        weights = [part.data_ptr() for part in given]
        function(out.data_ptr(), lse.data_ptr(), q.data_ptr(), sizes, *weights)
        return True

    return merge


def _pad(tensor: Tensor, dim: int, value: float = 0.0) -> Tensor:
    """With `value` to a multiple of the block."""
    more = -tensor.shape[dim] % _BLOCK
    return F.pad(tensor, (0, 0) * (-1 - dim) + (0, more), value=value)
