"""Tries attangent as a newcomer does and writes the times: `python docs/tools/fresh_machine.py [STEP ...]`.

Clones this repository into an empty folder and runs there, in an environment that the Makefile sets up: demo,
docs, test (all of them unless some are named). The table of docs/fresh-machine.md gets one row per step;
other rows are unchanged.
"""

import datetime
import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "fresh-machine.md"
STEPS = {
    "install": (
        ["make", ".venv/.installed"],
        "virtual environment, packages, Hugging Face models",
    ),
    "demo": (["make", "demo"], "the quick audit: every claim, and its report"),
    "docs": (["make", "docs"], "install what the site needs, build it, check links and hosts"),
    "test": (["make", "test"], "install what the tests need, run all of them"),
}


def timed(command: list[str], folder: Path) -> tuple[float, float, bool]:
    """Seconds on the clock, seconds of all processors, and whether it went well."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=clean_environment(), check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, spent, done.returncode == 0


def clean_environment() -> dict[str, str]:
    """The environment of a newcomer: no data, no path of this checkout."""
    hidden = ("ATTANGENT_DATA", "PYTHONPATH", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if name not in hidden}


def row_of(step: str, folder: Path) -> str:
    command, what = STEPS[step]
    clock, spent, well = timed(command, folder)
    today = datetime.datetime.now(datetime.UTC).date()
    outcome = "went well" if well else "**failed**"
    cells = (f"`{' '.join(command)}`", what, in_minutes(clock), in_minutes(spent), outcome, today)
    return f"| {' | '.join(map(str, cells))} |"


def in_minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def write(step: str, row: str) -> None:
    """Put the row into the table, replacing an earlier one."""
    command = " ".join(STEPS[step][0])
    text = PAGE.read_text()
    old = re.search(rf"^\| `{re.escape(command)}` \|.*$", text, re.MULTILINE)
    if old is None:
        raise SystemExit(f"{PAGE} has no row for {command}")
    PAGE.write_text(text.replace(old[0], row))


def main(steps: list[str]) -> None:
    print(f"{platform.machine()}, {os.cpu_count()} cores, python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "attangent"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
        for step in ["install", *(steps or [name for name in STEPS if name != "install"])]:
            row = row_of(step, folder)
            print(row, flush=True)
            write(step, row)


if __name__ == "__main__":
    main(sys.argv[1:])
