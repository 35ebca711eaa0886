"""Commands on a full disk and in a read-only folder: one line, exit code 2, nothing half written."""

import subprocess
from pathlib import Path
from typing import NamedTuple

from chaos.jobs import Job

_ROOMS = {"full": "size=4k,nr_inodes=64", "nearly full": "size=64k,nr_inodes=64", "read-only": "size=1m,ro"}


class Written(NamedTuple):
    """What a command did where it could not write."""

    job: str
    where: str
    well: bool
    said: str


def run(name: str, job: Job, scratch: Path) -> list[Written]:
    """The command in each of the places. These are mounted, which only the sandbox allows."""
    return [_one(name, job, where, options, scratch) for where, options in _ROOMS.items()]


def _one(name: str, job: Job, where: str, options: str, scratch: Path) -> Written:
    place = scratch / f"{name}-{where.replace(' ', '-')}"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True)
    try:
        done = subprocess.run(job.command(place), capture_output=True, text=True, timeout=900)
        left = [path.name for path in place.rglob("*") if ".partial" in path.name]
    finally:
        subprocess.run(["umount", str(place)], check=True)
    last = (done.stderr.strip().splitlines() or [""])[-1]
    clear = "Traceback" not in done.stderr and last.startswith("attangent:")
    refused = done.returncode == 2 and clear
    well = not left and (refused or (done.returncode in (0, 3) and where == "nearly full"))
    said = f"exit code {done.returncode}: {last[-200:]}"
    return Written(name, where, well, f"{said}; left {left}" if left else said)
