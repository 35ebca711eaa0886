"""How many cores this process may use: those of the machine, within affinity and a container's limit."""

import math
import os
from pathlib import Path

_LIMIT = Path("/sys/fs/cgroup/cpu.max")
_OLD_LIMITS = Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us")


def available_cores() -> int:
    """At least 1. Workers times threads of each worker should never be more than this."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = container_quota()
    return max(1, allowed if quota is None else min(allowed, math.ceil(quota)))


def threads_for(workers: int) -> int:
    """The threads that each of so many workers may use: workers times threads stay within the cores."""
    return max(1, available_cores() // max(1, workers))


def container_quota() -> float | None:
    """The cores that the container may use, a fraction perhaps; None where there is no limit."""
    try:
        quota, period = (
            _LIMIT.read_text().split() if _LIMIT.exists() else (p.read_text() for p in _OLD_LIMITS)
        )
        return None if quota == "max" or float(quota) <= 0 else float(quota) / float(period)
    except (OSError, ValueError):
        return None
