"""Workers that answer, hang and die."""

from chaos.fuzz import fuzz
from chaos.outcomes import ANSWERED, DIED, FOREIGN, HANG, NAN, REFUSED

from chaos import fuzz as fuzzing

WORKER = """
import os, time
from attangent import AttangentError
from chaos.serving import Case, serve

def refuse():
    raise AttangentError("no")

CALLS = [lambda: 1.0, refuse, lambda: 1 / 0, lambda: float("nan"), lambda: time.sleep(60)]
CALLS += [lambda: os._exit(7), lambda: bytearray(8 * 2**30), lambda: 2.0]
serve(lambda seed, index: Case(f"call {index}", [], CALLS[index]), warm_up=0)
"""


def test_every_way_to_end_is_told_apart(tmp_path, monkeypatch):
    (tmp_path / "unruly_worker.py").write_text(WORKER)
    root = fuzzing.__file__.rpartition("/chaos/")[0]
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{root}:{root}/src")
    monkeypatch.setattr(fuzzing, "LIMIT", 2.0)
    found = list(fuzz("unruly_worker", 0, 0, 8, tmp_path))
    kinds = [ANSWERED, REFUSED, FOREIGN, NAN, HANG, DIED, FOREIGN, ANSWERED]
    assert [one.kind for one in found] == kinds
    assert [one.entry for one in found] == [f"call {index}" for index in range(8)]
    assert "ZeroDivisionError" in found[2].detail
    assert found[5].detail == "exit code 7"
    assert "MemoryError" in found[6].detail
