import psutil
import torch

from attangent.audit.running.workers import Task, execute
from tests.audit.fakes import SETTINGS, crashing, dying, dying_once, forgetful, steady


def tasks(*checks):
    return [Task(f"{check.__name__} {seed}", check, SETTINGS, seed) for check in checks for seed in range(2)]


def test_checks_run_on_one_thread_and_the_caller_keeps_its_own():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        outcomes = list(execute(tasks(steady)))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert [outcome.finding.numbers["threads"] for outcome in outcomes if outcome.finding] == [1, 1]


def test_a_crash_becomes_a_traceback():
    by_name = {outcome.name: outcome for outcome in execute(tasks(crashing, forgetful))}
    assert by_name["crashing 0"].finding is not None
    assert by_name["crashing 1"].finding is None
    assert "seed one is bad luck" in by_name["crashing 1"].traceback
    assert "expected a Finding" in by_name["forgetful 0"].traceback


def test_a_worker_that_dies_takes_nobody_along_and_is_replaced(tmp_path):
    """`steady` runs beside `dying`, and `dying once` comes after them."""
    given = [
        Task("steady", steady, SETTINGS, 0),
        Task("dying", dying, SETTINGS, 0),
        Task("dying once", dying_once, SETTINGS | {"marks": str(tmp_path)}, 0),
    ]
    outcomes = list(execute(given, jobs=2))
    assert sorted(outcome.name for outcome in outcomes) == ["dying", "dying once", "steady"]
    by_name = {outcome.name: outcome for outcome in outcomes}
    assert "died 3 times" in by_name["dying"].traceback
    assert all(by_name[name].finding is not None for name in ("steady", "dying once"))
    assert len(list(tmp_path.iterdir())) == 1


def test_workers_end_where_there_are_no_tools_for_processes(monkeypatch):
    """Small containers have no pgrep; a worker that stays would keep the command from ending."""
    before = set(psutil.Process().children())
    monkeypatch.setenv("PATH", "")
    assert len(list(execute(tasks(steady), jobs=2))) == 2
    left = set(psutil.Process().children()) - before
    assert [child for child in left if "LokyProcess" in " ".join(child.cmdline())] == []
