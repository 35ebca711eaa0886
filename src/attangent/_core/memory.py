"""Memory estimates: refuse arrays that cannot fit before allocating them."""

import contextlib
import math
from pathlib import Path

from attangent._core.errors import AttangentError

_SMALL = 2**26
"""Bytes below which the free memory is not looked up."""
_CONTAINER = Path("/sys/fs/cgroup")


def check_memory(what: str, item: int = 8, **sizes: int) -> None:
    """Check that an array of these sizes, with `item` bytes per entry, fits into the free memory."""
    needed = item * math.prod(sizes.values())
    if needed <= _SMALL:
        return
    free = free_memory()
    if needed > free:
        shape = " x ".join(f"{name} {size:,}" for name, size in sizes.items())
        raise AttangentError(
            f"{what} ({shape}) would take {readable(needed)}, but only {readable(free)} are free: "
            "make one of these numbers smaller"
        )


def free_memory() -> float:
    """Return the bytes this process may still allocate, within the machine, its container and its limit."""
    import psutil

    free = [psutil.virtual_memory().available]
    with contextlib.suppress(OSError, ValueError):  # no container, or one without a limit ("max")
        limit, used = (int((_CONTAINER / name).read_text()) for name in ("memory.max", "memory.current"))
        free.append(limit - used)
    process = psutil.Process()
    if hasattr(process, "rlimit"):  # Linux only
        limit, _ = process.rlimit(psutil.RLIMIT_AS)
        if limit != psutil.RLIM_INFINITY:
            free.append(limit - process.memory_info().vms)
    return max(0.0, float(min(free)))


def readable(size: float) -> str:
    """Return bytes in the largest fitting unit: 3.2e9 gives '2.98 GiB'."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} TiB"
