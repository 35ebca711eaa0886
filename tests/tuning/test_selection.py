"""Choosing on held-out rows: what is clearly better, when a run ends, trials that are interrupted."""

import copy
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attangent import AttangentError
from attangent.tuning.data.text import read_task
from attangent.tuning.encoding import Padding, encode_task
from attangent.tuning.loading import load_model, load_tokenizer
from attangent.tuning.methods import Method
from attangent.tuning.prepared import PreparedTask
from attangent.tuning.request import TrainingSettings
from attangent.tuning.selection import (
    LEAST_GAIN,
    PARTS,
    PATIENCE,
    ValidationRecord,
    choose_method,
    clearly_better,
    step_of_part,
    train_choice,
)
from attangent.tuning.training import score
from tests.adapters.tiny import save_bert, write_rows


def recorded(folder, errors, steps=80):
    record = ValidationRecord(folder)
    record.steps = steps
    for place, error in enumerate(errors):
        record.add(10 * place, [error] * 4)
    return record


@pytest.mark.parametrize(
    ("errors", "kept"),
    [
        ([0.9, 0.8, 0.5], 20),
        ([0.9, 0.5, 0.505], 20),  # the end, where nothing before it is clearly better
        ([0.9, 0.8, 0.5, 0.6], 20),
        ([0.4, 0.8, math.nan], 0),
    ],
)
def test_the_end_is_kept_unless_an_earlier_step_is_clearly_better(tmp_path, errors, kept):
    assert recorded(tmp_path, errors).best == kept


@pytest.mark.parametrize(
    ("errors", "over"),
    [
        ([1, 0.9, 0.8], False),
        ([1, 0.9, 0.95, 0.95], False),
        ([1, 0.9, *[0.95] * PATIENCE], True),
        ([1, *[1.0] * PATIENCE], False),
        ([1, 0.9, math.inf], True),
        ([1 - part / 10 for part in range(PARTS + 1)], True),
    ],
)
def test_when_a_run_is_over(tmp_path, errors, over):
    record = recorded(tmp_path, errors)
    assert record.is_over(record.last) is over


def test_a_record_is_read_back_and_judged_by_what_came_before(tmp_path):
    recorded(tmp_path, [1.0, 0.9, 1.1, 1.1, 1.1])
    found = ValidationRecord(tmp_path)
    assert (found.steps, found.best, found.last, found.errors[20][0]) == (80, 10, 40, 1.1)
    assert found.is_over(40)
    assert not found.is_over(30)


def test_a_step_that_is_repeated_changes_nothing(tmp_path):
    record = recorded(tmp_path, [1.0, 0.9, 0.7, 0.8])
    before = (tmp_path / "validation.json").read_text()
    record.add(30, [0.8] * 4)
    assert before == (tmp_path / "validation.json").read_text()


@pytest.mark.parametrize(
    "content", ["[]", "{", '{"steps": 3}', '{"steps": 3, "errors": {"a": [1]}}', '{"steps": 3, "losses": {}}']
)
def test_a_file_that_is_not_a_record_is_refused(tmp_path, content):
    (tmp_path / "validation.json").write_text(content)
    with pytest.raises(AttangentError, match="was not written by"):
        ValidationRecord(tmp_path)


@pytest.mark.parametrize("steps", [1, 3, 8, 9, 50, 1000])
def test_parts_end_with_the_run(steps):
    places = [step_of_part(part, steps) for part in range(1, PARTS + 1)]
    assert places == sorted(places)
    assert places[0] >= 1
    assert places[-1] == steps


ERRORS = st.lists(st.floats(0, 1), min_size=2, max_size=20)


@given(ERRORS, ERRORS)
def test_of_two_ways_at_most_one_is_clearly_better(first, second):
    size = min(len(first), len(second))
    assert not (clearly_better(first[:size], second[:size]) and clearly_better(second[:size], first[:size]))


@given(ERRORS)
def test_nothing_is_better_than_itself(errors):
    assert not clearly_better(errors, errors)


@pytest.mark.parametrize(
    ("errors", "usual", "better"),
    [
        ([0.1] * 9, [0.1 + 2 * LEAST_GAIN] * 9, True),
        ([0.1] * 9, [0.1 + LEAST_GAIN / 2] * 9, False),  # by too little to matter
        ([0.0, 0.0, 0.5], [0.9, 0.0, 0.0], False),  # by chance: gains .9, 0, -.5
        ([0.0001] * 40, [0.001] * 40, False),  # both are right: a smaller loss alone is no reason
        ([math.inf] * 3, [0.9] * 3, False),
        ([0.9] * 3, [math.inf] * 3, True),
        ([0.0], [1.0], False),  # one row tells nothing
    ],
)
def test_what_is_clear(errors, usual, better):
    assert clearly_better(errors, usual) is better


PAD = Padding(0)
TRAINING = TrainingSettings(epochs=4, batch=8)  # 24 steps of 48 rows


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    folder = save_bert(tmp_path_factory.mktemp("bert"))
    read = read_task(write_rows(folder / "rows.jsonl", 76))
    rows = encode_task(read, load_tokenizer(folder), 8)
    model = load_model(folder, "classification", read.labels)
    return PreparedTask(model, "classification", rows[:60], PAD, evaluate=rows[60:])


def chosen(task, folder, report=None, **method):
    given = Method(**{"name": "auto", **method})
    return choose_method(task, given, TRAINING, "closed-form", folder, lambda _: report)


@pytest.fixture(scope="module")
def uninterrupted(task, tmp_path_factory):
    """A choice without a break, its folder and its numbers of steps."""
    folder = tmp_path_factory.mktemp("whole")
    steps = []
    trial, tried = chosen(task, folder, lambda *step: steps.append(step))
    return trial, tried, folder, steps


class Killed(Exception):
    """As if the process had been killed here."""


@pytest.mark.parametrize("step", [8, 27, 38])
def test_an_interrupted_choice_ends_in_the_same_digits(task, tmp_path, uninterrupted, step):
    steps = []

    def report(*_):
        steps.append(1)
        if len(steps) == step:
            raise Killed

    with pytest.raises(Killed):
        chosen(task, tmp_path, report)
    trial, tried = chosen(task, tmp_path)
    assert (trial.metrics, trial.errors, tried) == (
        uninterrupted[0].metrics,
        uninterrupted[0].errors,
        uninterrupted[1],
    )


def test_a_finished_choice_takes_no_further_step(task, uninterrupted):
    steps = []
    trial, tried = chosen(task, uninterrupted[2], lambda *step: steps.append(step))
    assert steps == []
    assert (trial.metrics, tried) == (uninterrupted[0].metrics, uninterrupted[1])


def test_the_choice_is_trained_on_all_rows_for_its_share_of_the_run(task, uninterrupted, tmp_path):
    trial, tried = chosen(task, tmp_path)
    before = copy.deepcopy(task.model.state_dict())
    found = train_choice(trial, task, "closed-form", tmp_path)
    assert found.metrics["steps"] == max(round(trial.share * 4 * math.ceil(60 / 8)), 1)
    assert found.metrics["validation_error"] == tried[found.method.name]
    assert all((task.model.state_dict()[name] == tensor).all() for name, tensor in before.items())


def test_a_run_that_diverges_leaves_the_classifier_alone(task, tmp_path):
    """Its best length is no training at all: logistic regression on all rows is left."""
    trial, _ = chosen(task, tmp_path, learning_rate=1e30)
    assert trial.share == 0
    found = train_choice(trial, task, "closed-form", tmp_path)
    assert found.metrics["steps"] == 0
    assert score(found.trainer, task.evaluate, "classification")["accuracy"] > 0.5
