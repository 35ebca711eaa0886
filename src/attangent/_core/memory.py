"""Memory that numbers ask for, estimated before any of it is taken."""

import contextlib
import math
import os
from collections.abc import Iterator
from pathlib import Path

from attangent._core.errors import AttangentError

_SMALL = 2**26
"""Bytes that are not worth a look at what is free."""


def check_memory(what: str, item: int = 8, **sizes: int) -> None:
    """Refuse an array of these sizes, `item` bytes each entry, where the free memory cannot hold it."""
    needed = item * math.prod(sizes.values())
    if needed <= _SMALL:
        return
    free = free_memory()
    if needed > free:
        shown = " x ".join(f"{name} {size:,}" for name, size in sizes.items())
        raise AttangentError(
            f"{what} ({shown}) would take {readable(needed)}, expected at most the {readable(free)} that are "
            "free: make one of these numbers smaller"
        )


def free_memory() -> float:
    """Bytes this process may still take: of the machine, of its container and of its own limit."""
    return max(0.0, min(_of_machine(), _of_container(), _of_process()))


def readable(size: float) -> str:
    """Bytes in words: 3.2e9 gives '2.98 GiB'."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} TiB"


def _of_machine() -> float:
    for line in _lines(Path("/proc/meminfo")):
        if line.startswith("MemAvailable:"):
            return 1024.0 * int(line.split()[1])
    with contextlib.suppress(AttributeError, ValueError, OSError):  # no Linux
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return math.inf


def _of_container() -> float:
    limit, used = (list(_lines(Path("/sys/fs/cgroup") / name)) for name in ("memory.max", "memory.current"))
    return float(int(limit[0]) - int(used[0])) if limit and used and limit[0].isdigit() else math.inf


def _of_process() -> float:
    try:
        import resource
    except ImportError:  # no POSIX system
        return math.inf
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return math.inf
    held = [int(line.split()[0]) for line in _lines(Path("/proc/self/statm"))] or [0]
    return float(limit - held[0] * resource.getpagesize())


def _lines(path: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):
        yield from path.read_text().splitlines()
