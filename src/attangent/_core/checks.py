"""Checks of values and of free memory; each raises an AttangentError that names the value."""

import contextlib
import math
from collections.abc import Iterable
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from attangent._core.errors import AttangentError

_SIZE_LIMIT = 1 << 62
_MOST_STEPS = 10**9
_SMALL = 2**26  # bytes below which the free memory is not looked up
_CONTAINER = Path("/sys/fs/cgroup")


def check_size(name: str, value: Any, least: int = 1) -> int:
    """Check for a whole number from `least` to below 2^62."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise AttangentError(f"{name} is {value!r}, expected a whole number of at least {least}")
    if int(value) >= _SIZE_LIMIT:
        raise AttangentError(f"{name} is too large, expected a number below {_SIZE_LIMIT:,}")
    return int(value)


def check_steps(name: str, value: Any, least: int = 0) -> int:
    """Check for a number of steps from `least` to 10^9, which is more than any run can finish."""
    if check_size(name, value, least) > _MOST_STEPS:
        raise AttangentError(f"{name} is {value:,}, expected at most {_MOST_STEPS:,} steps")
    return int(value)


def check_positive(name: str, value: Any) -> float:
    """Check for a finite number above 0."""
    if not _is_number(value) or value <= 0:
        raise AttangentError(f"{name} is {value!r}, expected a finite number above 0")
    return float(value)


def check_not_negative(name: str, value: Any) -> float:
    """Check for a finite number of at least 0."""
    if not _is_number(value) or value < 0:
        raise AttangentError(f"{name} is {value!r}, expected a finite number of at least 0")
    return float(value)


def check_between(name: str, value: Any, low: float, high: float) -> float:
    """Check for a number from `low` to `high`, both included."""
    if not _is_number(value) or not low <= value <= high:
        raise AttangentError(f"{name} is {value!r}, expected a number from {low:g} to {high:g}")
    return float(value)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Check for one of `choices`."""
    if value not in choices:
        raise AttangentError(f"{name} is {value!r}, expected one of {', '.join(choices)}")
    return value


def check_names(names: Iterable[str], known: Iterable[str], what: str) -> None:
    """Check that all setting names of `what` are known."""
    known = sorted(known)
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise AttangentError(
            f"unknown settings {', '.join(unknown)} of {what}, expected some of {', '.join(known)}"
        )


def has_words(value: Any) -> bool:
    """Return whether a value is a non-blank text that UTF-8 can encode."""
    return isinstance(value, str) and bool(value.strip()) and is_whole(value)


def is_whole(text: str) -> bool:
    """Return whether UTF-8 can encode a text: it has no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an int too large for a float
        return False


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
