"""The contestant in an environment of its own: what happens when it cannot be built, and what it is given."""

import subprocess

import numpy as np
import pytest

from benchmarks.harness.child import Unavailable
from benchmarks.suites.kernels import neural_tangents


def test_an_installation_that_fails_says_why(monkeypatch, tmp_path):
    def run(command, **_):
        failed = "pip" in command
        return subprocess.CompletedProcess(command, int(failed), "", "noise\nERROR: no such package\nmore")

    monkeypatch.setattr(neural_tangents.subprocess, "run", run)
    with pytest.raises(Unavailable, match="cannot be installed here: ERROR: no such package"):
        neural_tangents.interpreter(tmp_path / "environment")


def test_an_environment_is_built_once(monkeypatch, tmp_path):
    calls = []

    def run(command, **_):
        calls.append(command)
        (tmp_path / "environment" / "bin").mkdir(parents=True, exist_ok=True)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(neural_tangents.subprocess, "run", run)
    first = neural_tangents.interpreter(tmp_path / "environment")
    assert neural_tangents.interpreter(tmp_path / "environment") == first
    assert len(calls) == 2
    assert "neural-tangents==0.6.5" in calls[1]


def test_the_contestant_gets_the_same_numbers(monkeypatch, tmp_path):
    monkeypatch.setattr(neural_tangents, "ENVIRONMENTS", tmp_path)
    monkeypatch.setattr(neural_tangents, "interpreter", lambda: tmp_path / "python")
    given = {"X": np.ones((2, 3)), "W": np.zeros((3, 4))}
    contestant = neural_tangents.neural_tangents("nt", "AUTO", "prefix", lambda size: given)
    *start, path = contestant.command({"n": 2, "d": 3})
    assert start[-2:] == ["AUTO", "prefix"]
    assert np.array_equal(np.load(path)["X"], given["X"])
