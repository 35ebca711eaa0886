"""The compiled code and the threads it may use; both belong to this process once it has been asked for."""

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch

VERSION = 3
NOTHING = 2
"""What `add` and `forward` give back for tokens behind a prefix that is nothing; they then did nothing."""


class Strides(ctypes.Structure):
    """As prefix.h has it."""

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
    """`Call` as prefix.h has it."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in _NUMBERS),
        *((name, Strides) for name in _STEPS),
        *((name, ctypes.c_void_p) for name in _POINTERS),
        *((name, ctypes.c_double) for name in ("gain", "cap", "scale")),
    ]


class Compiled(NamedTuple):
    """The two passes, each called with a `CallFields` and the function that runs work on threads.

    `add` is the forward pass alone, called with the fields and the addresses from q to level and from k on.
    """

    forward: Callable[[Any, Any], int]
    backward: Callable[[Any, Any], int]
    add: Callable[..., int]
    takes_tokens: bool
    """Whether the forward pass can attend to keys and values too."""
    parallel: Any
    """GOMP_parallel of the library whose threads torch uses; None where there is none."""


@cache
def load() -> Compiled | None:
    """None where the package was installed without a compiler, or from an older source."""
    path = Path(__file__).with_name("attention.lib")  # as an .so it would pass for a module of Python
    if not path.is_file():
        return None
    try:
        found = ctypes.CDLL(str(path))
        found.attention_call_size.restype = ctypes.c_size_t
        same = found.attention_version() == VERSION
        if not same or found.attention_call_size() != ctypes.sizeof(CallFields):
            return None
        passes = found.attention_forward, found.attention_backward, found.attention_add
    except (OSError, AttributeError):
        return None
    for each, pointers in zip(passes, (2, 2, 13), strict=True):
        each.argtypes, each.restype = [ctypes.c_void_p] * pointers, ctypes.c_int
    return Compiled(*passes, bool(found.attention_takes_tokens()), _torch_parallel())


def _torch_parallel() -> Any | None:
    """Threads of torch's own: two sets of them would wait for each other on the same cores."""
    for path in sorted(Path(torch.__file__).parent.glob("lib/libgomp*")):
        try:
            function = ctypes.CDLL(str(path)).GOMP_parallel
        except (OSError, AttributeError):
            continue
        return ctypes.cast(function, ctypes.c_void_p)
    return None
