"""Audits that are killed or stopped at any moment, and what is left behind."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attangent.audit import load, run

IDS = ("P2/claim-3.4", "P2/lemma-5.1", "P2/lemma-b.1", "P2/lemma-d.1", "P2/lemma-e.1")
"""An identity, derivatives along moves, sums over many neurons, training, and a probability."""
SEEDS = 3


def start(out: Path, jobs: str) -> subprocess.Popen:
    command = ["audit", *IDS, "--seeds", str(SEEDS), "--out", str(out), "--jobs", jobs]
    return subprocess.Popen(
        [sys.executable, "-m", "attangent", *command],
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


def contents(folder: Path) -> dict:
    return {record.origin.stem: record.content() for record in load(folder).records}


def written(folder: Path) -> int:
    return len(list(folder.glob("findings/[!.]*.json")))


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The findings of a run that nothing interrupts, in this process."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    run(IDS, out=folder, seeds=SEEDS)
    found = contents(folder)
    assert len(found) == len(IDS) * SEEDS
    return found


def wait_until_writing(process: subprocess.Popen, folder: Path) -> int:
    """Wait for one more finding and return how many there are then."""
    before = written(folder)
    while process.poll() is None and written(folder) == before:
        time.sleep(0.002)
    return written(folder)


def left_after(group: int, seconds: float) -> list[int]:
    """What still runs of a process group after so many seconds, or as soon as nothing does."""
    deadline = time.monotonic() + seconds
    while others_in_group(group) and time.monotonic() < deadline:
        time.sleep(0.1)
    return others_in_group(group)


def killed(folder: Path, jobs: str) -> None:
    """Kill the parent alone, at a random moment: workers end by themselves."""
    process = start(folder, jobs)
    wait_until_writing(process, folder)
    time.sleep(random.Random(0).random() * 0.05)
    process.kill()
    process.communicate()
    assert left_after(process.pid, seconds=10) == []


def stopped_by_control_c(folder: Path, jobs: str) -> None:
    process = start(folder, jobs)
    wait_until_writing(process, folder)
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate()
    assert process.returncode == 130, output + errors
    assert "Traceback" not in errors
    assert "run the same command again to resume" in errors
    assert left_after(process.pid, seconds=5) == []


def asked_to_end(folder: Path, jobs: str) -> None:
    process = start(folder, jobs)
    before = wait_until_writing(process, folder)
    os.kill(process.pid, signal.SIGTERM)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 143, output + errors
    assert "Traceback" not in errors
    assert written(folder) >= before


def test_a_run_ends_cleanly_however_it_is_stopped_and_the_next_goes_on(uninterrupted, tmp_path):
    """A run is stopped again and again and then finished: it has the findings of a run never stopped.

    The runs in the middle have two workers. Workers take seconds to start, so SIGTERM, which reaches them the
    same way as Ctrl-C, ends a run without any. `python -m chaos kills` kills more often, and other commands.
    """
    folder = tmp_path / "run"
    asked_to_end(folder, jobs="1")
    stopped_by_control_c(folder, jobs="2")
    assert [path for path in folder.rglob("*") if "partial" in path.name] == []
    killed(folder, jobs="2")
    assert written(folder) < len(uninterrupted)
    run(IDS, out=folder, seeds=SEEDS)
    assert contents(folder) == uninterrupted
    assert sorted(path.stem for path in folder.glob("findings/*.json")) == sorted(uninterrupted)
    assert [path for path in folder.rglob("*") if "partial" in path.name] == []
