"""Merge a prefix into the attention of single queries by compiled code, decoding.c.

One call replaces seven small torch operations. The C code trusts its caller. So this module checks everything
it reads, and uses the code only after it has reproduced the formulas on a small example.
"""

import ctypes
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import accumulate
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from attangent.attention.backends.cpu.library import open_library, warn_of_wrong_numbers

_VERSION = 4
_BLOCK = 16
_MOST = 1024
_LEARNED, _ANCHORS, _ELU = range(3)
_TYPES = {torch.float32: 0, torch.bfloat16: 1}
# Above this torch, which uses several threads, is faster for a prefix that all sequences share.
_MOST_PRODUCTS = 1_000_000


class _PrefixFields(ctypes.Structure):
    """`Prefix` of decoding.c."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("kind", "heads", "sharing", "dim", "columns", "values")),
        *((name, ctypes.c_void_p) for name in ("starts", "W", "bias", "Z", "first", "level")),
    ]


class Merge:
    """A prefix that compiled code merges into the attention of single queries.

    Called with out (B, H, 1, dv), lse (B, H, 1) and queries (B, H, 1, d), it changes `out` in place. It
    returns False if it did nothing and torch must merge.
    """

    def __init__(self, function: Any, tensors: Sequence[Tensor], sizes: Sequence[int], **numbers: int):
        self.function = function
        self.tensors = tensors
        self.heads = numbers["heads"]
        self.dim = numbers["dim"]
        self.values = numbers["values"]
        self.products = numbers["sharing"] * sum(sizes) * (self.dim + numbers["columns"])
        self.prefix = _PrefixFields(**numbers)
        for name, tensor in zip(("starts", "W", "bias", "Z", "first", "level"), tensors, strict=False):
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
        """Return whether the compiled code can read these."""
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
    """A different prefix per sequence of a batch, None for no prefix; called like `Merge`."""

    def __init__(self, merges: Sequence[Merge | None]):
        self.merges = {merge.pointer: merge for merge in merges if merge is not None}
        pointers = (None if merge is None else merge.pointer for merge in merges)
        self.rows = (ctypes.c_void_p * len(merges))(*pointers)

    def __call__(self, out: Tensor, lse: Tensor, q: Tensor) -> bool:
        merges = self.merges.values()
        if len(self.rows) != len(q) or not merges or not all(merge.fits(out, lse, q) for merge in merges):
            return False
        function = next(iter(merges)).function
        function(out.data_ptr(), lse.data_ptr(), q.data_ptr(), len(q), _TYPES[q.dtype], self.rows)
        return True


def merge_learned(
    W: Float[Tensor, "heads dim size"],
    bias: Float[Tensor, "heads 1 size"],
    first: Float[Tensor, "heads 1 values"],
    Z: Float[Tensor, "heads size values"],
    level: Tensor,
    heads: int | None = None,
    code: Any = None,
) -> Merge | None:
    """Merge u = first + (t + t erf t) Z with t = bias + q W and l = level, for `heads` heads of queries.

    The heads of the weights divide `heads`; `code` is the compiled code, by default that of the package.
    """
    biases = [_pad(each, -1) for each in bias]
    return _merge(code, _LEARNED, list(W), biases, list(Z), heads or len(W), _pad(first, -1), level)


def merge_anchors(
    W: Iterable[Float[Tensor, "dim _"]],
    bias: Iterable[Float[Tensor, "1 _"]],
    U: Iterable[Float[Tensor, "_ values"]],
    heads: int | None = None,
    code: Any = None,
) -> Merge | None:
    """Merge u = softmax(t) U and l = logsumexp(t) with t = bias + q W, for `heads` heads of queries.

    There is one W, bias and U per head of the prefix, each with its own number of tokens.
    """
    columns = list(W)
    padded = [_pad(each, -1, -torch.inf) for each in bias]
    return _merge(code, _ANCHORS, columns, padded, list(U), heads or len(columns))


def merge_elu(
    Z: Float[Tensor, "heads dim values"],
    masses: Float[Tensor, "heads dim"],
    factor: float,
    heads: int,
    code: Any = None,
) -> Merge | None:
    """Merge u = phi Z / phi k and l = log(phi k) with phi = elu(factor q) + 1, for `heads` heads of queries.

    No mass is negative; the heads of the weights divide `heads`.
    """
    no_weights = [Z.new_empty(Z.shape[1], 0)] * len(Z)
    padded = [_pad(each.unsqueeze(0), -1) for each in masses]
    return _merge(code, _ELU, no_weights, padded, list(Z), heads, Z.new_empty(0), Z.new_tensor([factor]))


def _merge(
    code: Any, kind: int, W: list[Tensor], bias: list[Tensor], Z: list[Tensor], heads: int, *others: Tensor
) -> Merge | None:
    code = library() if code is None else code
    if code is None or not W or heads % len(W) or not _are_weights([*W, *bias, *Z, *others]):
        return None
    dim = W[0].shape[0]
    values = Z[0].shape[-1]
    sizes = [each.shape[-1] for each in bias]
    columns = values + -values % _BLOCK
    if max(dim, columns) > _MOST or min(dim, values, *sizes) < 1:
        return None
    tensors = [
        torch.tensor([0, *accumulate(sizes)], dtype=torch.int64),
        torch.cat([_in_blocks(each) for each in W]),
        torch.cat([each.flatten() for each in bias]),
        torch.cat([_pad(_pad(each, -1), -2).flatten() for each in Z]),
        *(each.contiguous() for each in others),
    ]
    numbers = {"kind": kind, "heads": heads, "sharing": heads // len(W), "dim": dim}
    return Merge(code.merge, tensors, sizes, **numbers, columns=columns, values=values)


def _in_blocks(W: Float[Tensor, "dim size"]) -> Float[Tensor, " numbers"]:
    """Lay W out block after block of columns, each (dim, block)."""
    padded = _pad(W, -1)
    return padded.unflatten(-1, (padded.shape[-1] // _BLOCK, _BLOCK)).transpose(0, 1).flatten()


def _are_weights(tensors: Sequence[Tensor]) -> bool:
    return all(tensor.dtype == torch.float32 and tensor.device.type == "cpu" for tensor in tensors)


def _pad(tensor: Tensor, dim: int, value: float = 0.0) -> Tensor:
    """Pad with `value` to a multiple of the block."""
    more = -tensor.shape[dim] % _BLOCK
    return F.pad(tensor, (0, 0) * (-1 - dim) + (0, more), value=value) if more else tensor


@cache
def library() -> Any | None:
    """Load decoding.lib; None if there is none of this version.

    Warn and return None if it gives wrong numbers on a small example.
    """
    code = open_library(__file__, "decoding", _VERSION)
    if code is None:
        return None
    code.merge.restype = None
    code.merge.argtypes = [*[ctypes.c_void_p] * 3, ctypes.c_int64, ctypes.c_int, ctypes.c_void_p]
    if _is_right(code):
        return code
    warn_of_wrong_numbers("decoding")
    return None


def _is_right(code: Any) -> bool:
    """Return whether the code reproduces the formulas on three sequences, one per kind of prefix."""
    draw = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=draw)

    q = drawn(3, 2, 1, 5)
    out = drawn(3, 2, 1, 3)
    lse = drawn(3, 2, 1)
    W = drawn(1, 5, 17)
    bias = drawn(1, 1, 17)
    first = drawn(1, 1, 3)
    Z = drawn(1, 17, 3)
    level = drawn(1, 1, 1, 1)
    t = q[:1] @ W + bias
    expected = [(first + (t + t * t.erf()) @ Z, level.expand(1, 2, 1, 1))]
    tokens = [(drawn(5, r), drawn(1, r), drawn(r, 3)) for r in (4, 300)]
    scores = [q[1, head] @ c + b for head, (c, b, _) in enumerate(tokens)]
    u = torch.stack([t.softmax(-1) @ U for t, (_, _, U) in zip(scores, tokens, strict=True)])[None]
    expected.append((u, torch.stack([t.logsumexp(-1, keepdim=True) for t in scores])[None]))
    of_elu = drawn(2, 5, 3)
    masses = drawn(2, 5).abs()
    phi = F.elu(0.7 * q[2:]) + 1
    mass = phi @ masses.unsqueeze(-1)
    expected.append((phi @ of_elu / mass, mass.log()))
    u, levels = (torch.cat(each) for each in zip(*expected, strict=True))
    wanted = torch.lerp(out, u, (levels - lse.unsqueeze(-1)).sigmoid())
    learned = merge_learned(W, bias, first, Z, level, 2, code)
    columns, biases, values = zip(*tokens, strict=True)
    anchors = merge_anchors(columns, biases, values, 2, code)
    merged = MergeRows([learned, anchors, merge_elu(of_elu, masses, 0.7, 2, code)])(out, lse, q)
    return merged and torch.allclose(out, wanted, rtol=1e-4, atol=1e-5)
