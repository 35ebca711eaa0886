"""Settings of a comparison that are rejected."""

from pathlib import Path

import pytest

from attangent import AttangentError
from attangent.papers.p1_prefix.head_to_head.settings import Entrant, TaskSplit
from attangent.tuning.methods import Method
from tests.papers.p1_prefix.head_to_head.cases import comparison, trial, write_model_and_rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_model_and_rows(tmp_path_factory.mktemp("bert"))


def test_an_entrant_has_the_rate_of_its_method_by_default():
    assert Entrant("a", Method("lora")).rates == (0.002,)
    assert Entrant("a", Method("lora")).at(0.1).learning_rate == 0.1


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda folder: comparison(folder, trials=()), "the tasks are"),
        (lambda folder: comparison(folder, trials=(trial(folder),) * 2), "each only once"),
        (lambda folder: comparison(folder, pooling="max"), "pooling is 'max'"),
        (lambda folder: TaskSplit("t", (Path("no.jsonl"),), 1, 1, 1), "task t: there is no no.jsonl"),
        (lambda folder: trial(folder, train=0), "train is 0"),
        (lambda folder: Entrant("a", Method("lora"), (0.0,)), "expected numbers above 0"),
        (lambda folder: Entrant("", Method("lora")), "no label"),
    ],
)
def test_settings_that_are_rejected(folder, build, message):
    with pytest.raises(AttangentError, match=message):
        build(folder)


def test_top_is_set_once(folder):
    given = comparison(folder)
    entrants = (Entrant("a", Method("lora", top=1)),)
    with pytest.raises(AttangentError, match="for the comparison and for an entrant"):
        type(given)(given.model, entrants, given.trials, top=1)
