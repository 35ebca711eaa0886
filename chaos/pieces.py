"""Split a chaos run into pieces, each a process with its own report."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

from chaos.report import Report

INPUTS = {"files": 600, "commands": 240}
"""Default number of inputs per fuzzer; `--inputs` sets that of `files`, and `commands` scales with it."""
MISSED = 3
"""The exit code of a piece that came to its end and missed a bar."""
_AT_ONCE = 375


class Piece(NamedTuple):
    """Arguments of one `python -m chaos --alone` process."""

    name: str
    arguments: tuple[str, ...]


def pieces_of(options: argparse.Namespace) -> list[Piece]:
    """The pieces of the parts that are asked for: those that take long first, so that none is left over."""
    found = []
    for part in sorted(options.parts, key=_LENGTHS.index):
        if part in INPUTS:
            found += _ranges(part, options)
        elif part == "kills":
            often = ("--kills", str(options.kills))
            found += [Piece(f"kills-{name}", ("kills", "--of", name, *often)) for name in options.of]
        elif part == "disk":
            found.append(Piece("disk", ("disk", "--of", *options.of)))
        else:
            found.append(Piece(part, (part,)))
    return found


def _ranges(part: str, options: argparse.Namespace) -> Iterator[Piece]:
    count = max(1, round(options.inputs * INPUTS[part] / INPUTS["files"]))
    for start in range(0, count, _AT_ONCE):
        some = min(_AT_ONCE, count - start)
        given = (part, "--inputs", str(some), "--first", str(options.first + start))
        yield Piece(f"{part}-{start}" if count > _AT_ONCE else part, given)


def run_all(pieces: list[Piece], options: argparse.Namespace) -> Report:
    """The reports of all pieces in one, `options.jobs` of them at a time."""
    report = Report(options.seed)
    start = time.monotonic()
    with ThreadPoolExecutor(options.jobs) as lanes:
        running = {lanes.submit(_run, piece, options): piece for piece in pieces}
        for number, done in enumerate(as_completed(running), start=1):
            piece = running[done]
            took = time.monotonic() - start
            print(f"chaos: {piece.name} ended, {number} of {len(pieces)}, {took:.0f} s", flush=True)
            _take(report, piece, done.result(), options.out / "pieces" / piece.name)
            report.write(options.out)
    return report


def _run(piece: Piece, options: argparse.Namespace) -> int:
    """The exit code of a piece; one that is there already, and whole, is not run again with `--go-on`."""
    folder = options.out / "pieces" / piece.name
    command = [*piece.arguments, "--alone", "--seed", str(options.seed)]
    if options.go_on and _is_whole(folder, command):
        return 0
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with (folder / "log.txt").open("w") as log:
        done = subprocess.run(
            [sys.executable, "-m", "chaos", *command, "--out", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    if done.returncode in (0, MISSED):
        (folder / "done.json").write_text(json.dumps(command))
    return done.returncode


def _is_whole(folder: Path, command: list[str]) -> bool:
    done = folder / "done.json"
    return done.is_file() and json.loads(done.read_text()) == command


def _take(report: Report, piece: Piece, code: int, folder: Path) -> None:
    if code in (0, MISSED):
        report.merge(json.loads((folder / "chaos.json").read_text()))
    else:
        said = (folder / "log.txt").read_text(errors="replace").strip()[-300:]
        report.add(piece.arguments[0], False, piece=piece.name, said=f"exit code {code}: {said}")


_LENGTHS = ("kills", "deaths", "files", "commands", "compiled", "disk", "server", "numbers")
