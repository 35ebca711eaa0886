"""Memory that a computation will take, said before it is taken."""

import math
from typing import Any

from attangent._core.errors import AttangentError
from attangent._core.memory import readable

DEFAULT_MEMORY_LIMIT = 2 * 2**30
"""Bytes a kernel may take unless the caller says otherwise: 2 GiB."""


def check_limit(memory_limit: Any) -> float:
    """`memory_limit` as a number of bytes above zero; infinity lifts it."""
    valid = isinstance(memory_limit, int | float) and not isinstance(memory_limit, bool)
    if not valid or math.isnan(memory_limit) or memory_limit <= 0:
        raise AttangentError(
            f"memory_limit is {memory_limit!r}, expected a number of bytes above 0, for example 2 * 2**30"
        )
    return float(memory_limit)


def refuse_above(limit: float, needed: float, what: str, way_out: str) -> None:
    """Raise before the work starts if `needed` bytes are more than `limit`."""
    if needed > limit:
        raise AttangentError(
            f"{what} would take {readable(needed)} but memory_limit is {readable(limit)}: {way_out}"
        )
