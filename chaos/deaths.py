"""Processes that die, are asked to end, or find another at work: audits with two workers."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from chaos import deaths_afar
from chaos.jobs import Job
from chaos.watching import Died, children, first_result, said


def run(job: Job, seed: int, scratch: Path) -> Iterator[Died]:
    """A worker killed, SIGTERM, a second writer in the same folder, and a Dask cluster that falls apart."""
    whole = scratch / "deaths-whole"
    whole.mkdir()
    subprocess.run(job.command(whole), check=True, capture_output=True)
    wanted = job.results(whole / job.out)
    rng = random.Random(f"{seed}:deaths")
    yield _worker_killed(job, wanted, rng, scratch)
    yield _asked_to_end(job, scratch)
    yield _second_writer(job, wanted, scratch)
    yield from deaths_afar.kill_cluster(job, wanted, scratch)


def _worker_killed(job: Job, wanted: object, rng: random.Random, scratch: Path) -> Died:
    process, folder = _with_workers(job, scratch / "deaths-worker")
    victims = children(process.pid)
    if victims:
        os.kill(rng.choice(victims), signal.SIGKILL)
    _, errors = process.communicate(timeout=900)
    equal = process.returncode == 0 and job.results(folder / job.out) == wanted
    return Died("a worker killed", bool(victims) and equal, said(process, errors))


def _asked_to_end(job: Job, scratch: Path) -> Died:
    process, _ = _with_workers(job, scratch / "deaths-term")
    start = time.monotonic()
    os.kill(process.pid, signal.SIGTERM)
    _, errors = process.communicate(timeout=900)
    took = time.monotonic() - start
    well = process.returncode == 143 and took < 5 and not children(process.pid)
    return Died("SIGTERM", well, f"{said(process, errors)} after {took:.1f} s")


def _second_writer(job: Job, wanted: object, scratch: Path) -> Died:
    process, folder = _with_workers(job, scratch / "deaths-second")
    os.kill(process.pid, signal.SIGSTOP)  # or it would be done before the second has begun
    second = subprocess.run(job.command(folder), capture_output=True)
    os.kill(process.pid, signal.SIGCONT)
    _, errors = process.communicate(timeout=900)
    refused = second.returncode == 2 and b"another" in second.stderr
    equal = process.returncode == 0 and job.results(folder / job.out) == wanted
    return Died("a second writer", refused and equal, said(process, errors or second.stderr))


def _with_workers(job: Job, folder: Path) -> "tuple[subprocess.Popen[bytes], Path]":
    """The command with two workers, at the moment its first result is there."""
    folder.mkdir()
    command = [*job.command(folder), "--jobs", "2"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    first_result(process, folder)
    return process, folder
