"""Where checks run: in this process, in worker processes (joblib with loky), or on a Dask cluster.

A check always runs on one thread, whatever the number of workers: N workers take N cores, and the order of
every sum, hence every digit of a finding, is the same in all three places.
"""

import contextlib
import importlib.util
import time
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from attangent._errors import AttangentError
from attangent.audit.claims import Check, Settings
from attangent.audit.finding import Finding

CONNECT_SECONDS = 10


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
        yield from _on_dask(tasks, dask)
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
    """All tasks on one pool; where a worker dies, the tasks left over run one by one, to find the culprit."""
    from joblib.externals.loky import get_reusable_executor
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    left = {task.name: task for task in tasks}
    try:
        try:
            for outcome in _parallel(tasks, "loky", jobs):
                del left[outcome.name]
                yield outcome
        except TerminatedWorkerError:
            for task in left.values():
                yield from _alone(task)
    except BaseException:
        get_reusable_executor().shutdown(wait=True, kill_workers=True)
        raise


def _alone(task: Task) -> Iterator[Outcome]:
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    try:
        yield from _parallel([task], "loky", 2)  # one job would run in this process
    except TerminatedWorkerError as error:
        yield Outcome(task.name, 0.0, None, f"the process that ran this check died\n{error}")


def _on_dask(tasks: list[Task], address: str) -> Iterator[Outcome]:
    with dask_client(address):
        yield from _parallel(tasks, "dask", -1)


@contextlib.contextmanager
def dask_client(address: str) -> Iterator[None]:
    """Be connected to the Dask scheduler at `address`."""
    if importlib.util.find_spec("distributed") is None:
        raise AttangentError("Dask is not installed: pip install 'attangent[cluster]'")
    from distributed import Client

    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=True)
    except (OSError, ValueError) as error:
        raise AttangentError(
            f"no Dask scheduler answers at {address!r} ({error}): give the address it printed when it started"
        ) from None
    with client:
        yield


def _parallel(tasks: list[Task], backend: str, jobs: int) -> Iterator[Outcome]:
    from joblib import Parallel, delayed, parallel_config

    with parallel_config(backend, n_jobs=jobs):
        pool: Any = Parallel(batch_size=1, return_as="generator_unordered")  # pyright: ignore
    yield from pool(delayed(measure)(task) for task in tasks)
