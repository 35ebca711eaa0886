"""Merging by compiled code, decoding.c: one call in place of seven small operations of torch.

The code trusts its caller, so everything that is handed to it is checked here, and it is taken only if it
gives the right numbers on a small example.
"""

import ctypes
import warnings
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

_VERSION, _BLOCK, _MOST = 4, 16, 1024
_LEARNED, _ANCHORS, _ELU = range(3)
_TYPES = {torch.float32: 0, torch.bfloat16: 1}
_MOST_PRODUCTS = 1_000_000
"""Beyond it torch, which uses several threads, is faster for a prefix that all sequences share."""


class _Prefix(ctypes.Structure):
    """As decoding.c has it."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("kind", "heads", "sharing", "dim", "columns", "values")),
        *((name, ctypes.c_void_p) for name in ("starts", "W", "bias", "Z", "first", "level")),
    ]


class Merge:
    """A prefix that compiled code merges into the attention of single queries.

    Called with out (B, H, 1, dv), lse (B, H, 1) and queries (B, H, 1, d) it changes `out`; False says that
    nothing was done and torch must.
    """

    def __init__(self, known: Any, kept: Sequence[Tensor], sizes: Sequence[int], **numbers: int):
        self.function, self.kept = known.merge, kept
        self.heads, self.dim, self.values = (numbers[name] for name in ("heads", "dim", "values"))
        self.products = numbers["sharing"] * sum(sizes) * (self.dim + numbers["columns"])
        self.prefix = _Prefix(**numbers)
        for name, tensor in zip(("starts", "W", "bias", "Z", "first", "level"), kept, strict=False):
            setattr(self.prefix, name, tensor.data_ptr())
        self.pointer = ctypes.addressof(self.prefix)
        self._shared: dict[int, Any] = {}

    def __call__(self, out: Tensor, lse: Tensor, q: Tensor) -> bool:
        batch = len(q)
        if batch * self.products > _MOST_PRODUCTS or not self.fits(out, lse, q):
            return False
        rows = self._shared.get(batch)
        if rows is None:
            rows = self._shared[batch] = (ctypes.c_void_p * batch)(*[self.pointer] * batch)
        self.function(out.data_ptr(), lse.data_ptr(), q.data_ptr(), batch, _TYPES[q.dtype], rows)
        return True

    def fits(self, out: Tensor, lse: Tensor, q: Tensor) -> bool:
        """Whether the compiled code can take these."""
        rows = len(q), self.heads, 1
        return (
            q.dtype in _TYPES
            and out.dtype == q.dtype
            and lse.dtype == torch.float32
            and q.shape == (*rows, self.dim)
            and out.shape == (*rows, self.values)
            and lse.shape == rows
            and q.is_contiguous()
            and out.is_contiguous()
            and lse.is_contiguous()
            and q.device.type == "cpu"
        )


class MergeRows:
    """Another prefix for each sequence of a batch, None for none; called as `Merge` is."""

    def __init__(self, merges: Sequence[Merge | None]):
        self.own = {merge.pointer: merge for merge in merges if merge is not None}
        pointers = (None if merge is None else merge.pointer for merge in merges)
        self.rows = (ctypes.c_void_p * len(merges))(*pointers)

    def __call__(self, out: Tensor, lse: Tensor, q: Tensor) -> bool:
        merges = self.own.values()
        if len(self.rows) != len(q) or not merges or not all(merge.fits(out, lse, q) for merge in merges):
            return False
        function = next(iter(merges)).function
        function(out.data_ptr(), lse.data_ptr(), q.data_ptr(), len(q), _TYPES[q.dtype], self.rows)
        return True


def merge_learned(
    W: Tensor, bias: Tensor, first: Tensor, Z: Tensor, level: Tensor, heads: int | None = None
) -> Merge | None:
    """u = first + (t + t erf t) Z with t = bias + q W, l = level, for `heads` heads of queries.

    W: (H, d, r); bias: (H, 1, r); first: (H, 1, dv); Z: (H, r, dv); level: (1, H, 1, 1); H divides `heads`.
    """
    known = library()
    return None if known is None else _learned(known, W, bias, first, Z, level, heads or len(W))


def merge_anchors(
    W: Iterable[Tensor], bias: Iterable[Tensor], U: Iterable[Tensor], heads: int | None = None
) -> Merge | None:
    """u = softmax(t) U and l = logsumexp(t) with t = bias + q W, for `heads` heads of queries.

    For each head of the prefix, of which every one has its own r: W (d, r); bias (1, r); U (r, dv).
    """
    known = library()
    return None if known is None else _anchors(known, list(W), list(bias), list(U), heads)


def merge_elu(Z: Tensor, masses: Tensor, factor: float, heads: int) -> Merge | None:
    """u = phi Z / phi k and l = log(phi k) with phi = elu(factor q) + 1, for `heads` heads of queries.

    Z: (H, d, dv); masses k: (H, d), none below 0; H divides `heads`.
    """
    known = library()
    return None if known is None else _elu(known, Z, masses, factor, heads)


def _elu(known: Any, Z: Tensor, masses: Tensor, factor: float, heads: int) -> Merge | None:
    no_weights = [Z.new_empty(Z.shape[1], 0)] * len(Z)
    padded = [_pad(each.unsqueeze(0), -1) for each in masses]
    return _merge(known, _ELU, no_weights, padded, list(Z), heads, Z.new_empty(0), Z.new_tensor([factor]))


def _learned(
    known: Any, W: Tensor, bias: Tensor, first: Tensor, Z: Tensor, level: Tensor, heads: int
) -> Merge | None:
    others = _pad(first, -1), level
    return _merge(known, _LEARNED, list(W), [_pad(each, -1) for each in bias], list(Z), heads, *others)


def _anchors(
    known: Any, W: list[Tensor], bias: list[Tensor], U: list[Tensor], heads: int | None = None
) -> Merge | None:
    padded = [_pad(each, -1, -torch.inf) for each in bias]
    return _merge(known, _ANCHORS, W, padded, U, heads or len(W))


def _merge(
    known: Any,
    kind: int,
    W: list[Tensor],
    bias: list[Tensor],
    Z: list[Tensor],
    heads: int,
    *others: Tensor,
) -> Merge | None:
    if not W or heads % len(W) or not _are_weights([*W, *bias, *Z, *others]):
        return None
    dim, values = W[0].shape[0], Z[0].shape[-1]
    sizes, columns = [each.shape[-1] for each in bias], values + -values % _BLOCK
    if max(dim, columns) > _MOST or min(dim, values, *sizes) < 1:
        return None
    kept = [
        torch.tensor([0, *accumulate(sizes)], dtype=torch.int64),
        torch.cat([_in_blocks(each) for each in W]),
        torch.cat([each.flatten() for each in bias]),
        torch.cat([_pad(_pad(each, -1), -2).flatten() for each in Z]),
        *(each.contiguous() for each in others),
    ]
    numbers = {"kind": kind, "heads": heads, "sharing": heads // len(W), "dim": dim}
    return Merge(known, kept, sizes, **numbers, columns=columns, values=values)


def _in_blocks(W: Tensor) -> Tensor:
    """Block after block of columns, each (dim, block)."""
    padded = _pad(W, -1)
    return padded.unflatten(-1, (padded.shape[-1] // _BLOCK, _BLOCK)).transpose(0, 1).flatten()


def _are_weights(tensors: Sequence[Tensor]) -> bool:
    return all(tensor.dtype == torch.float32 and tensor.device.type == "cpu" for tensor in tensors)


def _pad(tensor: Tensor, dim: int, value: float = 0.0) -> Tensor:
    """With `value` to a multiple of the block."""
    more = -tensor.shape[dim] % _BLOCK
    return F.pad(tensor, (0, 0) * (-1 - dim) + (0, more), value=value) if more else tensor


@cache
def library() -> Any | None:
    """The compiled code; None where the package was installed without a compiler, or from an older source.

    Code that gives wrong numbers on a small example is left alone, with a warning.
    """
    path = Path(__file__).with_name("decoding.lib")  # as an .so it would pass for a module of Python
    if not path.is_file():
        return None
    try:
        found = ctypes.CDLL(str(path))
        if found.decoding_version() != _VERSION:
            return None
        pointers, numbers = [ctypes.c_void_p] * 3, [ctypes.c_int64, ctypes.c_int]
        found.merge.restype, found.merge.argtypes = None, [*pointers, *numbers, ctypes.c_void_p]
    except (OSError, AttributeError):
        return None
    if not _is_right(found):
        warnings.warn(
            f"the compiled code in {path} gives wrong numbers here and is not used, torch is: decoding will "
            "be slower; install attangent again to compile it anew",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return found


def _is_right(known: Any) -> bool:
    """Whether the code does on three sequences, one of each kind of prefix, what the formulas say."""
    draw = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=draw)

    q, out, lse = drawn(3, 2, 1, 5), drawn(3, 2, 1, 3), drawn(3, 2, 1)
    W, bias, first, Z, level = (
        drawn(1, 5, 17),
        drawn(1, 1, 17),
        drawn(1, 1, 3),
        drawn(1, 17, 3),
        drawn(1, 1, 1, 1),
    )
    sizes = 4, 300
    columns, biases, U = ([drawn(*(a or r, b or r)) for r in sizes] for a, b in ((5, 0), (1, 0), (0, 3)))
    learned = _learned(known, W, bias, first, Z, level, 2)
    anchors = _anchors(known, columns, biases, U, 2)
    t = q[:1] @ W + bias
    u = [first + (t + t * t.erf()) @ Z]
    t = [q[1, head] @ columns[head] + biases[head] for head in range(2)]
    u.append(torch.stack([t[head].softmax(-1) @ U[head] for head in range(2)])[None])
    levels = [level.expand(1, 2, 1, 1), torch.stack([each.logsumexp(-1, keepdim=True) for each in t])[None]]
    of_elu, masses = drawn(2, 5, 3), drawn(2, 5).abs()
    phi = F.elu(0.7 * q[2:]) + 1
    mass = phi @ masses.unsqueeze(-1)
    u.append(phi @ of_elu / mass)
    levels.append(mass.log())
    wanted = torch.lerp(out, torch.cat(u), (torch.cat(levels) - lse.unsqueeze(-1)).sigmoid())
    merged = MergeRows([learned, anchors, _elu(known, of_elu, masses, 0.7, 2)])(out, lse, q)
    return merged and torch.allclose(out, wanted, rtol=1e-4, atol=1e-5)
