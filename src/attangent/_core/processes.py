"""Work in processes that may die: their tasks are retried, and workers end with their parent."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

ATTEMPTS = 3
"""Attempts per task whose process dies."""
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


def in_processes(
    work: Callable[[_Task], _Result],
    tasks: Sequence[_Task],
    jobs: int,
    died: Callable[[_Task], _Result],
) -> Iterator[tuple[int, _Result]]:
    """Run `work` on the tasks in `jobs` processes and yield (task number, result) as they finish.

    If a process dies, the tasks that were running are retried one by one.

    Args:
        work: A picklable function of one task.
        tasks: The tasks.
        jobs: Number of processes.
        died: Gives the result of a task whose process died in every attempt.
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
    """Keep `jobs` tasks running until none is left; tasks move from `left` to `running`."""
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
    """Retry a task whose process died, each time in a new process."""
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
    """Return a pool whose processes share the cores between them."""
    from joblib import cpu_count
    from joblib.externals.loky import ProcessPoolExecutor

    environment = dict.fromkeys(_THREADS, str(max(1, cpu_count() // workers)))
    return ProcessPoolExecutor(workers, initializer=_end_with, initargs=(os.getpid(),), env=environment)


def _end_with(parent: int) -> None:
    """Let this process end within a second of its parent, however that ends."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
