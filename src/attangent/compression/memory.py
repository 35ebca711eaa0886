"""Give memory back to the operating system between the steps of a compression."""

import ctypes
import mmap
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from torch import Tensor

# Of Linux 5.4 and later; the mmap module of Python 3.11 does not name it.
_MADV_PAGEOUT = 21


def return_freed() -> None:
    """Return freed memory to the system; the C library of Linux would keep it for later allocations."""
    trim = getattr(_libc(), "malloc_trim", None)
    if trim is not None:
        trim(0)


def page_out(weights: Iterable[Tensor]) -> None:
    """Drop weights that are mapped from a file from memory; the next use reads them again.

    A weight that is not mapped from a file stays, and so does any on other systems than Linux.
    """
    if sys.platform != "linux":
        return
    mapped = _mapped_files()
    for weight in weights:
        # Only whole pages can be dropped.
        start = -(-weight.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
        end = (weight.data_ptr() + weight.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
        if any(first <= start < end <= last for first, last in mapped):
            _libc().madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_PAGEOUT)


def _mapped_files() -> list[tuple[int, int]]:
    """Return the first and last address of each part of this process's memory that a file backs."""
    rows = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    ranges = [row[0].split("-") for row in rows if row[4] != "0"]
    return [(int(first, 16), int(last, 16)) for first, last in ranges]


@cache
def _libc() -> Any:
    return ctypes.CDLL(None) if sys.platform == "linux" else None
