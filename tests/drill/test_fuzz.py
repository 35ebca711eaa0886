"""Workers that answer, hang and die, and a small fixed part of the drill."""

import pytest
from drill.fuzz import fuzz
from drill.outcomes import ANSWERED, DIED, FOREIGN, HANG, NAN, OWN, REFUSED

from drill import fuzz as fuzzing

WORKER = """
import os, time
from attangent import AttangentError
from drill.serving import Case, serve

def refuse():
    raise AttangentError("no")

CALLS = [lambda: 1.0, refuse, lambda: 1 / 0, lambda: float("nan"), lambda: time.sleep(60)]
CALLS += [lambda: os._exit(7), lambda: bytearray(8 * 2**30), lambda: 2.0]
serve(lambda seed, index: Case(f"call {index}", [], CALLS[index]), warm_up=0)
"""


def test_every_way_to_end_is_told_apart(tmp_path, monkeypatch):
    (tmp_path / "unruly_worker.py").write_text(WORKER)
    root = fuzzing.__file__.rpartition("/drill/")[0]
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{root}:{root}/src")
    monkeypatch.setattr(fuzzing, "LIMIT", 2.0)
    found = list(fuzz("unruly_worker", 0, 0, 8, tmp_path))
    kinds = [ANSWERED, REFUSED, FOREIGN, NAN, HANG, DIED, FOREIGN, ANSWERED]
    assert [one.kind for one in found] == kinds
    assert [one.entry for one in found] == [f"call {index}" for index in range(8)]
    assert "ZeroDivisionError" in found[2].detail
    assert found[5].detail == "exit code 7"
    assert "MemoryError" in found[6].detail


@pytest.mark.parametrize("start", [0])
def test_a_fixed_part_of_the_drill_finds_nothing(tmp_path, monkeypatch, start):
    """Every seventh entry once, with arguments that nobody expects."""
    from drill.entries_worker import case, public
    from drill.outcomes import outcome_of

    monkeypatch.chdir(tmp_path)
    slow = ("fit", "runner.run", "compress", "SeriesForecaster", "search_spectrum")
    numbers = [n for n, one in enumerate(public()) if not any(word in one.name for word in slow)]
    made = [case(100, number) for number in numbers[start::7]]
    found = [(one.name, one.changed, outcome_of(*one[2:])) for one in made]
    assert [one for one in found if one[2].kind not in (ANSWERED, REFUSED, OWN)] == []
    assert len(found) > 50
