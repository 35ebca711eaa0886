"""Processes watched from outside."""

import os
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

FINDINGS = "findings/[!.]*.json"


class Died(NamedTuple):
    """What was done to a command, and whether it did as promised."""

    what: str
    well: bool
    said: str


def first_result(process: "subprocess.Popen[bytes]", folder: Path, of: str = FINDINGS) -> None:
    """Wait until a command has kept its first result, or has ended."""
    while process.poll() is None and not list(folder.rglob(of)):
        time.sleep(0.01)


def children(parent: int) -> list[int]:
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


def said(process: "subprocess.Popen[bytes]", errors: bytes) -> str:
    last = errors.decode(errors="replace").strip().splitlines()[-1:] or [""]
    return f"exit code {process.returncode}: {last[0][-160:]}"


def cpu_seconds(session: int) -> float:
    """The CPU time that the processes of a session have taken, with that of their children that ended."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        if int(fields[3]) == session:
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def waiting_seconds(pid: int) -> float:
    """For how long a process was ready to run and had no core; 0 where the system does not say."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0
