"""Successive halving: what goes on, what it costs, and that a search cut off ends in the same digits."""

import copy
import math

import pytest
import torch

from attangent.tuning.checkpoints import trained_tensors
from attangent.tuning.data.text import read_task
from attangent.tuning.encoding import Padding, encode_task
from attangent.tuning.loading import load_model, load_tokenizer
from attangent.tuning.methods import Method, adapt
from attangent.tuning.searching import Search
from attangent.tuning.training import Job, Training, train
from tests.adapters.tiny import save_bert, write_rows

PAD = Padding(0)
TRAINING = Training(epochs=4, batch=8)  # 24 steps
RATES = (0.0001, 0.001, 0.01, 0.1)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = save_bert(tmp_path_factory.mktemp("bert"))
    task = read_task(write_rows(folder / "rows.jsonl", 64))
    return load_model(folder, "classification", task.labels), encode_task(task, load_tokenizer(folder), 8)


def search(data, folder, name="ntk", watch=None):
    model, rows = data
    adapted = adapt(copy.deepcopy(model), Method(name), "classification", 0, [PAD(rows[:16])])
    return Search(
        Job(adapted, "classification", 0.01, rows[:48], PAD, folder, watch=watch), TRAINING, rows[48:]
    )


def test_half_of_the_rates_go_on_at_each_rung(data, tmp_path):
    taken = []
    own = search(data, tmp_path, watch=lambda *step: taken.append(step))
    _, numbers = own.run(RATES)
    ends = sorted(record.last for record in own.records.values())
    assert ends[:3] == [3, 3, 6]
    assert ends[3] == numbers["steps"]
    assert len(taken) == 4 * 3 + 2 * 3 + (ends[3] - 6)
    chosen = own.records[numbers["learning_rate"]]
    assert numbers["validation_loss"] == min(chosen.losses.values())
    for rung in (3, 6):  # what goes on has the lesser loss there
        there = [record.losses[rung] for record in own.records.values() if rung in record.losses]
        assert chosen.losses[rung] <= sorted(there)[len(there) // 2 - 1]


def test_the_chosen_run_is_the_one_its_rate_alone_would_have_made(data, tmp_path):
    own = search(data, tmp_path / "all")
    _, numbers = own.run(RATES)
    rate = numbers["learning_rate"]
    alone = search(data, tmp_path / "one")
    _, again = alone.run((rate,))
    assert own.records[rate].losses == alone.records[rate].losses
    assert numbers["train_loss"] == again["train_loss"]
    ends = trained_tensors(own.job.model), trained_tensors(alone.job.model)
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


def test_steps_that_are_kept_to_the_end_are_plain_training(data, tmp_path):
    """Without an early stop the losses of training are those of a run that is not watched."""
    own = search(data, tmp_path / "searched")
    _, numbers = own.run((0.001,))
    if numbers["steps"] == 24:
        plain = search(data, tmp_path / "plain")
        _, found = train(Job(**{**vars(plain.job), "rate": 0.001}), TRAINING)
        assert found["train_loss"] == pytest.approx(numbers["train_loss"], rel=1e-6)


class Killed(Exception):
    """As if the process had been killed here."""


@pytest.mark.parametrize("step", [1, 4, 14, 20, 27])
def test_a_search_that_was_cut_off_ends_in_the_same_digits(data, tmp_path, step):
    _, expected = (whole := search(data, tmp_path / "whole")).run(RATES)
    taken = []

    def watch(*_):
        taken.append(1)
        if len(taken) == step:
            raise Killed

    with pytest.raises(Killed):
        search(data, tmp_path / "cut", watch=watch).run(RATES)
    again = search(data, tmp_path / "cut")
    _, found = again.run(RATES)
    names = ("learning_rate", "kept_step", "validation_loss", "rates", "train_loss", "steps")
    assert {name: found[name] for name in names} == {name: expected[name] for name in names}
    ends = trained_tensors(whole.job.model), trained_tensors(again.job.model)
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


def test_a_finished_search_takes_no_further_step(data, tmp_path):
    _, expected = search(data, tmp_path).run(RATES)
    taken = []
    _, found = search(data, tmp_path, watch=lambda *step: taken.append(step)).run(RATES)
    assert taken == []
    assert found["train_loss"] == expected["train_loss"]
    assert found["kept_step"] == expected["kept_step"]


def test_a_rate_at_which_the_loss_is_lost_is_given_up(data, tmp_path):
    own = search(data, tmp_path, "full")
    _, numbers = own.run((1e-4, 1e30))
    assert numbers["learning_rate"] == 1e-4
    assert math.isfinite(numbers["validation_loss"])
