"""Processes that die, and a Dask cluster that loses its workers or its scheduler."""

import logging
import os
import signal
import threading
import warnings
from pathlib import Path

import psutil
import pytest

from attangent import AttangentError
from attangent._core import parallel
from attangent._core.parallel import ATTEMPTS, dask_client, in_processes, on_cluster


@pytest.fixture
def start():
    from distributed import LocalCluster

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a busy port for a dashboard nobody looks at
        made = []

        def start(workers, **options):
            given = {"processes": False, "threads_per_worker": 1, "dashboard_address": None, **options}
            made.append(LocalCluster(n_workers=workers, **given))
            return made[-1]

        yield start
        for one in made:
            one.close()


def twice(number):
    return 2 * number


def test_a_cluster_without_workers(start, monkeypatch):
    monkeypatch.setattr(parallel, "CONNECT_SECONDS", 0.5)
    with pytest.raises(AttangentError, match="has no workers: start some"):
        list(on_cluster(twice, [3], start(0).scheduler_address, died=twice))


def test_results_come_with_the_numbers_of_their_tasks(start):
    found = on_cluster(twice, [3, 5], start(1).scheduler_address, died=twice)
    assert sorted(found) == [(0, 6), (1, 10)]


@pytest.mark.parametrize(("work", "error"), [(twice, TypeError), (os.listdir, NotADirectoryError)])
def test_what_the_work_raises_comes_back(start, work, error):
    with pytest.raises(error):
        list(on_cluster(work, [None if work is twice else __file__], start(1).scheduler_address, died=twice))


def test_a_scheduler_that_goes_away(start, monkeypatch):
    monkeypatch.setattr(parallel, "PATIENCE_SECONDS", 1.0)
    made = start(1)
    found = on_cluster(twice, list(range(40)), made.scheduler_address, died=twice)
    next(found)
    made.close()
    with pytest.raises(AttangentError, match="run the same command to resume, with or without --dask"):
        list(found)
    assert not logging.getLogger("distributed.client").isEnabledFor(logging.ERROR)  # no tracebacks of theirs


@pytest.fixture
def lossy(start, monkeypatch):
    """Start workers of which the first dies when a result is fetched from it."""
    monkeypatch.setattr(parallel, "PATIENCE_SECONDS", 1.0)

    def start_lossy(workers):
        made = start(workers)
        worker = made.workers[0]

        async def die(**_):
            worker.loop.add_callback(worker.close)
            raise OSError("the worker is gone")

        worker.handlers["get_data"] = die
        return made.scheduler_address

    return start_lossy


def test_a_result_that_died_with_its_worker_is_computed_again(lossy):
    found = on_cluster(twice, list(range(8)), lossy(2), died=twice)
    assert sorted(found) == [(number, 2 * number) for number in range(8)]


def test_results_that_died_with_the_last_worker_end_the_run(lossy):
    with pytest.raises(AttangentError, match=r"no workers for 1 s; .* resume"):
        list(on_cluster(twice, [3, 5, 7], lossy(1), died=twice))


def kill(number):
    os._exit(9)


def test_a_task_at_which_too_many_workers_died_is_named(start):
    from dask import config

    with config.set({"distributed.scheduler.allowed-failures": 0}):
        started = start(1, processes=True)
        found = list(on_cluster(kill, [3], started.scheduler_address, died=lambda task: -task))
    assert found == [(0, -3)]


def doubled(number):
    if number < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number


def once(place):
    """Dies the first time it is asked."""
    if not place.exists():
        place.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return place.name


def doubled_or_once(task):
    return once(task) if isinstance(task, Path) else doubled(task)


def test_processes_that_die_take_nobody_along_and_are_replaced(tmp_path):
    died = []
    tasks = [3, -1, tmp_path / "a"]
    results = dict(in_processes(doubled_or_once, tasks, 2, died=lambda task: died.append(task)))
    assert results == {0: 6, 1: None, 2: "a"}
    assert died == [-1]
    assert ATTEMPTS == 3


def test_workers_end_where_there_are_no_tools_for_processes(monkeypatch):
    """Small containers have no pgrep; a worker that stays would keep the command from ending."""
    before = set(psutil.Process().children())
    monkeypatch.setenv("PATH", "")
    assert dict(in_processes(doubled, [3, 5], 2, died=doubled)) == {0: 6, 1: 10}
    left = set(psutil.Process().children()) - before
    assert [child for child in left if "LokyProcess" in " ".join(child.cmdline())] == []


def test_a_local_cluster_is_started_and_stopped():
    pytest.importorskip("distributed")
    with dask_client("local") as client:
        assert client.submit(sum, [1, 2, 3]).result() == 6
    assert client.status == "closed"


def test_errors_of_a_pools_own_thread_are_not_printed_while_it_ends(monkeypatch):
    reported = []
    monkeypatch.setattr(threading, "excepthook", lambda error: reported.append(error.thread.name))

    def fail(name):
        thread = threading.Thread(target=lambda: 1 / 0, name=name)
        thread.start()
        thread.join()

    with parallel._silent(parallel._POOL_THREAD):
        fail(parallel._POOL_THREAD)
        fail("another")
    fail(parallel._POOL_THREAD)
    assert reported == ["another", parallel._POOL_THREAD]
    pool = parallel._new_pool(1)
    pool.submit(int).result()
    assert pool._executor_manager_thread.name == parallel._POOL_THREAD
    parallel._end(pool)
