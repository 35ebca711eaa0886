"""Work in processes that may die: what one was at is done again, and all end with the one that began them."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from attangent._core.cores import available_cores

ATTEMPTS = 3
"""How often a task is tried whose process dies."""
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


def in_processes(
    work: Callable[[_Task], _Result],
    tasks: Sequence[_Task],
    jobs: int,
    died: Callable[[_Task], _Result],
) -> Iterator[tuple[int, _Result]]:
    """Numbers of tasks with what `work` made of them in `jobs` processes, as they come.

    Where a process dies, tasks that were running are tried again one by one; `died` says what stands for a
    task at which too many died.
    """
    left = list(range(len(tasks)))
    while left:
        running: dict[Future[_Result], int] = {}
        try:
            yield from _on_pool(work, tasks, left, running, jobs)
        except BrokenProcessPool:
            for number in running.values():
                yield number, _alone(work, tasks[number], died)


def _on_pool(
    work: Callable[[_Task], _Result],
    tasks: Sequence[_Task],
    left: list[int],
    running: "dict[Future[_Result], int]",
    jobs: int,
) -> Iterator[tuple[int, _Result]]:
    """Keep `jobs` tasks running until none is left; takes them out of `left` and notes them in `running`."""
    pool = _new_pool(jobs)
    try:
        while left or running:
            while left and len(running) < jobs:
                number = left.pop(0)
                running[pool.submit(work, tasks[number])] = number
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                result = future.result()
                yield running.pop(future), result
    finally:
        pool.shutdown(wait=True, kill_workers=True)


def _alone(work: Callable[[_Task], _Result], task: _Task, died: Callable[[_Task], _Result]) -> _Result:
    """A task that was running when a process died, in one of its own; its first attempt is over."""
    for _ in range(ATTEMPTS - 1):
        pool = _new_pool(1)
        try:
            return pool.submit(work, task).result()
        except BrokenProcessPool:
            continue
        finally:
            pool.shutdown(wait=True, kill_workers=True)
    return died(task)


def _new_pool(workers: int) -> Any:
    """Processes that share the cores between them."""
    from joblib.externals.loky import ProcessPoolExecutor

    threads = str(max(1, available_cores() // workers))
    given = {"initializer": _end_with, "initargs": (os.getpid(),), "env": dict.fromkeys(_THREADS, threads)}
    return ProcessPoolExecutor(workers, **given)


def _end_with(parent: int) -> None:
    """Have this process end soon after its parent, however that ended."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
