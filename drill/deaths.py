"""Processes that die, are asked to end, or find another at work: audits with two workers."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from drill.jobs import Job


class Died(NamedTuple):
    """What was done to a command, and whether it did as promised."""

    what: str
    well: bool
    said: str


def drill(job: Job, seed: int, scratch: Path) -> list[Died]:
    """A worker killed, SIGTERM, and a second writer in the same folder."""
    whole = scratch / "deaths-whole"
    whole.mkdir()
    subprocess.run(job.command(whole), check=True, capture_output=True)
    wanted = job.results(whole / job.out)
    rng = random.Random(f"{seed}:deaths")
    return [
        _worker_killed(job, wanted, rng, scratch),
        _asked_to_end(job, scratch),
        _second_writer(job, wanted, scratch),
    ]


def _worker_killed(job: Job, wanted: object, rng: random.Random, scratch: Path) -> Died:
    process, folder = _with_workers(job, scratch / "deaths-worker")
    victims = _children(process.pid)
    if victims:
        os.kill(rng.choice(victims), signal.SIGKILL)
    _, errors = process.communicate(timeout=300)
    equal = process.returncode == 0 and job.results(folder / job.out) == wanted
    return Died("a worker killed", bool(victims) and equal, _said(process, errors))


def _asked_to_end(job: Job, scratch: Path) -> Died:
    process, _ = _with_workers(job, scratch / "deaths-term")
    start = time.monotonic()
    os.kill(process.pid, signal.SIGTERM)
    _, errors = process.communicate(timeout=300)
    took = time.monotonic() - start
    well = process.returncode == 143 and took < 5 and not _children(process.pid)
    return Died("SIGTERM", well, f"{_said(process, errors)} after {took:.1f} s")


def _second_writer(job: Job, wanted: object, scratch: Path) -> Died:
    process, folder = _with_workers(job, scratch / "deaths-second")
    second = subprocess.run(job.command(folder), capture_output=True)
    _, errors = process.communicate(timeout=300)
    refused = second.returncode == 2 and b"another" in second.stderr
    equal = process.returncode == 0 and job.results(folder / job.out) == wanted
    return Died("a second writer", refused and equal, _said(process, errors or second.stderr))


def _with_workers(job: Job, folder: Path) -> "tuple[subprocess.Popen[bytes], Path]":
    """The command with two workers, at the moment its first result is there."""
    folder.mkdir()
    command = [*job.command(folder), "--jobs", "2"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while process.poll() is None and not list(folder.rglob("findings/[!.]*.json")):
        time.sleep(0.01)
    return process, folder


def _children(parent: int) -> list[int]:
    """Processes that were started by a process and still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, above = path.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue  # it ended meanwhile
        if int(above) == parent and state != "Z":
            found.append(int(path.parent.name))
    return found


def _said(process: "subprocess.Popen[bytes]", errors: bytes) -> str:
    last = errors.decode(errors="replace").strip().splitlines()[-1:] or [""]
    return f"exit code {process.returncode}: {last[0][-160:]}"
