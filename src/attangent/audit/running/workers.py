"""Where checks run: in this process, in worker processes, or on a Dask cluster.

A check always runs on one thread, whatever the number of workers: N workers take N cores, and the order of
every sum, hence every digit of a finding, is the same in all three places.
"""

import os
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

from attangent.audit.claims import Check, Settings
from attangent.audit.finding import Finding

ATTEMPTS = 3
"""How often a task is tried whose worker dies."""


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
        from attangent._cluster import on_cluster

        for _, outcome in on_cluster(measure, tasks, dask, lambda task: died(task, ATTEMPTS)):
            yield outcome
    elif jobs == 1:
        yield from _here(tasks)
    else:
        yield from _in_processes(tasks, jobs)


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


def died(task: Task, attempts: int) -> Outcome:
    """The outcome of a task whose worker died each time it was tried."""
    return Outcome(task.name, 0.0, None, f"the process that ran this check died {attempts} times")


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


def _in_processes(tasks: list[Task], jobs: int) -> Iterator[Outcome]:
    """All tasks on a pool of workers. Where one dies, those that were running are tried again one by one."""
    left = list(tasks)
    while left:
        running: dict[Future[Outcome], Task] = {}
        try:
            yield from _on_pool(left, running, jobs)
        except BrokenProcessPool:
            for task in running.values():
                yield _alone(task)


def _on_pool(left: list[Task], running: "dict[Future[Outcome], Task]", jobs: int) -> Iterator[Outcome]:
    """Keep `jobs` tasks running until none is left; takes them out of `left` and notes them in `running`."""
    pool = _new_pool(jobs)
    try:
        while left or running:
            while left and len(running) < jobs:
                task = left.pop(0)
                running[pool.submit(measure, task)] = task
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                outcome = future.result()
                del running[future]
                yield outcome
    finally:
        pool.shutdown(wait=True, kill_workers=True)


def _alone(task: Task) -> Outcome:
    """A task that was running when a worker died, with a worker of its own; its first attempt is over."""
    for _ in range(ATTEMPTS - 1):
        pool = _new_pool(1)
        try:
            return pool.submit(measure, task).result()
        except BrokenProcessPool:
            continue
        finally:
            pool.shutdown(wait=True, kill_workers=True)
    return died(task, ATTEMPTS)


def _new_pool(workers: int) -> Any:
    from joblib.externals.loky import ProcessPoolExecutor

    return ProcessPoolExecutor(workers, initializer=_end_with, initargs=(os.getpid(),))


def _end_with(parent: int) -> None:
    """Have this worker end soon after its parent, however that ended."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
