"""Interleaved rounds with fixed threads."""

import itertools
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from threadpoolctl import threadpool_limits

from attangent._core.errors import AttangentError
from benchmarks.harness.child import Unavailable
from benchmarks.harness.entrants import Entrant, Lapped
from benchmarks.harness.intervals import all_known_within

_FEWEST_ROUNDS = 3
"""Of a race in laps that takes too long."""


@dataclass(frozen=True)
class Effort:
    """How many interleaved rounds, and how long a single measurement lasts at least.

    After `rounds` rounds there are more, up to `most_rounds`, until every ratio to the baseline is known
    `within` this share of itself, or the race has taken `enough_seconds`. A contestant that has been measured
    twice and for `enough_seconds` in all sits the later rounds out.
    """

    rounds: int
    least_seconds: float
    enough_seconds: float = math.inf
    most_rounds: int = 0
    within: float = 0.05

    def is_over(self, samples: Mapping[str, list[float]], baseline: str | None, spent: float) -> bool:
        """Whether the race may end after the rounds in `samples`, which took `spent` seconds."""
        done = max(map(len, samples.values()), default=0)
        if done < self.rounds:
            return False
        if done >= max(self.rounds, self.most_rounds) or spent >= self.enough_seconds:
            return True
        return all_known_within(samples, baseline, self.within)


@contextmanager
def fixed_threads(count: int) -> Iterator[None]:
    """`count` threads in torch and the BLAS libraries, and `count` CPUs, which child processes inherit.

    The CPUs hold back peers that take every core they see whatever they are told.
    """
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if cpus and count > len(cpus):
        raise AttangentError(f"threads is {count}, but this process may use {len(cpus)} CPUs: lower it")
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        if cpus:
            os.sched_setaffinity(0, cpus[-count:])
        with threadpool_limits(count):
            yield
    finally:
        torch.set_num_threads(before)
        if cpus:
            os.sched_setaffinity(0, cpus)


class Excuses(dict[str, str]):
    """Why contestants do not run, by name."""

    @contextmanager
    def allowed(self, name: str) -> Iterator[None]:
        """Note that `name` is unavailable instead of raising it."""
        try:
            yield
        except (Unavailable, ModuleNotFoundError) as error:
            self[name] = str(error)


def interleave(
    entrants: Mapping[str, Entrant],
    effort: Effort,
    excuses: Excuses,
    tick: Callable[[str], None],
    baseline: str | None = None,
) -> dict[str, list[float]]:
    """Seconds per call of each entrant, one entry per round: A B C, B C A, C A B, ...

    Every entrant is warmed up first; one that becomes unavailable on the way leaves the race.
    """
    repeats: dict[str, int] = {}
    for name, entrant in entrants.items():
        tick(f"{name}, warm-up")
        with excuses.allowed(name):
            repeats[name] = enough_repeats(entrant, effort.least_seconds)
    samples: dict[str, list[float]] = {name: [] for name in repeats}
    for turn in range(max(effort.rounds, effort.most_rounds)):
        for name in _rotated(list(repeats), turn):
            tick(f"{name}, round {turn + 1}")
            if name not in excuses and not _measured_enough(samples[name], repeats[name], effort):
                with excuses.allowed(name):
                    samples[name].append(entrants[name].seconds(repeats[name]) / repeats[name])
        racing = {name: times for name, times in samples.items() if name not in excuses}
        if effort.is_over(racing, baseline, sum(sum(racing[name]) * repeats[name] for name in racing)):
            break
    return {name: times for name, times in samples.items() if name not in excuses}


def interleave_laps(
    entrants: Mapping[str, Lapped],
    effort: Effort,
    tick: Callable[[str], None],
    baseline: str | None = None,
) -> dict[str, list[float]]:
    """The same for entrants that all run in laps: the first lap of each in turn, then the second, ...

    None can sit a round out, so the race ends early once each might have done so.
    """
    for name, entrant in entrants.items():
        tick(f"{name}, warm-up")
        entrant.seconds(1)
    samples: dict[str, list[float]] = {name: [] for name in entrants}
    for turn in range(max(effort.rounds, effort.most_rounds)):
        running = {name: entrant.start() for name, entrant in entrants.items()}
        taken = dict.fromkeys(entrants, 0.0)
        for lap in itertools.count(turn):
            laps = {name: next(running[name], None) for name in _rotated(list(entrants), lap)}
            if None in laps.values():
                break
            taken = {name: taken[name] + (laps[name] or 0.0) for name in taken}
        for name in entrants:
            tick(f"{name}, round {turn + 1}")
            samples[name].append(taken[name])
        spent = sum(map(sum, samples.values()))
        late = turn + 1 >= _FEWEST_ROUNDS and spent >= len(samples) * effort.enough_seconds
        if late or effort.is_over(samples, baseline, spent):
            break
    return samples


def _measured_enough(samples: list[float], repeats: int, effort: Effort) -> bool:
    return len(samples) >= 2 and sum(samples) * repeats >= effort.enough_seconds


def enough_repeats(entrant: Entrant, least_seconds: float) -> int:
    """Calls in a row that last at least `least_seconds`, found after a call that is not counted.

    One that lasts a hundred times as long is not tried again.
    """
    if entrant.seconds(1) >= 100 * least_seconds:
        return 1
    repeats = 1
    while (taken := entrant.seconds(repeats)) < least_seconds:
        wanted = math.ceil(1.1 * repeats * least_seconds / taken) if taken > 0 else 10 * repeats
        repeats = min(max(wanted, repeats + 1), 10 * repeats)
    return repeats


def _rotated(names: list[str], turn: int) -> list[str]:
    start = turn % len(names) if names else 0
    return names[start:] + names[:start]
