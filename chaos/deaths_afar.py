"""Other people's processes that die: a Dask scheduler, its workers, a rank under torchrun."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from chaos.jobs import Job
from chaos.watching import FINDINGS, Died, children, first_result, said

_SLOWEST = 30.0
"""Seconds within which all ranks have to end after one of them died."""
_WAITING = 240.0
"""Seconds within which a command has to end after others died."""


def kill_cluster(job: Job, wanted: object, scratch: Path) -> Iterator[Died]:
    """One of two workers killed, both, the scheduler: equal, or one line and a run that goes on."""
    for what in ("one Dask worker", "all Dask workers", "the Dask scheduler"):
        folder = scratch / f"deaths-{what.replace(' ', '-')}"
        folder.mkdir()
        with _cluster(folder) as (address, scheduler, workers):
            process = _begun([*job.command(folder), "--dask", address], folder)
            for victim in {"one": workers[:1], "all": workers, "the": [scheduler]}[what.split()[0]]:
                victim.kill()
            errors = _ended(process)
        if errors is None:
            yield Died(f"{what} killed", False, f"no end within {_WAITING:.0f} s")
            continue
        ended = said(process, errors)
        if what.startswith("one"):
            well = process.returncode == 0
        else:
            well = process.returncode in (0, 2) and b"Traceback" not in errors
            again = subprocess.run(job.command(folder), capture_output=True)
            well = well and again.returncode == 0
        yield Died(f"{what} killed", well and job.results(folder / job.out) == wanted, ended)


def _ended(process: "subprocess.Popen[bytes]") -> bytes | None:
    """What a command wrote to standard error; None if it did not end in time and was killed."""
    try:
        return process.communicate(timeout=_WAITING)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return None


def kill_rank(job: Job, scratch: Path) -> Died:
    """A rank of two killed: all end soon, and the same command goes on to the same weights."""
    whole, folder = scratch / "rank-whole", scratch / "rank-killed"
    whole.mkdir()
    folder.mkdir()
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    launched = [[*launch, *job.command(place)[1:]] for place in (whole, folder)]
    subprocess.run(launched[0], check=True, capture_output=True, env=_one_thread())
    process = subprocess.Popen(
        launched[1], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=_one_thread()
    )
    first_result(process, folder, "checkpoint-*/trainer_state.json")
    ranks = [pid for pid in _descendants(process.pid) if "RANK=1" in _environment(pid)]
    for rank in ranks[:1]:
        os.kill(rank, signal.SIGKILL)
    start = time.monotonic()
    process.communicate(timeout=_WAITING)
    took = time.monotonic() - start
    again = subprocess.run(launched[1], capture_output=True, env=_one_thread())
    equal = again.returncode == 0 and job.results(folder / job.out) == job.results(whole / job.out)
    well = bool(ranks) and process.returncode != 0 and took < _SLOWEST and equal
    return Died("a rank under torchrun killed", well, f"exit code {process.returncode} after {took:.1f} s")


@contextlib.contextmanager
def _cluster(folder: Path) -> "Iterator[tuple[str, subprocess.Popen[bytes], list[subprocess.Popen[bytes]]]]":
    """A scheduler with two workers, each a process of its own."""
    place = folder / "scheduler.json"
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder, "env": _one_thread()}
    ports = ["--port", "0", "--no-dashboard", "--scheduler-file", str(place)]
    scheduler = subprocess.Popen([*dask, *ports], **quiet)
    while not place.exists() and scheduler.poll() is None:
        time.sleep(0.05)
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(place)]
    own = ["--nthreads", "1", "--no-nanny", "--no-dashboard"]
    workers = [subprocess.Popen([*worker, *own], **quiet) for _ in range(2)]
    try:
        yield json.loads(place.read_text())["address"], scheduler, workers
    finally:
        for process in (*workers, scheduler):
            process.kill()
            process.wait()


def _begun(command: list[str], folder: Path, of: str = FINDINGS) -> "subprocess.Popen[bytes]":
    """A command at the moment its first result is there."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=_one_thread())
    first_result(process, folder, of)
    return process


def _one_thread() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def _descendants(parent: int) -> list[int]:
    found = children(parent)
    return [*found, *(pid for child in found for pid in _descendants(child))]


def _environment(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
    except OSError:
        return []  # it ended meanwhile
