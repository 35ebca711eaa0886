"""`python -m chaos`: all parts, or those named; exit code 1 where a bar is missed."""

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from chaos import compiled, deaths, disk, kills, numbers, sandbox, server
from chaos.deaths_afar import kill_rank
from chaos.fuzz import fuzz
from chaos.jobs import NAMES, jobs
from chaos.pieces import INPUTS, MISSED, pieces_of, run_all
from chaos.report import Report

ROOT = Path(__file__).parents[1]
FUZZERS = {part: f"chaos.{part}_worker" for part in INPUTS}
_OFTEN = 100


def main() -> None:
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    sandbox.enter(options.out)
    closed = "nothing outside can be written" if sandbox.is_closed(ROOT) else "NO SANDBOX HERE"
    print(f"seed {options.seed}; {closed}", flush=True)
    report = _alone(options) if options.alone else run_all(pieces_of(options), options)
    report.write(options.out)
    print(f"\n{report.table()}\n{'passed' if report.passed else 'NOT PASSED'} with seed {report.seed}")
    sys.exit(0 if report.passed else MISSED if options.alone else 1)


def _alone(options: argparse.Namespace) -> Report:
    """The parts one after the other, in this process."""
    scratch = options.out / "scratch"
    scratch.mkdir(exist_ok=True)
    os.chdir(scratch)
    report = Report(options.seed)
    for part in options.parts:
        start = time.monotonic()
        cpu = _cpu_seconds()
        PARTS[part](report, part, options, scratch)
        report.seconds[part] = time.monotonic() - start
        report.cpu_seconds[part] = _cpu_seconds() - cpu
        report.write(options.out)
    return report


def _cpu_seconds() -> float:
    """CPU time of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--out", type=Path, required=True, help="a folder for all that is written")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--inputs", type=int, default=INPUTS["files"], help="damaged files to read")
    parser.add_argument("--first", type=int, default=0, help="the first case, to go on from there")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="pieces side by side")
    parser.add_argument("--go-on", action="store_true", help="keep the pieces that an earlier run finished")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--of", nargs="*", default=list(NAMES), help="commands that kills and disk take")
    parser.add_argument("--kills", type=int, default=2, help="of every command")
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"unknown parts {', '.join(sorted(unknown))}, expected some of {', '.join(PARTS)}")
    options.out = options.out.resolve()
    return options


def _fuzz(report: Report, part: str, options: argparse.Namespace, scratch: Path) -> None:
    stop = options.first + options.inputs
    for number, ended in enumerate(fuzz(FUZZERS[part], options.seed, options.first, stop, scratch), start=1):
        report.count(part, ended)
        if number % _OFTEN == 0:
            print(f"chaos: {part}, {number:,} of {options.inputs:,}", flush=True)
            report.write(options.out)


def _kills(report: Report, part: str, options: argparse.Namespace, scratch: Path) -> None:
    for name, job in jobs(options.of).items():
        found = kills.run(name, job, options.kills, options.seed, scratch)
        report.add(part, **found._asdict())


def _disk(report: Report, part: str, options: argparse.Namespace, scratch: Path) -> None:
    for name, job in jobs(options.of).items():
        for found in disk.run(name, job, scratch):
            report.add(part, found.well, job=name, where=found.where, said=found.said)


def _deaths(report: Report, part: str, options: argparse.Namespace, scratch: Path) -> None:
    given = jobs(["audit", "tune"])
    for found in deaths.run(given["audit"], options.seed, scratch):
        report.add(part, found.well, what=found.what, said=found.said)
    found = kill_rank(given["tune"], scratch)
    report.add(part, found.well, what=found.what, said=found.said)


def _compiled(report: Report, part: str, options: argparse.Namespace, scratch: Path) -> None:
    for found in compiled.run(ROOT, scratch):
        report.add(part, found.clean is not False, library=found.library, said=found.said)


def _numbers(report: Report, part: str, options: argparse.Namespace, scratch: Path) -> None:
    rows = numbers.run()
    print(numbers.table(rows), flush=True)
    for row in rows:
        report.add(part, row.well, case=row.case, error=f"{row.error:.1e}", bound=f"{row.bound:.0e}")


def _server(report: Report, part: str, options: argparse.Namespace, scratch: Path) -> None:
    for what, problems in server.run(scratch, options.seed).items():
        report.add(part, not problems, what=what, said="; ".join(problems))


PARTS: dict[str, Callable[[Report, str, argparse.Namespace, Path], None]] = {
    **dict.fromkeys(FUZZERS, _fuzz),
    "kills": _kills,
    "deaths": _deaths,
    "disk": _disk,
    "compiled": _compiled,
    "numbers": _numbers,
    "server": _server,
}

if __name__ == "__main__":
    main()
