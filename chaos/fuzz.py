"""Calls with hostile arguments, in worker processes that may hang or die."""

import json
import selectors
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from chaos.outcomes import DIED, HANG, STARTED
from chaos.watching import waiting_seconds

LIMIT = 10.0
_FIRST = 300.0
"""Seconds until a worker's first line: it imports everything."""
_GLANCE = 0.25
"""Waiting is counted in pieces of so many seconds: a pause of the whole run is no hang of a worker."""


class Ended(NamedTuple):
    """One case: which entry, what was hostile, how it ended."""

    index: int
    entry: str
    changed: list[str]
    kind: str
    detail: str = ""


def fuzz(worker: str, seed: int, start: int, stop: int, scratch: Path) -> Iterator[Ended]:
    """The outcomes of cases `start` to `stop` of a worker module, each within 10 seconds."""
    while start < stop:
        process = _spawn(worker, seed, start, stop, scratch)
        try:
            for ended in _outcomes(process, start):
                yield ended
                start = ended.index + 1
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _spawn(worker: str, seed: int, start: int, stop: int, scratch: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", worker, str(seed), str(start), str(stop)],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=scratch,
    )


def _outcomes(process: subprocess.Popen[bytes], first: int) -> Iterator[Ended]:
    """What a worker says until it is done, hangs or dies; the last is an outcome as well."""
    last = Ended(first, "before the first call", [], STARTED)
    for line in _lines(process):
        if line is None:
            yield last._replace(kind=HANG)
            return
        last = Ended(*json.loads(line))
        if last.kind != STARTED:
            yield last
    if process.wait() != 0:
        yield last._replace(kind=DIED, detail=f"exit code {process.returncode}")


def _lines(process: subprocess.Popen[bytes]) -> Iterator[str | None]:
    """The lines of a process; None once it has been silent for too long."""
    assert process.stdout is not None
    patience = _FIRST
    selector = selectors.DefaultSelector()
    selector.register(process.stdout, selectors.EVENT_READ)
    rest = b""
    while True:
        if not _awaited(selector, patience, process.pid):
            yield None
            return
        found = process.stdout.read1(65536)
        if not found:
            return
        patience = LIMIT
        *lines, rest = (rest + found).split(b"\n")
        for line in lines:
            yield line.decode()


def _awaited(selector: selectors.BaseSelector, seconds: float, pid: int) -> bool:
    """Whether something came within so many seconds, not counting those without a core to run on."""
    before, waited = waiting_seconds(pid), 0.0
    while waited - (waiting_seconds(pid) - before) < seconds:
        if selector.select(_GLANCE):
            return True
        waited += _GLANCE
    return False
