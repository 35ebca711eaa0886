"""`python -m benchmarks [--only NAME] [--minutes M] [--quick]`: measure, print, write results and their page.

`--release` keeps what was measured last as that of the installed version, for later runs to compare with.
"""

import argparse
import dataclasses
import functools
import json
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, TaskID

from attangent._core.errors import AttangentError
from benchmarks.harness.benchmark import FULL, QUICK, Benchmark, Instruments, run, step_count
from benchmarks.harness.changes import kept_for_comparison
from benchmarks.harness.discover import discover
from benchmarks.harness.entrants import ROOT
from benchmarks.harness.measure import Effort
from benchmarks.harness.report import load, markdown, merge, table, write


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Exit code: 0 done, 1 a benchmark failed (the others still ran), 2 a bad argument or results file."""
    options = _parse(arguments)
    results_file = root / "benchmarks" / "results" / "results.json"
    try:
        known = discover()
        chosen = _choose(known, options.only)
        results = load(results_file)
    except AttangentError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.release:
        kept = {**results, "version": version("attangent"), "rows": kept_for_comparison(results["rows"])}
        write(root / "benchmarks" / "results" / "released.json", json.dumps(kept, indent=1) + "\n")
        return 0
    budget = Budget(60 * options.minutes, sum(len(benchmark.sizes) for benchmark in chosen))
    measure = _look if options.quick else lambda benchmark: _record(benchmark, known, root, budget)
    try:
        done = [_succeeds(measure, benchmark) for benchmark in chosen]
    except KeyboardInterrupt:
        print("stopped; benchmarks that were finished are kept", file=sys.stderr)
        return 130
    return 0 if all(done) else 1


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure speed and memory.")
    parser.add_argument("--only", metavar="NAME", help="run this benchmark and replace its rows only")
    parser.add_argument(
        "--quick", action="store_true", help="few rounds of the smallest size: print, write nothing"
    )
    parser.add_argument(
        "--minutes", type=float, default=30.0, help="about how long all of it may take (default 30)"
    )
    parser.add_argument(
        "--release", action="store_true", help="measure nothing: keep the results as those of this version"
    )
    return parser.parse_args(arguments)


def _choose(known: Mapping[str, Benchmark], only: str | None) -> list[Benchmark]:
    if only is None:
        return list(known.values())
    if only not in known:
        raise AttangentError(f"there is no benchmark {only!r}, expected one of {', '.join(sorted(known))}")
    return [known[only]]


def _succeeds(measure: Callable[[Benchmark], None], benchmark: Benchmark) -> bool:
    try:
        measure(benchmark)
    except AttangentError as error:
        print(f"error: benchmark {benchmark.name} failed: {error}", file=sys.stderr)
        return False
    except Exception:
        print(f"error: benchmark {benchmark.name} failed:", traceback.format_exc(), sep="\n", file=sys.stderr)
        return False
    return True


def _look(benchmark: Benchmark) -> None:
    """A few rounds of the smallest size; a quick look is no record."""
    _measured(dataclasses.replace(benchmark, sizes=benchmark.sizes[:1], goals=()), QUICK)


def _record(benchmark: Benchmark, known: Mapping[str, Benchmark], root: Path, budget: "Budget") -> None:
    """All sizes, kept in benchmarks/results/results.json and docs/benchmarks.md."""
    rows = _measured(benchmark, full_effort(benchmark.rounds, budget.share(len(benchmark.sizes))))
    folder = root / "benchmarks" / "results"
    results = merge(load(folder / "results.json"), benchmark, rows, known)
    write(folder / "results.json", json.dumps(results, indent=1) + "\n")
    write(root / "docs" / "benchmarks.md", markdown(results, load(folder / "released.json")))


class Budget:
    """The time for all benchmarks. What is left when one begins is shared out over the sizes still to come.

    Half of a share is for the timing itself, the rest for processes that are started, for memory and warming
    up.
    """

    def __init__(self, seconds: float, sizes: int, clock: Callable[[], float] = time.monotonic):
        self._clock, self._sizes, self._ends = clock, sizes, clock() + seconds

    def share(self, sizes: int) -> float:
        """Seconds of timing for each of the next `sizes` sizes."""
        left = max(0.0, self._ends - self._clock())
        each = left / max(self._sizes, sizes) / 2
        self._sizes -= sizes
        return each


def full_effort(rounds: int, seconds: float) -> Effort:
    """At least so many rounds, and more while the `seconds` that a size may take are not spent."""
    enough = FULL.enough_seconds * max(1.0, rounds / FULL.rounds)
    return dataclasses.replace(FULL, rounds=rounds, enough_seconds=min(enough, seconds))


def _measured(benchmark: Benchmark, effort: Effort) -> list[dict]:
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task(benchmark.name, total=step_count(benchmark, effort))
        tick = functools.partial(_advance, progress, task)
        rows = run(benchmark, effort, Instruments(tick=tick))
    print(benchmark.name, "", *table(rows), "", sep="\n", flush=True)
    return rows


def _advance(progress: Progress, task: TaskID, step: str) -> None:
    progress.update(task, description=step, advance=1)


if __name__ == "__main__":
    sys.exit(main())
