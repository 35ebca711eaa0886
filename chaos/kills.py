"""Commands killed at random moments: after the same command once more, nothing is lost and all is equal.

Moments are measured in CPU time of a command and its workers, so that kills land whatever else the machine
does.
"""

import contextlib
import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from chaos.jobs import Job
from chaos.watching import cpu_seconds

_LONGEST = 900.0
_GLANCE = 0.02
_LET_FINISH = 0.3
_PATIENCE = 4


class Killed(NamedTuple):
    """What ten kills of a command came to."""

    job: str
    landed: int
    """Kills that met the command at work."""
    late: int
    """Kills that came after its end."""
    compared: int
    """How often the command was let come to its end, and its results compared."""
    well: bool
    problem: str = ""


def run(name: str, job: Job, kills: int, seed: int, scratch: Path) -> Killed:
    """Kill a command at work so many times, at random moments, and let it finish now and then.

    A run that came to its end is begun anew in a new folder, so that every kill has something to spoil.
    """
    rng = random.Random(f"{seed}:{name}")
    whole = _folder(scratch / f"{name}-whole")
    begun, took = _timed(job, whole)
    wanted = job.results(whole / job.out)
    landed = late = compared = 0
    folder, problems = _folder(scratch / f"{name}-killed-0"), []
    while landed < kills and late < _PATIENCE * kills:
        lands = _kill_after(job, folder, rng.uniform(begun, took))
        landed, late = landed + lands, late + (not lands)
        if not lands or rng.random() < _LET_FINISH or landed == kills:
            problems += _finished(job, folder, wanted)
            compared += 1
            folder = _folder(scratch / f"{name}-killed-{compared}")
        print(f"kills: {name}, {landed} landed, {late} late, {compared} compared, {problems}", flush=True)
    return Killed(name, landed, late, compared, landed == kills and not problems, "; ".join(problems))


def _finished(job: Job, folder: Path, wanted: object) -> list[str]:
    """What is wrong once the command has been given again and came to its end; nothing if all is well."""
    done = _start(job, folder)
    _, errors = done.communicate(timeout=_LONGEST)
    if done.returncode:
        return [f"exit code {done.returncode}: {errors.decode(errors='replace')[-300:]}"]
    found = [] if job.results(folder / job.out) == wanted else ["results differ"]
    left = [path.name for path in folder.rglob("*") if ".partial" in path.name]
    return found + ([f"left behind: {left}"] if left else [])


def _folder(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


def _timed(job: Job, folder: Path) -> tuple[float, float]:
    """CPU seconds until a command first wrote something, and until its end."""
    begun, took = None, 0.0
    process = _start(job, folder)
    while process.poll() is None:
        took = cpu_seconds(process.pid) or took
        if begun is None and any(folder.iterdir()):
            begun = took
        time.sleep(_GLANCE)
    _, errors = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{' '.join(job.command(folder)[2:5])} failed: {errors.decode()[-500:]}")
    return begun or took, took


def _kill_after(job: Job, folder: Path, seconds: float) -> bool:
    """Kill the command and its processes after so many CPU seconds; whether it was still at work."""
    process = _start(job, folder)
    while process.poll() is None and cpu_seconds(process.pid) < seconds:
        time.sleep(_GLANCE)
    at_work = process.poll() is None
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    return at_work


def _start(job: Job, folder: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        job.command(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
