"""Matrix products in bfloat16 on processors that have instructions for them.

They take a quarter of the time of float32 products and have three digits. That is enough to find which
tokens matter and to write the text on which states are fitted, because the target of a fit is computed
exactly from the queries. Fitted states and reported effects are computed in the model's dtype. Quiz answers
use bfloat16, both with the full and with the compressed prompt.

Weights that a file backs leave the memory while their bfloat16 copies are in use, and freed memory returns to
the operating system.
"""

import ctypes
import mmap
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_SMALLEST = 1 << 16
"""Size of a weight below which converting the inputs takes longer than the product saves."""
# Of Linux 5.4 and later; the mmap module of Python 3.11 does not name it.
_MADV_PAGEOUT = 21

Halved = dict[nn.Linear, Tensor]
"""Weights in bfloat16 by layer."""


@dataclass(frozen=True)
class HalvedProduct:
    """The `forward` of a linear layer with the weight in bfloat16."""

    weight: Tensor
    bias: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        """Return the product in float32."""
        result = F.linear(x.bfloat16(), self.weight).float()
        return result if self.bias is None else result + self.bias


@contextmanager
def fast_products(model: Any, halved: Halved | None = None) -> Iterator[None]:
    """Let the linear layers of a model multiply in bfloat16 if the processor is faster that way.

    Args:
        model: The model; its weights must not change between uses of one `halved`.
        halved: A cache of the weights in bfloat16.
    """
    halved = {} if halved is None else halved
    layers = [layer for layer in model.modules() if has_fast_products() and _is_large(layer)]
    mapped = _mapped_files()
    for layer in layers:
        if layer not in halved:
            halved[layer] = layer.weight.detach().bfloat16()
            _page_out(layer.weight, mapped)
        layer.forward = HalvedProduct(halved[layer], layer.bias)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward
        return_freed()


def forget(halved: Halved) -> None:
    """Free the bfloat16 weights."""
    halved.clear()
    return_freed()


def has_fast_products() -> bool:
    """Return whether the processor has bfloat16 products."""
    return getattr(torch.cpu, "_is_avx512_bf16_supported", bool)()


def _is_large(layer: nn.Module) -> bool:
    """Return whether this is a large plain float32 linear layer on the CPU with the original `forward`."""
    if type(layer) is not nn.Linear or "forward" in vars(layer):
        return False
    weight = layer.weight
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and weight.numel() >= _SMALLEST


def _page_out(weight: Tensor, mapped: list[tuple[int, int]]) -> None:
    """Drop a weight from memory if it lies in memory that a file backs; the next use reads it again."""
    # Only whole pages can be dropped.
    start = -(-weight.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (weight.data_ptr() + weight.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if any(first <= start < end <= last for first, last in mapped):
        _libc().madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_PAGEOUT)


def _mapped_files() -> list[tuple[int, int]]:
    """Return the first and last address of each part of the memory that a file backs, on Linux."""
    if sys.platform != "linux":
        return []
    rows = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    ranges = [row[0].split("-") for row in rows if row[4] != "0"]
    return [(int(first, 16), int(last, 16)) for first, last in ranges]


def return_freed() -> None:
    """Return freed memory to the system; the C library of Linux would keep it for later allocations."""
    trim = getattr(_libc(), "malloc_trim", None)
    if trim is not None:
        trim(0)


@cache
def _libc() -> Any:
    return ctypes.CDLL(None) if sys.platform == "linux" else None
