"""Work on a Dask cluster that may lose its workers or its scheduler."""

import contextlib
import importlib.util
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from attangent._core.errors import AttangentError

CONNECT_SECONDS = 10.0
PATIENCE_SECONDS = 30.0
"""How long a run waits for a cluster without workers."""
POLL_SECONDS = 0.1
_RESUME = "finished results are saved: run the same command to resume, with or without --dask"
_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


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
            done = [future for future in waiting if future.done()]
            for future in done:
                number = waiting.pop(future)
                yield number, _result(future, tasks[number], address, died)
            if done or _workers(client):
                alive = time.monotonic()
            if time.monotonic() - alive > PATIENCE_SECONDS:
                raise AttangentError(
                    f"the Dask cluster at {address!r} has had no workers for {PATIENCE_SECONDS:.0f} s; "
                    f"{_RESUME}"
                )
            time.sleep(0.0 if done else POLL_SECONDS)


def _result(future: Any, task: _Task, address: str, died: Callable[[_Task], _Result]) -> _Result:
    from distributed import KilledWorker

    if future.status in ("cancelled", "lost"):
        raise AttangentError(f"the Dask scheduler at {address!r} went away; {_RESUME}")
    try:
        return future.result()
    except KilledWorker:
        return died(task)
    except OSError as error:
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
        return len(client.scheduler_info(n_workers=-1)["workers"])
    except (OSError, ValueError):
        return 0


@contextlib.contextmanager
def dask_client(address: str) -> Iterator[Any]:
    """Connect to the Dask scheduler at `address`."""
    if importlib.util.find_spec("distributed") is None:
        raise AttangentError("Dask is not installed: pip install 'attangent[cluster]'")
    from distributed import Client

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
