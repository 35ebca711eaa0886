"""Both passes of a prefix over many queries, by the compiled code of rows.c.

Forward, in place; given keys and values, it also computes the token attention o and lse itself:

    out = keep o + add phi(q) Z,  keep = e^(lse - t),  add = e^(-t),  t = log(e^lse + phi(q) k)

Backward as in `torch.prefix_side`. It knows the maps that have an `Affine` form:

    phi(x) = e^level [1, act(W x + b)]  or  e^level exp(W x + b)  or  elu(x d^(-1/4)) + 1

The C code trusts its caller: `prepare` checks everything that it reads.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attangent.attention.backends.torch.tokens import GradientRows, KeyValues
from attangent.attention.features.base import Affine, FeatureMap
from attangent.attention.shapes import Outputs, Queries, RowNumbers, StateMass, StateZ

VERSION = 3
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
_STEPS = "q_step", "out_step", "lse_step", "grad_step", "grad_q_step", "k_step", "v_step", "added_step"
_POINTERS = (
    *("q", "out", "lse", "total", "sign", "Z", "mass", "weight", "bias", "level"),
    *("grad", "grad_q", "grad_Z", "grad_mass", "grad_weight", "grad_bias", "k", "v", "added"),
)


class CallFields(ctypes.Structure):
    """`Call` of prefix.h."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in _NUMBERS),
        *((name, Strides) for name in _STEPS),
        *((name, ctypes.c_void_p) for name in _POINTERS),
        *((name, ctypes.c_double) for name in ("gain", "cap", "scale")),
    ]


class AttentionLibrary(NamedTuple):
    """The functions of attention.lib.

    Attributes:
        forward: Forward pass of a `CallFields`, on the threads of `parallel`.
        backward: Backward pass, called likewise.
        add: Forward pass with the fields as bytes and all addresses as arguments, which is quicker to call.
        takes_tokens: Whether the forward pass can attend to keys and values too.
        parallel: The GOMP_parallel function that torch uses; None if there is none.
    """

    forward: Callable[[Any, Any], int]
    backward: Callable[[Any, Any], int]
    add: Callable[..., int]
    takes_tokens: bool
    parallel: Any


@cache
def load() -> AttentionLibrary | None:
    """Load attention.lib; None if it was not compiled, or from another version of the source."""
    path = Path(__file__).with_name("attention.lib")  # as an .so it would look like a Python module
    if not path.is_file():
        return None
    try:
        library = ctypes.CDLL(str(path))
        library.attention_call_size.restype = ctypes.c_size_t
        same = library.attention_version() == VERSION
        if not same or library.attention_call_size() != ctypes.sizeof(CallFields):
            return None
        passes = library.attention_forward, library.attention_backward, library.attention_add
    except (OSError, AttributeError):
        return None
    for function, pointers in zip(passes, (2, 2, 13), strict=True):
        function.argtypes = [ctypes.c_void_p] * pointers
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
        self, q: Queries, out: Outputs, lse: RowNumbers, for_backward: bool
    ) -> tuple[RowNumbers | None, RowNumbers | None]:
        """Add the prefix to `out` in place; return log |total mass| if wanted, and its sign."""
        total, sign = self._totals(lse, for_backward)
        self._forward((q, out, lse, total, sign), None)
        return total, sign

    def attend(
        self, q: Queries, tokens: KeyValues, for_backward: bool
    ) -> tuple[Outputs, RowNumbers | None, RowNumbers | None] | None:
        """Return the merged output, then as `forward`; None for a prefix of zeros, which torch must do."""
        out, lse = empty_rows(q, tokens.v.shape[-1])
        total, sign = self._totals(lse, for_backward)
        return (out, total, sign) if self._forward((q, out, lse, total, sign), tokens) else None

    def backward(self, rows: GradientRows) -> list[Tensor]:
        """Return the gradients of Z, |mass| and the map's weights; add that of q to `grad_q` in place."""
        q, out, total, sign, grad, grad_q = rows
        parts = self._parts(q, for_gradients=True)
        weights = [tensor for tensor in (self.affine.weight, self.affine.bias) if tensor is not None]
        # every part of the rows writes its own sums: threads then need no lock and results no order
        sums = [torch.empty(parts, len(self.Z), *like.shape[1:]) for like in (self.Z, self.mass, *weights)]
        tensors = q, out, None, total, sign, *self._weights(), grad, grad_q, *sums
        call = self._filled(parts, tensors, (q, out, None, grad, grad_q), None)
        is_done(self.library.backward(ctypes.addressof(call), self.library.parallel))
        grad_Z, grad_mass, *of_form = (each[0] if parts == 1 else each.sum(dim=0) for each in sums)
        if of_form:
            of_form = self.features.affine_gradients(of_form[0], of_form[-1])
        return [grad_Z, grad_mass, *of_form]

    def fields(
        self, q: Queries, out: Outputs, lse: RowNumbers, tokens: KeyValues | None = None
    ) -> CallFields:
        """Return the fields of a forward pass without addresses."""
        return self._filled(self._parts(q, for_gradients=False), (), (q, out, lse, None, None), tokens)

    def _forward(self, rows: Sequence[Tensor | None], tokens: KeyValues | None) -> bool:
        q, out, lse, *_ = rows
        parts = self._parts(q, for_gradients=False)  # type: ignore[arg-type]
        call = self._filled(parts, (*rows, *self._weights()), (q, out, lse, None, None), tokens)
        if tokens is not None:
            call.k = tokens.k.data_ptr()
            call.v = tokens.v.data_ptr()
            call.added = _address(tokens.mask.bias)
        return is_done(self.library.forward(ctypes.addressof(call), self.library.parallel))

    def _totals(self, lse: RowNumbers, for_backward: bool) -> tuple[Tensor | None, Tensor | None]:
        if not for_backward:
            return None, None
        total = torch.empty(lse.shape, dtype=lse.dtype)
        return total, None if self.features.positive else torch.empty_like(total)

    def _weights(self) -> tuple[Tensor | None, ...]:
        return self.Z, self.mass, *self.affine[1:]

    def _filled(
        self, parts: int, tensors: Sequence[Any], strided: Sequence[Any], tokens: KeyValues | None
    ) -> CallFields:
        """Fill in a call; `tensors` are in the order of `_POINTERS`, `strided` are those with steps."""
        q = strided[0]
        batch, heads, rows, dim = q.shape
        state_heads, size, values = self.Z.shape
        kind, weight, *_ = self.affine
        counts = (0, 1, 0)
        added = None
        if tokens is not None:
            counts = tokens.k.shape[2], heads // tokens.k.shape[1], tokens.mask.causal
            bias = tokens.mask.bias
            added = None if bias is None else bias.expand(*q.shape[:3], tokens.k.shape[2])
        k, v = (None, None) if tokens is None else tokens[:2]
        return CallFields(
            *(KINDS[kind], TYPES[q.dtype], self.features.positive),
            *(batch, heads, heads // state_heads, rows, dim, size, values),
            *(parts, torch.get_num_threads(), weight is not None and len(weight) > 1, *counts),
            *map(_steps, (*strided, k, v, added)),
            *map(_address, tensors),
            gain=self.gain,
            cap=self.cap,
            scale=1.0 if tokens is None else tokens.scale,
        )

    def _parts(self, q: Queries, for_gradients: bool) -> int:
        """Return into how many parts to cut the rows of a head: enough for all threads, none too short."""
        heads = len(self.Z)
        threads = torch.get_num_threads()
        if threads == 1 or heads % threads == 0 or heads >= 4 * threads:
            return 1
        wanted = threads if for_gradients else 2 * threads
        rows = q.shape[0] * q.shape[1] * q.shape[2] // heads
        return max(1, min(wanted, rows // _FEWEST_ROWS))


def empty_rows(q: Queries, values: int) -> tuple[Outputs, RowNumbers]:
    """Allocate outputs (B, H, Lq, values) and logsumexps (B, H, Lq), laid out as torch's attention does."""
    batch, heads, rows, _ = q.shape
    out = torch.empty(batch, rows, heads, values)
    lse = torch.empty(batch, rows, heads)
    return out.transpose(1, 2), lse.transpose(1, 2)


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


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
