"""Parallel work: in processes that may die, or on a Dask cluster that may lose its workers."""

import contextlib
import importlib.util
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from attangent._core.errors import AttangentError

ATTEMPTS = 3
"""Attempts per task whose process dies."""
_POOL_THREAD = "ExecutorManagerThread"
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
CONNECT_SECONDS = 10.0
PATIENCE_SECONDS = 30.0
"""How long a run waits for a cluster without workers."""
POLL_SECONDS = 0.1
_RESUME = "finished results are saved: run the same command to resume, with or without --dask"
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
        _end(pool)


def _alone(work: Callable[[_Task], _Result], task: _Task, died: Callable[[_Task], _Result]) -> _Result:
    """Retry a task whose process died, each time in a new process."""
    for _ in range(ATTEMPTS - 1):
        pool = _new_pool(1)
        try:
            return pool.submit(work, task).result()
        except BrokenProcessPool:
            continue
        finally:
            _end(pool)
    return died(task)


def _end(pool: Any) -> None:
    """End a pool and its processes."""
    with _silent(_POOL_THREAD):
        pool.shutdown(wait=True, kill_workers=True)


@contextlib.contextmanager
def _silent(name: str) -> Iterator[None]:
    """Print no errors of threads of this name.

    After Ctrl-C a pool's own thread may fail, since processes that it is about to kill have ended already.
    """
    report = threading.excepthook

    def report_others(error: threading.ExceptHookArgs) -> None:
        if error.thread is None or error.thread.name != name:
            report(error)

    threading.excepthook = report_others
    try:
        yield
    finally:
        threading.excepthook = report


def _new_pool(workers: int) -> Any:
    """Return a pool whose processes share the cores between them."""
    from joblib import cpu_count
    from joblib.externals.loky import ProcessPoolExecutor

    environment = dict.fromkeys(_THREADS, str(max(1, cpu_count() // workers)))
    return ProcessPoolExecutor(workers, initializer=_end_with, initargs=(os.getpid(),), env=environment)


def _end_with(parent: int) -> None:
    """Let this process end within a second of its parent, however that ends.

    Ctrl-C reaches all processes of a terminal; the parent alone answers it, and ends the others.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def on_cluster(
    work: Callable[[_Task], _Result],
    tasks: Sequence[_Task],
    address: str,
    died: Callable[[_Task], _Result],
) -> Iterator[tuple[int, _Result]]:
    """Run `work` on the tasks on a Dask cluster and yield (task number, result) as they finish.

    Dask gives the task of a dead worker to another one.

    Args:
        work: A picklable function of one task.
        tasks: The tasks.
        address: The address of the scheduler.
        died: Gives the result of a task at which too many workers died.
    """
    with dask_client(address) as client:
        _require_workers(client, address)
        waiting = {client.submit(work, task, pure=False): number for number, task in enumerate(tasks)}
        alive = time.monotonic()
        while waiting:
            remaining = len(waiting)
            for future in list(waiting):
                # A dead worker takes its results with it. Dask runs the task again, so it stays in `waiting`.
                with contextlib.suppress(_ResultLost):
                    if future.done():
                        result = _result(future, tasks[waiting[future]], address, died)
                        yield waiting.pop(future), result
            if len(waiting) < remaining or _workers(client):
                alive = time.monotonic()
            elif time.monotonic() - alive > PATIENCE_SECONDS:
                raise AttangentError(
                    f"the Dask cluster at {address!r} has had no workers for {PATIENCE_SECONDS:.0f} s; "
                    f"{_RESUME}"
                )
            time.sleep(POLL_SECONDS)


class _ResultLost(Exception):
    """A finished result did not arrive: its worker died."""


def _result(future: Any, task: _Task, address: str, died: Callable[[_Task], _Result]) -> _Result:
    from distributed import CancelledError, KilledWorker

    if future.status == "error":
        error = future.exception()
        if isinstance(error, KilledWorker):
            return died(task)
        raise error
    try:
        return future.result(timeout=PATIENCE_SECONDS)  # without a limit it waits for a worker for ever
    except TimeoutError:
        raise _ResultLost from None
    except (OSError, CancelledError) as error:
        raise AttangentError(f"the Dask scheduler at {address!r} went away ({error}); {_RESUME}") from None


def _require_workers(client: Any, address: str) -> None:
    deadline = time.monotonic() + CONNECT_SECONDS
    while not _workers(client):
        if time.monotonic() > deadline:
            raise AttangentError(f"the Dask cluster at {address!r} has no workers: start some (dask worker)")
        time.sleep(POLL_SECONDS)


def _workers(client: Any) -> int:
    """Return the number of workers; 0 if the scheduler does not answer."""
    try:
        return len(client.sync(client.scheduler.ncores, workers=None, callback_timeout=CONNECT_SECONDS))
    except (OSError, AttributeError):  # a client that lost its scheduler has no `scheduler`
        return 0


@contextlib.contextmanager
def dask_client(address: str) -> Iterator[Any]:
    """Connect to the Dask scheduler at `address`; "local" starts one on this machine."""
    if importlib.util.find_spec("distributed") is None:
        raise AttangentError("Dask is not installed: pip install 'attangent[cluster]'")
    from distributed import Client, LocalCluster

    if address == "local":
        with (
            LocalCluster(dashboard_address=None, silence_logs=logging.ERROR) as cluster,  # type: ignore[arg-type]
            Client(cluster) as client,
        ):
            yield client
        return
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # we report these ourselves
    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise AttangentError(
            f"no Dask scheduler answers at {address!r} ({error}): pass the address that it printed"
        ) from None
    try:
        yield client
    finally:
        client.close(timeout=5)
