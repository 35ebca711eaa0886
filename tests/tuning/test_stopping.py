"""The record of a run: least loss, when to stop, what is on disk."""

import math

import pytest
import torch
from torch import nn

from attangent import AttangentError
from attangent.tuning.checkpoints import trained_tensors
from attangent.tuning.stopping import PARTS, PATIENCE, Record, step_of_part


def model(value):
    layer = nn.Linear(1, 1)
    nn.init.constant_(layer.weight, value)
    return layer


def recorded(folder, losses, steps=80):
    record = Record(folder)
    record.steps = steps
    for place, loss in enumerate(losses):
        record.add(10 * place, loss, model(place))
    return record


def test_the_weights_of_least_loss_are_kept(tmp_path):
    record = recorded(tmp_path, [1.0, 0.8, 0.5, 0.6, 0.5])
    own = model(9.0)
    record.put_best(own, trained_tensors(model(0.0)))
    assert record.best == 20
    assert own.weight.item() == 2


def test_the_start_is_kept_where_nothing_is_better(tmp_path):
    record = recorded(tmp_path, [0.4, 0.8, math.nan])
    own, start = model(9.0), model(-1.0)
    record.put_best(own, trained_tensors(start))
    assert record.best == 0
    torch.testing.assert_close(own.weight, start.weight)
    assert record.losses[20] == math.inf


@pytest.mark.parametrize(
    ("losses", "over"),
    [
        ([1, 0.9, 0.8], False),
        ([1, 0.9, 0.95, 0.95], False),
        ([1, 0.9, *[0.95] * PATIENCE], True),
        ([1, *[1.0] * PATIENCE], True),
        ([1, 0.9, math.inf], True),
        ([1 - part / 10 for part in range(PARTS + 1)], True),
    ],
)
def test_when_a_run_is_over(tmp_path, losses, over):
    record = recorded(tmp_path, losses)
    assert record.is_over(record.last) is over


def test_a_record_is_read_back_and_judged_by_what_came_before(tmp_path):
    recorded(tmp_path, [1.0, 0.9, 1.1, 1.1, 1.1])
    found = Record(tmp_path)
    assert (found.steps, found.best, found.last) == (80, 10, 40)
    assert found.is_over(40)
    assert not found.is_over(30)
    assert found.reached(4)
    assert not found.reached(5)


def test_a_step_that_is_repeated_changes_nothing(tmp_path):
    record = recorded(tmp_path, [1.0, 0.9, 0.7, 0.8])
    before = (tmp_path / "best.safetensors").read_bytes(), (tmp_path / "validation.json").read_text()
    record.add(30, 0.8, model(3))
    assert before == (
        (tmp_path / "best.safetensors").read_bytes(),
        (tmp_path / "validation.json").read_text(),
    )


@pytest.mark.parametrize("content", ["[]", "{", '{"steps": 3}', '{"steps": 3, "losses": {"a": 1}}'])
def test_a_file_that_is_not_a_record_is_refused(tmp_path, content):
    (tmp_path / "validation.json").write_text(content)
    with pytest.raises(AttangentError, match="not a run"):
        Record(tmp_path)


@pytest.mark.parametrize("steps", [1, 3, 8, 9, 50, 1000])
def test_parts_end_with_the_run(steps):
    places = [step_of_part(part, steps) for part in range(1, PARTS + 1)]
    assert places == sorted(places)
    assert places[0] >= 1
    assert places[-1] == steps
