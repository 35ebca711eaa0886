"""Where checks run: in this process, in worker processes, or on a Dask cluster.

A check always runs on one thread, whatever the number of workers: N workers take N cores, and the order of
every sum, hence every digit of a finding, is the same in all three places.
"""

import time
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from attangent._core.processes import ATTEMPTS, in_processes
from attangent.audit.claims import Check, Settings
from attangent.audit.finding import Finding


@dataclass(frozen=True)
class Task:
    """One check to run with one seed; `name` tells it from the others."""

    name: str
    check: Check
    settings: Settings
    seed: int


@dataclass(frozen=True)
class Outcome:
    """What became of a task: a finding, or the traceback of its crash."""

    name: str
    seconds: float
    finding: Finding | None
    traceback: str = ""


def execute(tasks: list[Task], jobs: int = 1, dask: str | None = None) -> Iterator[Outcome]:
    """Run the tasks and yield each outcome as soon as it is there, in no particular order."""
    if dask is not None:
        from attangent._core.cluster import on_cluster

        yield from (outcome for _, outcome in on_cluster(measure, tasks, dask, _died))
    elif jobs == 1:
        yield from _here(tasks)
    else:
        yield from (outcome for _, outcome in in_processes(measure, tasks, jobs, _died))


def measure(task: Task) -> Outcome:
    """Run one check on one thread; a crash becomes a traceback."""
    _use_one_thread()
    start = time.perf_counter()
    try:
        finding, trace = task.check(task.settings, task.seed), ""
        if not isinstance(finding, Finding):
            raise TypeError(f"the check of {task.name} gave {type(finding).__name__}, expected a Finding")
    except Exception:
        finding, trace = None, traceback.format_exc()
    return Outcome(task.name, time.perf_counter() - start, finding, trace)


def _died(task: Task) -> Outcome:
    """The outcome of a task whose worker died each time it was tried."""
    return Outcome(task.name, 0.0, None, f"the process that ran this check died {ATTEMPTS} times")


def _use_one_thread() -> None:
    import torch
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
    torch.set_num_threads(1)


def _here(tasks: Iterable[Task]) -> Iterator[Outcome]:
    import torch
    from threadpoolctl import threadpool_limits

    threads = torch.get_num_threads()
    with threadpool_limits(1):
        try:
            for task in tasks:
                yield measure(task)
        finally:
            torch.set_num_threads(threads)
