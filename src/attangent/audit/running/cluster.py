"""Checks on the workers of a Dask cluster."""

import contextlib
import importlib.util
import logging
import time
from collections.abc import Iterator
from typing import Any

from attangent._errors import AttangentError
from attangent.audit.running.workers import ATTEMPTS, Outcome, Task, died, measure

CONNECT_SECONDS = 10.0
PATIENCE_SECONDS = 30.0
"""How long a run waits for a cluster that has lost all its workers."""
POLL_SECONDS = 0.1
_RESUME = "what was finished is kept: the same command goes on from here, also without --dask"


def on_dask(tasks: list[Task], address: str) -> Iterator[Outcome]:
    """Run the tasks on the cluster at `address`; what a dead worker was at is given to another one."""
    with dask_client(address) as client:
        _require_workers(client, address)
        waiting = {client.submit(measure, task, pure=False): task for task in tasks}
        alive = time.monotonic()
        while waiting:
            done = [future for future in waiting if future.done()]
            for future in done:
                yield _outcome(future, waiting.pop(future), address)
            if done or _workers(client):
                alive = time.monotonic()
            if time.monotonic() - alive > PATIENCE_SECONDS:
                raise AttangentError(
                    f"the Dask cluster at {address!r} has had no workers for {PATIENCE_SECONDS:.0f} s; "
                    f"{_RESUME}"
                )
            time.sleep(0.0 if done else POLL_SECONDS)


def _outcome(future: Any, task: Task, address: str) -> Outcome:
    from distributed import KilledWorker

    if future.status in ("cancelled", "lost"):
        raise AttangentError(f"the Dask scheduler at {address!r} went away; {_RESUME}")
    try:
        return future.result()
    except KilledWorker:
        return died(task, ATTEMPTS)
    except OSError as error:  # the connection, as what a check raises comes back as a value
        raise AttangentError(f"the Dask scheduler at {address!r} went away ({error}); {_RESUME}") from None


def _require_workers(client: Any, address: str) -> None:
    deadline = time.monotonic() + CONNECT_SECONDS
    while not _workers(client):
        if time.monotonic() > deadline:
            raise AttangentError(f"the Dask cluster at {address!r} has no workers: start some (dask worker)")
        time.sleep(POLL_SECONDS)


def _workers(client: Any) -> int:
    """How many workers the cluster has; 0 where the scheduler does not answer."""
    try:
        return len(client.scheduler_info(n_workers=-1)["workers"])
    except (OSError, ValueError):
        return 0


@contextlib.contextmanager
def dask_client(address: str) -> Iterator[Any]:
    """Be connected to the Dask scheduler at `address`."""
    if importlib.util.find_spec("distributed") is None:
        raise AttangentError("Dask is not installed: pip install 'attangent[cluster]'")
    from distributed import Client

    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # what it logs we say in one line
    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise AttangentError(
            f"no Dask scheduler answers at {address!r} ({error}): give the address it printed when it started"
        ) from None
    try:
        yield client
    finally:
        client.close(timeout=5)
