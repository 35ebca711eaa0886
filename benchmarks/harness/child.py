"""The far end of a measuring child process: `serve` answers orders on stdin with JSON lines on stdout.

Standard library only, so that an interpreter of another environment can import it. The orders:
`go K` runs the work K times and answers {"seconds": ...}, `result` answers {"result": nested lists},
`peak` answers {"peak_bytes": ...}. The first line out is {"versions": {...}} or {"unavailable": "why"}.
"""

import ctypes
import functools
import gc
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Work = Callable[[], Any]


class Unavailable(Exception):
    """A contestant cannot run here; the message says why."""


def serve(build: Callable[[], Work], versions: Callable[[], Mapping[str, str]] = dict) -> None:
    """Build the work once, then answer orders until stdin ends; what the work prints goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    built: list[Work] = []

    def start() -> dict[str, Any]:
        built.append(build())
        return {"versions": dict(versions())}

    def tell(make_answer: Callable[[], dict[str, Any]]) -> None:
        print(json.dumps(_excused(make_answer)), file=answers, flush=True)

    tell(start)
    for line in sys.stdin if built else ():
        order, *arguments = line.split()
        tell(functools.partial(_ORDERS[order], built[0], *arguments))


def _excused(make_answer: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return make_answer()
    except (Unavailable, ModuleNotFoundError) as error:
        return {"unavailable": str(error)}
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"}


def timed(work: Work, repeats: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds that `repeats` calls take together."""
    start = clock()
    for _ in range(repeats):
        work()
    return clock() - start


def peak_bytes(work: Work) -> int | None:
    """The most memory one call holds above the level before it, its result included; None if not Linux.

    This is resident memory of the whole process, so native allocations count whoever made them. A first
    call is not counted: it loads code and starts threads. The kernel's high-water mark is reset before
    the second. Start the process with `MALLOC_SETTINGS`, or freed blocks kept by malloc hide new ones.
    """
    work()
    gc.collect()
    _return_freed_memory()
    try:
        Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM to the present level
    except OSError:
        return None
    before = _status_bytes("VmRSS")
    result = work()
    peak = _status_bytes("VmHWM")
    del result
    return max(0, peak - before)


MALLOC_SETTINGS = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
"""Environment under which glibc gives freed blocks back at once."""


def _return_freed_memory() -> None:
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _status_bytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {field}")


def _result(work: Work) -> dict[str, Any]:
    result = work()
    return {"result": result.tolist() if hasattr(result, "tolist") else result}


_ORDERS: dict[str, Callable[..., dict[str, Any]]] = {
    "go": lambda work, repeats: {"seconds": timed(work, int(repeats))},
    "result": _result,
    "peak": lambda work: {"peak_bytes": peak_bytes(work)},
}
