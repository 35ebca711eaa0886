"""What a child process answers, asked through real pipes; the scripts import no torch, so they are fast."""

import sys

import pytest
import torch

from benchmarks.harness.benchmark import Contestant
from benchmarks.harness.child import MALLOC_SETTINGS, Unavailable, timed
from benchmarks.harness.entrants import Child

MIB = 2**20


def script(body: str) -> list[str]:
    return [sys.executable, "-c", f"from benchmarks.harness.child import Unavailable, serve\n{body}"]


@pytest.fixture
def start():
    children = []

    def start(command, settings=None):
        children.append(Child(command, threads=1, settings=settings))
        return children[-1]

    yield start
    for child in children:
        child.close()


def test_a_child_answers_orders_one_after_the_other(start):
    child = start(script("serve(lambda: lambda: [[1.5, 2.0]], lambda: {'peer': '0.4'})"))
    assert child.versions == {"peer": "0.4"}
    assert child.result() == [[1.5, 2.0]]
    assert child.seconds(3) >= 0
    assert child.result() == [[1.5, 2.0]]


def test_go_runs_the_work_as_often_as_asked(start):
    child = start(
        script("calls = []\ndef work():\n  calls.append(1)\n  return len(calls)\nserve(lambda: work)")
    )
    child.seconds(5)
    assert child.result() == 6


def test_threads_reach_the_child(start):
    assert start(script("import os\nserve(lambda: lambda: os.environ['OMP_NUM_THREADS'])")).result() == "1"


def test_the_search_path_of_the_caller_is_kept(start, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    assert "/somewhere" in start(script("import sys\nserve(lambda: lambda: sys.path)")).result()


def test_what_the_work_prints_does_not_spoil_the_answers(start):
    child = start(
        script("import os\nserve(lambda: lambda: (print('noise'), os.system('echo noise'), 7)[-1])")
    )
    assert child.result() == 7


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            "def build(): raise Unavailable('no wheel for this Python')\nserve(build)",
            "no wheel for this Python",
        ),
        ("def build(): import missing_peer\nserve(build)", "No module named 'missing_peer'"),
        ("import missing_peer", "ended with code 1: ModuleNotFoundError: No module named 'missing_peer'"),
        ("raise SystemExit(3)", "ended with code 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended by signal 9"),
        ("print('hello')", "answered 'hello', expected JSON"),
    ],
)
def test_a_child_that_cannot_run_says_why(start, body, why):
    with pytest.raises(Unavailable, match=why):
        start(script(body))


def test_a_program_that_does_not_exist_is_unavailable(start):
    with pytest.raises(Unavailable, match=r"cannot start /no/such/python: No such file"):
        start(["/no/such/python"])


def test_a_child_that_dies_at_work_is_unavailable_from_then_on(start):
    child = start(script("import os\nserve(lambda: lambda: os._exit(4))"))
    for _ in range(2):
        with pytest.raises(Unavailable, match="ended with code 4"):
            child.seconds(1)


def test_an_error_in_the_work_is_raised_and_not_excused(start):
    child = start(script("serve(lambda: lambda: 1 / 0)"))
    with pytest.raises(RuntimeError, match="ZeroDivisionError: division by zero"):
        child.seconds(1)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the high-water mark is reset through /proc")
def test_peak_memory_counts_what_was_freed_within_the_call_and_the_result(start):
    body = "def work():\n  passing = b'x' * (48 << 20)\n  del passing\n  return b'x' * (16 << 20)\n"
    body += "serve(lambda: work)"
    child = start(script(body), MALLOC_SETTINGS)
    for _ in range(2):
        assert child.peak_bytes() == pytest.approx(48 * MIB, abs=MIB)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the high-water mark is reset through /proc")
def test_peak_memory_sees_blocks_that_malloc_would_have_kept(start):
    """Blocks of 1 MiB are far below the size at which malloc gives memory back by itself."""
    body = "serve(lambda: lambda: [b'x' * (1 << 20) for _ in range(24)])"
    assert start(script(body), MALLOC_SETTINGS).peak_bytes() == pytest.approx(24 * MIB, abs=MIB)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the high-water mark is reset through /proc")
def test_peak_memory_of_a_discovered_contestant_includes_native_allocations(start):
    """The bare product holds its result, (n d)^2 doubles, and nothing else of note."""
    contestant = Contestant("gemm", lambda size: lambda: None)
    child = start(contestant.memory_command("kernel", {"n": 128, "d": 16, "m": 8}), MALLOC_SETTINGS)
    assert child.peak_bytes() == pytest.approx(32 * MIB, abs=2 * MIB)


def test_timed_measures_all_repeats_together(clock):
    def work():
        clock.now += 0.25

    assert timed(work, 4, clock) == 1.0


def test_results_of_tensors_come_back_as_nested_lists():
    from benchmarks.harness.child import _result

    assert _result(lambda: torch.eye(2)) == {"result": [[1.0, 0.0], [0.0, 1.0]]}
