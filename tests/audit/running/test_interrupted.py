"""Audits that are killed or stopped at any moment, and what is left behind."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attangent.audit import load

IDS = ("P2/claim-3.4", "P2/definition-3.7", "P2/lemma-b.1", "P2/appendix-f-features", "P2/lemma-e.1")
SEEDS = 4


def start(out: Path, *more: str, claims=IDS) -> subprocess.Popen:
    command = [
        sys.executable,
        "-m",
        "attangent",
        "audit",
        *claims,
        "--seeds",
        str(SEEDS),
        "--out",
        str(out),
        *more,
    ]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=listen_to_control_c,
    )


def listen_to_control_c() -> None:
    """A suite in the background hands down to its children that they ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def others_in_group(leader: int) -> list[int]:
    """The processes of the group of `leader` other than itself that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group = path.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue  # it ended meanwhile
        if int(group) == leader and state != "Z" and int(path.parent.name) != leader:
            found.append(int(path.parent.name))
    return found


def finish(process: subprocess.Popen) -> None:
    output, errors = process.communicate()
    assert process.returncode == 0, output + errors


def contents(folder: Path) -> dict:
    return {record.origin.stem: record.content() for record in load(folder).records}


def written(folder: Path) -> int:
    return len(list(folder.glob("findings/[!.]*.json")))


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    finish(start(folder, "--jobs", "1"))
    found = contents(folder)
    assert len(found) == len(IDS) * SEEDS
    return found


def wait_until_writing(process: subprocess.Popen, folder: Path, count: int) -> None:
    while process.poll() is None and written(folder) < count:
        time.sleep(0.002)


def test_killed_three_times_at_random(uninterrupted, tmp_path):
    """Each kill falls a random moment after a random number of further findings; at the end all are there.

    `python -m chaos kills` kills more often, and other commands too.
    """
    rng = random.Random(0)
    folder = tmp_path / "run"
    kills = 0
    while kills < 3:
        process = start(folder, "--jobs", "2" if kills % 2 else "1")
        wait_until_writing(process, folder, written(folder) + rng.randint(0, 2))
        time.sleep(rng.random() * 0.05)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        kills += 1
        if written(folder) == len(IDS) * SEEDS:
            for path in list(folder.glob("findings/P2--lemma*")):
                path.unlink()
    finish(start(folder, "--jobs", "1"))
    assert contents(folder) == uninterrupted
    assert sorted(path.name for path in folder.rglob("*.json") if path.parent.name == "findings") == sorted(
        f"{stem}.json" for stem in uninterrupted
    )
    assert [path for path in folder.rglob("*") if "partial" in path.name] == []


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_control_c_stops_cleanly_and_the_next_run_goes_on(uninterrupted, tmp_path, jobs):
    folder = tmp_path / "run"
    process = start(folder, "--jobs", jobs)
    wait_until_writing(process, folder, 1)
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate()
    assert process.returncode == 130, output + errors
    assert "Traceback" not in errors
    assert "run the same command again to resume" in errors
    assert [path for path in folder.rglob("*") if "partial" in path.name] == []
    finish(start(folder, "--jobs", "1"))
    assert contents(folder) == uninterrupted


def left_after(group: int, seconds: float) -> list[int]:
    """What still runs of a process group after so many seconds, or as soon as nothing does."""
    deadline = time.monotonic() + seconds
    while others_in_group(group) and time.monotonic() < deadline:
        time.sleep(0.1)
    return others_in_group(group)


@pytest.mark.parametrize(("jobs", "sent"), [("1", signal.SIGHUP), ("2", signal.SIGTERM)])
def test_asked_to_end_it_ends_with_its_workers_and_keeps_what_is_finished(
    uninterrupted, tmp_path, jobs, sent
):
    folder = tmp_path / "run"
    process = start(folder, "--jobs", jobs)
    wait_until_writing(process, folder, 1)
    kept = written(folder)
    os.kill(process.pid, sent)
    output, errors = process.communicate(timeout=15)
    assert process.returncode == 143, output + errors
    assert "Traceback" not in errors
    assert written(folder) >= kept
    assert left_after(process.pid, seconds=5) == []
    finish(start(folder, "--jobs", "1"))
    assert contents(folder) == uninterrupted


def test_workers_end_after_a_parent_that_was_killed(tmp_path):
    process = start(tmp_path / "run", "--jobs", "2", claims=["P2/theorem-6.5"])
    deadline = time.monotonic() + 60
    while len(others_in_group(process.pid)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert left_after(process.pid, seconds=10) == []
