"""Runs made while planning: they are what tune would make, and are kept for it."""

from dataclasses import replace
from pathlib import Path

import pytest

from attangent import AttangentError
from attangent.tuning.finetune import finetune
from attangent.tuning.methods import Method
from attangent.tuning.planning.trials import Trials, take_made
from attangent.tuning.request import Tuning
from attangent.tuning.training import Training
from tests.tuning.planning.runs import planned


def asked(bert, rate=None):
    method = Method("head", learning_rate=rate)
    training = Training(epochs=1, batch=8)
    return Tuning(str(bert), bert / "train.jsonl", bert / "eval.jsonl", method=method, training=training)


def test_a_run_that_was_made_is_kept_and_taken(bert, tmp_path):
    said: list[str] = []
    run = planned("head", 1e-2, epochs=1.0, steps=4)
    trials = Trials(1, tmp_path / "made")
    found = trials.made(asked(bert), Method("head"), run, said.append)
    assert said == ["head: making the run at rate 0.01, 4 steps"]
    assert found.promise == found.made
    assert found.score == run.score
    wanted = asked(bert, 1e-2)
    assert take_made(wanted, tmp_path / "made", tmp_path / "run")
    again = finetune(wanted, tmp_path / "run")[0]
    assert again["eval_accuracy"] == found.made
    (kept,) = (tmp_path / "made").glob("head-*")
    written = (kept / "seed-0/metrics.json").read_bytes()
    assert (tmp_path / "run/seed-0/metrics.json").read_bytes() == written
    other = trials.made(asked(bert), Method("head"), replace(run, learning_rate=3e-2), said.append)
    assert len(list((tmp_path / "made").glob("head-*"))) == 2
    assert other.made is not None
    assert not take_made(wanted, tmp_path / "made", tmp_path / "run")  # it is there
    assert not take_made(asked(bert, 2e-2), tmp_path / "made", tmp_path / "other")
    later = replace(wanted, training=replace(wanted.training, seed=1))
    assert not take_made(later, tmp_path / "made", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_number_of_trials_that_is_none():
    with pytest.raises(AttangentError, match="most"):
        Trials(-1, Path("made"))
