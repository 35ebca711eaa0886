"""Commands killed at work, by a command that is quick to kill."""

import sys
from pathlib import Path

from chaos.kills import run

from chaos import kills

WORK = """
import sys, time
from pathlib import Path
folder = Path(sys.argv[1])
folder.mkdir(exist_ok=True)
for step in range(8):
    part = folder / str(step)
    if part.exists() and {goes_on}:
        continue
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass
    part.write_text({written})
"""


class Job:
    out = "run"

    def __init__(self, goes_on=True, written="str(step)"):
        self.program = WORK.format(goes_on=goes_on, written=written)

    def command(self, folder: Path) -> list[str]:
        return [sys.executable, "-c", self.program, str(folder / self.out)]

    def results(self, out: Path) -> dict[str, str]:
        return {path.name: path.read_text() for path in out.iterdir()}


def test_kills_land_and_results_are_compared(tmp_path):
    found = run("count", Job(), kills=3, seed=0, scratch=tmp_path)
    assert found.well, found
    assert found.landed == 3
    assert found.compared >= 1


def test_results_that_differ_are_told(tmp_path):
    found = run("drift", Job(written="str(time.time_ns())"), kills=2, seed=0, scratch=tmp_path)
    assert not found.well
    assert "results differ" in found.problem


def test_kills_that_never_land_are_no_success(tmp_path, monkeypatch):
    monkeypatch.setattr(kills, "_kill_after", lambda *given: False)
    monkeypatch.setattr(kills, "_PATIENCE", 2)
    found = run("late", Job(), kills=1, seed=0, scratch=tmp_path)
    assert (found.landed, found.late, found.well) == (0, kills._PATIENCE, False)
