import os

import pytest

from attangent._core import cores as _cores


@pytest.fixture
def limit(tmp_path, monkeypatch):
    path = tmp_path / "cpu.max"
    monkeypatch.setattr(_cores, "_LIMIT", path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    return path


@pytest.mark.parametrize(("text", "cores"), [("max 100000", 8), ("150000 100000", 2), ("50000 100000", 1)])
def test_a_container_takes_cores_away(limit, text, cores):
    limit.write_text(text + "\n")
    assert _cores.available_cores() == cores


@pytest.mark.parametrize("text", ["", "nonsense", "max", "-1 100000"])
def test_a_limit_that_cannot_be_read_is_no_limit(limit, text):
    limit.write_text(text)
    assert _cores.available_cores() == 8


def test_limits_of_the_older_layout(tmp_path, monkeypatch, limit):
    files = tmp_path / "quota", tmp_path / "period"
    for path, number in zip(files, ("300000", "100000"), strict=True):
        path.write_text(number + "\n")
    monkeypatch.setattr(_cores, "_OLD_LIMITS", files)
    assert _cores.available_cores() == 3


@pytest.mark.parametrize(("workers", "threads"), [(1, 3), (2, 1), (3, 1), (9, 1)])
def test_workers_share_the_cores(limit, workers, threads):
    limit.write_text("300000 100000\n")
    assert _cores.threads_for(workers) == threads
