"""Both passes of a prefix over many queries, by the compiled code of rows.c.

Forward, in place; given keys and values, it also computes the token attention o and lse itself:

    out = keep o + add phi(q) Z,  keep = e^(lse - t),  add = e^(-t),  t = log(e^lse + phi(q) k)

Backward as in `torch.prefix_side`; given keys and values, also of the tokens. It knows the maps that have
an `Affine` form:

    phi(x) = e^level [1, act(W x + b)]  or  e^level exp(W x + b)  or  elu(x d^(-1/4)) + 1

The C code trusts its caller: `prepare` checks everything that it reads.
"""

import ctypes
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attangent.attention.backends.torch.tokens import GradientRows, KeyValues
from attangent.attention.features.base import Affine, FeatureMap
from attangent.attention.shapes import Outputs, Queries, RowNumbers, StateMass, StateZ

VERSION = 4
KINDS = {"elu": 0, "learned-elu": 1, "learned-gelu": 2, "exponential": 3}
TYPES = {torch.float32: 0, torch.bfloat16: 1}
# Return code of a forward pass over tokens with a prefix of zeros: nothing was computed.
_EMPTY_PREFIX = 2
# Least rows per task: setting up a prefix costs as much as a few of them.
_FEWEST_ROWS = 96


class Strides(ctypes.Structure):
    """`Strides` of prefix.h."""

    _fields_ = [(name, ctypes.c_int64) for name in ("batch", "row", "head")]


_NUMBERS = (
    *("kind", "bfloat", "positive", "batch", "heads", "sharing", "rows", "dim", "size", "values"),
    *("parts", "threads", "weight_step", "keys", "key_sharing", "causal"),
)
_STRIDED = "q", "out", "lse", "grad", "grad_q", "k", "v", "added", "grad_k", "grad_v"
_POINTERS = (
    *("q", "out", "lse", "total", "sign", "Z", "mass", "weight", "bias", "level"),
    *("grad", "grad_q", "grad_Z", "grad_mass", "grad_weight", "grad_bias", "k", "v", "added"),
    *("grad_k", "grad_v"),
)
_pack = Struct(f"{len(_POINTERS)}P").pack
Tensors = Mapping[str, Tensor | None]


class CallFields(ctypes.Structure):
    """`Call` of prefix.h."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in _NUMBERS),
        *((f"{name}_step", Strides) for name in _STRIDED),
        *((name, ctypes.c_void_p) for name in _POINTERS),
        *((name, ctypes.c_double) for name in ("gain", "cap", "scale")),
    ]


class AttentionLibrary(NamedTuple):
    """The functions of attention.lib.

    Attributes:
        forward: Forward pass of `CallFields` and `addresses`, both as bytes, on the threads of `parallel`.
        backward: Backward pass, called likewise.
        takes_tokens: Whether both passes can attend to keys and values too.
        parallel: The GOMP_parallel function that torch uses; None if there is none.
    """

    forward: Callable[[bytes, bytes, Any], int]
    backward: Callable[[bytes, bytes, Any], int]
    takes_tokens: bool
    parallel: Any


def open_library(module: str, name: str, version: int) -> Any | None:
    """Load NAME.lib next to a module; None if it was not compiled, or from another version of the source."""
    path = Path(module).with_name(f"{name}.lib")  # as an .so it would look like a Python module
    try:
        library = ctypes.CDLL(str(path))
        return library if library[f"{name}_version"]() == version else None
    except (OSError, AttributeError):
        return None


def warn_of_wrong_numbers(name: str) -> None:
    """Warn that a library fails its check, so that torch does its work."""
    warnings.warn(
        f"{name}.lib gives wrong numbers on this machine, so torch is used instead, which is slower; "
        "reinstall attangent to compile it again",
        RuntimeWarning,
        stacklevel=3,
    )


@cache
def load() -> AttentionLibrary | None:
    """Load attention.lib; None if there is none of this version."""
    library = open_library(__file__, "attention", VERSION)
    if library is None:
        return None
    library.attention_call_size.restype = ctypes.c_size_t
    if library.attention_call_size() != ctypes.sizeof(CallFields):
        return None
    passes = library.attention_forward, library.attention_backward
    for function in passes:
        function.argtypes = [ctypes.c_void_p] * 3
        function.restype = ctypes.c_int
    return AttentionLibrary(*passes, bool(library.attention_takes_tokens()), _torch_parallel())


def _torch_parallel() -> Any | None:
    """Return the thread pool of torch: two pools would wait for each other on the same cores."""
    for path in sorted(Path(torch.__file__).parent.glob("lib/libgomp*")):
        try:
            function = ctypes.CDLL(str(path)).GOMP_parallel
        except (OSError, AttributeError):
            continue
        return ctypes.cast(function, ctypes.c_void_p)
    return None


class GradientFields(NamedTuple):
    """Into how many parts a backward pass cuts the rows of a head, and the fields of its call."""

    parts: int
    fields: bytes


class CompiledPrefix(NamedTuple):
    """A prefix whose weights the compiled code can read; `prepare` builds it."""

    library: AttentionLibrary
    features: FeatureMap
    affine: Affine
    Z: StateZ
    mass: StateMass
    gain: float
    cap: float

    def forward(
        self, q: Queries, out: Outputs, lse: RowNumbers, for_backward: bool, fields: bytes | None = None
    ) -> tuple[RowNumbers | None, RowNumbers | None]:
        """Add the prefix to `out` in place; return log |total mass| if wanted, and its sign.

        `fields` are those of such a call, if known.
        """
        total, sign = self.totals(q, for_backward)
        self._forward({"q": q, "out": out, "lse": lse, "total": total, "sign": sign}, None, fields)
        return total, sign

    def attend(
        self, q: Queries, tokens: KeyValues, for_backward: bool, fields: bytes | None = None
    ) -> tuple[Outputs, RowNumbers | None, RowNumbers | None] | None:
        """Return the merged output, then as `forward`; None for a prefix of zeros, which torch must do."""
        k, v, *_ = tokens
        out = empty_rows(q, v.shape[-1])
        total, sign = self.totals(q, for_backward)
        rows = {"q": q, "out": out, "total": total, "sign": sign}
        rows |= {"k": k, "v": v, "added": _added(q, tokens)}
        return (out, total, sign) if self._forward(rows, tokens, fields) else None

    def backward(
        self, rows: GradientRows, tokens: KeyValues | None = None, known: GradientFields | None = None
    ) -> list[Tensor]:
        """Return the gradients of Z, mass and the map's weights; add that of q to `grad_q` in place.

        Given tokens, write all of the gradient of q to `grad_q`, and return those of k and v first. `known`
        are the fields of such a call, if known.
        """
        q, out, total, sign, grad, grad_q = rows
        tensors = {"q": q, "out": out, "total": total, "sign": sign, "grad": grad, "grad_q": grad_q}
        of_tokens = []
        if tokens is not None:
            k, v, *_ = tokens
            of_tokens = [torch.empty_like(k), torch.empty_like(v)]
            tensors |= {"k": k, "v": v, "added": _added(q, tokens)}
            tensors |= {"grad_k": of_tokens[0], "grad_v": of_tokens[1]}
        parts, fields = known or self.gradient_fields(tensors, tokens)
        sums = self._gradient_sums(parts)
        tensors |= zip(("grad_Z", "grad_mass", "grad_weight", "grad_bias"), sums, strict=False)
        is_done(self.library.backward(fields, self.addresses(tensors), self.library.parallel))
        if parts > 1:
            sums = [each.sum(dim=0) for each in sums]
        if self.affine.weight is not None:
            sums[2:] = self.features.affine_gradients(sums[2], sums[-1])
        return of_tokens + sums

    def gradient_fields(self, tensors: Tensors, tokens: KeyValues | None) -> GradientFields:
        """Return the numbers of a backward pass."""
        q = tensors["q"]
        assert q is not None
        parts = self.parts(q, for_gradients=True)
        return GradientFields(parts, self.fields(parts, tensors, tokens))

    def _gradient_sums(self, parts: int) -> list[Tensor]:
        """Allocate the gradients of Z, mass and the map's weights.

        Every part of the rows writes its own sums: threads then need no lock and results no order.
        """
        weights = [each for each in self.affine[1:3] if each is not None]
        if parts == 1 and not weights:
            return [torch.empty_like(self.Z), torch.empty_like(self.mass)]
        shapes = [(parts, len(self.Z), *like.shape[1:]) for like in (self.Z, self.mass, *weights)]
        sums = [torch.empty(shape, dtype=torch.float32) for shape in shapes]
        return [each[0] for each in sums] if parts == 1 else sums

    def totals(self, q: Queries, for_backward: bool) -> tuple[RowNumbers | None, RowNumbers | None]:
        """Allocate log |total mass| per row if wanted, and its sign if that can be negative."""
        if not for_backward:
            return None, None
        total = torch.empty(q.shape[:3], dtype=torch.float32)
        return total, None if self.features.positive else torch.empty_like(total)

    def addresses(self, tensors: Tensors) -> bytes:
        """Return the addresses of a call."""
        _, weight, bias, level = self.affine
        known = {"Z": self.Z, "mass": self.mass, "weight": weight, "bias": bias, "level": level, **tensors}
        return packed(known)

    def fields(self, parts: int, tensors: Tensors, tokens: KeyValues | None) -> bytes:
        """Return the numbers of a call: sizes, options and the steps between the rows of its tensors."""
        q = tensors["q"]
        assert q is not None
        batch, heads, rows, dim = q.shape
        state_heads, size, values = self.Z.shape
        kind, weight, *_ = self.affine
        counts = (0, 1, 0)
        if tokens is not None:
            counts = tokens.k.shape[2], heads // tokens.k.shape[1], tokens.mask.causal
        fields = CallFields(
            *(KINDS[kind], TYPES[q.dtype], self.features.positive),
            *(batch, heads, heads // state_heads, rows, dim, size, values),
            *(parts, torch.get_num_threads(), weight is not None and weight.shape[0] > 1, *counts),
            *(_steps(tensors.get(name)) for name in _STRIDED),
            gain=self.gain,
            cap=self.cap,
            scale=1.0 if tokens is None else tokens.scale,
        )
        return bytes(fields)

    def _forward(self, tensors: Tensors, tokens: KeyValues | None, fields: bytes | None) -> bool:
        if fields is None:
            q = tensors["q"]
            assert q is not None
            fields = self.fields(self.parts(q), tensors, tokens)
        return is_done(self.library.forward(fields, self.addresses(tensors), self.library.parallel))

    def parts(self, q: Queries, for_gradients: bool = False) -> int:
        """Return into how many parts to cut the rows of a head: enough for all threads, none too short."""
        heads = self.Z.shape[0]
        threads = torch.get_num_threads()
        if threads == 1 or heads % threads == 0 or heads >= 4 * threads:
            return 1
        wanted = threads if for_gradients else 2 * threads
        rows = q.shape[0] * q.shape[1] * q.shape[2] // heads
        return max(1, min(wanted, rows // _FEWEST_ROWS))


def empty_rows(q: Queries, values: int) -> Outputs:
    """Allocate outputs (B, H, Lq, values) in the dtype of q, laid out as torch's attention does."""
    batch, heads, rows, _ = q.shape
    steps = rows * heads * values, values, heads * values, 1
    return torch.empty_strided((batch, heads, rows, values), steps, dtype=q.dtype)


def _added(q: Queries, tokens: KeyValues) -> Tensor | None:
    """Return the bias of the logits for every query and key; None without a bias."""
    bias = tokens.mask.bias
    return None if bias is None else bias.float().expand(*q.shape[:3], tokens.k.shape[2])


def packed(tensors: Tensors) -> bytes:
    """Return the addresses of tensors in the order of the C struct; 0 for those that are missing."""
    return _pack(*[0 if tensor is None else tensor.data_ptr() for tensor in map(tensors.get, _POINTERS)])


def is_done(code: int) -> bool:
    """Interpret a return code: False if the pass left a prefix of zeros to torch."""
    if code not in (0, _EMPTY_PREFIX):
        raise MemoryError("the compiled attention could not allocate its scratch space")
    return code == 0


def _steps(tensor: Tensor | None) -> tuple[int, int, int]:
    if tensor is None:
        return 0, 0, 0
    batch, head, row, *_ = tensor.stride()
    return batch, row, head
