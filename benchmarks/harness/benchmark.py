"""What a benchmark is, and one run of it: memory first, agreement next, then interleaved timing.

A module `bench_<topic>.py` beside this one exposes `BENCHMARKS`, a list of `Benchmark`.
"""

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, ClassVar, Literal

import torch

from attangent._core.errors import AttangentError
from attangent.audit.code import code_version
from benchmarks.harness.child import MALLOC_SETTINGS, Unavailable, Work
from benchmarks.harness.entrants import Child, Entrant, InProcess, Lapped
from benchmarks.harness.intervals import median_interval, ratios
from benchmarks.harness.measure import Effort, Excuses, fixed_threads, interleave, interleave_laps

__all__ = ["Benchmark", "Contestant", "Disagreement", "Goal", "Outside", "Unavailable", "run"]

Size = Mapping[str, int]
Clock = Callable[[], float]
FULL = Effort(rounds=7, least_seconds=0.1, enough_seconds=30.0, most_rounds=45)
QUICK = Effort(rounds=3, least_seconds=0.02)


class Disagreement(AttangentError):
    """A contestant's answer is not the reference's."""


@dataclass(frozen=True)
class Contestant:
    """Work done in this process: `build(size)` makes the callable that is timed, untimed itself.

    `build` raises Unavailable where the contestant cannot run. A yardstick that does other work than the
    reference says `same_work=False` and is not checked against it. Work `in_laps` returns an iterator; its
    steps alternate with those of the others, and each counts at its fastest, so that no disturbance of a part
    spoils the whole.
    """

    name: str
    build: Callable[[Size], Work]
    same_work: bool = True
    in_laps: bool = False

    def enter(self, size: Size, threads: int, clock: Clock) -> Entrant:
        entrant = Lapped if self.in_laps else InProcess
        return entrant(self.build(size), our_versions(self.build.__module__), clock)

    def whole(self, size: Size) -> Work:
        """The work as one call, all laps of it."""
        work = self.build(size)
        return (lambda: list(work())) if self.in_laps else work

    def memory_command(self, benchmark: str, size: Size) -> Sequence[str]:
        return [
            sys.executable,
            "-m",
            "benchmarks.harness.worker",
            benchmark,
            self.name,
            json.dumps(dict(size)),
        ]


@dataclass(frozen=True)
class Outside:
    """Work done in an environment of its own: `command(size)` starts a program that calls `child.serve`."""

    name: str
    command: Callable[[Size], Sequence[str]]
    same_work: bool = True
    in_laps: ClassVar[bool] = False

    def enter(self, size: Size, threads: int, clock: Clock) -> Entrant:
        return Child(self.command(size), threads)

    def memory_command(self, benchmark: str, size: Size) -> Sequence[str]:
        return self.command(size)


@dataclass(frozen=True)
class Goal:
    """`of` of `contestant` at `size`, over that of `against` at `against_size`, is to be `at_most` so much.

    `against_size` is `size` unless given.
    """

    contestant: str
    against: str
    size: Size
    at_most: float
    of: Literal["seconds", "peak_bytes"] = "seconds"
    against_size: Size | None = None

    def verdict(self, name: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The goal with what `rows` measured of it; None where a part of it is missing."""
        figures = {(row["contestant"], label(row["size"])): row[self.of] for row in rows}
        top = figures.get((self.contestant, label(self.size)))
        bottom = figures.get((self.against, label(self.against_size or self.size)))
        measured = top / bottom if top is not None and bottom else None
        return {"name": name, "goal": self.describe(), "at_most": self.at_most, "measured": measured}

    def describe(self) -> str:
        what = {"seconds": "time", "peak_bytes": "peak memory"}[self.of]
        where = "" if self.against_size is None else f" at {label(self.against_size)}"
        return f"{what} of {self.contestant} at {label(self.size)} / {self.against}{where}"


@dataclass(frozen=True)
class Benchmark:
    """Contestants on the same work; their figures are ratios to `baseline`. Sizes go from small to large.

    `reference(size)` is the answer every contestant of the same work must give, to `tolerance` times its
    largest entry, before anything is timed. `rounds` is for differences that drown in the usual least number.
    """

    name: str
    about: str
    sizes: Sequence[Size]
    contestants: Sequence[Contestant | Outside]
    baseline: str
    threads: int = 1
    reference: Callable[[Size], Any] | None = None
    tolerance: float = 1e-9
    rounds: int = FULL.rounds
    goals: Sequence[Goal] = ()

    def __post_init__(self) -> None:
        names = [contestant.name for contestant in self.contestants]
        known = ", ".join(names)
        if not self.sizes or len(set(names)) < len(names):
            raise AttangentError(
                f"benchmark {self.name} needs a size and contestants of distinct names: {known}"
            )
        for name in {self.baseline, *(n for goal in self.goals for n in (goal.contestant, goal.against))}:
            if name not in names:
                raise AttangentError(f"benchmark {self.name} names {name!r}, expected one of {known}")
        if len({contestant.in_laps for contestant in self.contestants}) > 1:
            raise AttangentError(f"benchmark {self.name} has contestants with and without laps: {known}")
        for goal in self.goals:
            if goal.size not in self.sizes or (goal.against_size or goal.size) not in self.sizes:
                raise AttangentError(f"benchmark {self.name} has a goal at a size it does not run: {goal}")

    def contestant(self, name: str) -> Contestant | Outside:
        return next(contestant for contestant in self.contestants if contestant.name == name)


def label(size: Size) -> str:
    """ "n=64 d=16" for {"n": 64, "d": 16}."""
    return " ".join(f"{name}={value}" for name, value in size.items())


def peak_in_child(benchmark: Benchmark, contestant: Contestant | Outside, size: Size) -> int | None:
    """Peak memory of one call, measured in a fresh process: see `child.peak_bytes`."""
    child = Child(contestant.memory_command(benchmark.name, size), benchmark.threads, MALLOC_SETTINGS)
    try:
        return child.peak_bytes()
    finally:
        child.close()


@dataclass(frozen=True)
class Instruments:
    """What a run measures with; `tick` hears of each step before it is made."""

    clock: Clock = time.perf_counter
    peak: Callable[[Benchmark, Contestant | Outside, Size], int | None] = peak_in_child
    tick: Callable[[str], None] = lambda step: None
    load: Callable[[], float] = lambda: os.getloadavg()[0]
    """How many processes want a core, this one and its threads included, on the mean of the last minute."""


def run(
    benchmark: Benchmark, effort: Effort = FULL, instruments: Instruments | None = None
) -> list[dict[str, Any]]:
    """One row for each size and contestant."""
    instruments = instruments or Instruments()
    with fixed_threads(benchmark.threads):
        return [row for size in benchmark.sizes for row in _run_size(benchmark, size, effort, instruments)]


def step_count(benchmark: Benchmark, effort: Effort) -> int:
    """How many ticks a run makes when every contestant is available."""
    return len(benchmark.sizes) * len(benchmark.contestants) * (effort.rounds + 2)


def _run_size(
    benchmark: Benchmark, size: Size, effort: Effort, instruments: Instruments
) -> list[dict[str, Any]]:
    def tick(step: str) -> None:
        instruments.tick(f"{label(size)}: {step}")

    excuses, race = Excuses(), Race(benchmark, size, load=instruments.load())
    expected = benchmark.reference(size) if benchmark.reference else None
    entrants: dict[str, Entrant] = {}
    try:
        for contestant in benchmark.contestants:
            name = contestant.name
            tick(f"{name}, memory")
            with excuses.allowed(name):
                race.peaks[name] = instruments.peak(benchmark, contestant, size)
                entrants[name] = contestant.enter(size, benchmark.threads, instruments.clock)
                race.versions[name] = dict(entrants[name].versions)
                if expected is not None and contestant.same_work:
                    _check_agreement(benchmark, name, size, expected, entrants[name].result())
        ready = {name: entrant for name, entrant in entrants.items() if name not in excuses}
        race.samples = _timed(ready, effort, excuses, tick, benchmark.baseline)
        race.load = max(race.load, instruments.load())
        race.fastest = {name: entrants[name].fastest(times) for name, times in race.samples.items() if times}
    finally:
        for entrant in entrants.values():
            entrant.close()
    return [race.row(contestant.name, excuses) for contestant in benchmark.contestants]


def _timed(
    entrants: dict[str, Entrant],
    effort: Effort,
    excuses: Excuses,
    tick: Callable[[str], None],
    baseline: str,
) -> dict[str, list[float]]:
    lapped = {name: entrant for name, entrant in entrants.items() if isinstance(entrant, Lapped)}
    if lapped and len(lapped) == len(entrants):
        return interleave_laps(lapped, effort, tick, baseline)
    return interleave(entrants, effort, excuses, tick, baseline)


def _check_agreement(benchmark: Benchmark, name: str, size: Size, expected: Any, result: Any) -> None:
    wanted = torch.as_tensor(expected, dtype=torch.float64)
    given = torch.as_tensor(result, dtype=torch.float64)
    where = f"{name} in benchmark {benchmark.name} at {label(size)}"
    if given.shape != wanted.shape:
        raise Disagreement(f"{where} gives shape {tuple(given.shape)}, the reference {tuple(wanted.shape)}")
    gap = ((given - wanted).abs().max() / wanted.abs().max()).item()
    if not gap <= benchmark.tolerance:
        raise Disagreement(
            f"{where} is {gap:.2g} off the reference, expected at most {benchmark.tolerance:g}"
        )


@dataclass
class Race:
    """What was measured of the contestants at one size, by name."""

    benchmark: Benchmark
    size: Size
    load: float = 0.0
    samples: dict[str, list[float]] = field(default_factory=dict)
    fastest: dict[str, float] = field(default_factory=dict)
    peaks: dict[str, int | None] = field(default_factory=dict)
    versions: dict[str, dict[str, str]] = field(default_factory=dict)

    def row(self, name: str, excuses: Mapping[str, str]) -> dict[str, Any]:
        baseline = self.benchmark.baseline
        times, base = self.samples.get(name), self.samples.get(baseline)
        peak, base_peak = self.peaks.get(name), self.peaks.get(baseline)
        fastest, base_fastest = self.fastest.get(name), self.fastest.get(baseline)
        by_round = ratios(times, base) if times and base else None
        return {
            "name": self.benchmark.name,
            "size": dict(self.size),
            "contestant": name,
            "baseline": baseline,
            "ratio": fastest / base_fastest if fastest and base_fastest else None,
            "ratio_by_round": [min(by_round), max(by_round)] if by_round else None,
            "median_ratio": median(by_round) if by_round else None,
            "interval": median_interval(by_round) if by_round else None,
            "load": self.load,
            "seconds": fastest,
            "rounds": len(times) if times else 0,
            "peak_bytes": peak,
            "peak_ratio": peak / base_peak if peak is not None and base_peak else None,
            "unavailable": excuses.get(name),
            "versions": self.versions.get(name, {}),
            "threads": self.benchmark.threads,
            "cpu": cpu_model(),
            "date": datetime.now(UTC).date().isoformat(),
        }


def our_versions(module: str) -> dict[str, str]:
    """Versions of what runs in this process; `code` digests `module` and the attangent it imports."""
    packages = {package: version(package) for package in ("attangent", "torch", "numpy")}
    return {"code": code_version(module), **packages, "python": platform.python_version()}


def cpu_model() -> str:
    """The CPU as the system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())
