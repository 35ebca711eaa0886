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
from attangent.tuning.stopping import Record
from attangent.tuning.training import Job, Training
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
    assert ends[:3] == [6, 6, 9]
    assert ends[3] == numbers["steps"]
    assert len(taken) == 4 * 6 + 2 * 3 + (ends[3] - 9)
    chosen = own.records[numbers["learning_rate"]]
    assert numbers["validation_loss"] == min(chosen.losses.values())
    for rung in (6, 9):  # what goes on has the lesser loss there
        there = [record.losses[rung] for record in own.records.values() if rung in record.losses]
        assert chosen.losses[rung] <= sorted(there)[len(there) // 2 - 1]


def test_the_chosen_run_is_the_one_its_rate_alone_would_have_made(data, tmp_path, whole):
    own, numbers = whole
    rate = numbers["learning_rate"]
    alone = search(data, tmp_path)
    _, again = alone.run((rate,))
    assert own.records[rate].losses == alone.records[rate].losses
    assert numbers["train_loss"] == again["train_loss"]
    ends = trained_tensors(own.job.model), trained_tensors(alone.job.model)
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


class Killed(Exception):
    """As if the process had been killed here."""


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    """A search without a break."""
    own = search(data, tmp_path_factory.mktemp("whole"))
    return own, own.run(RATES)[1]


@pytest.mark.parametrize("step", [8, 27, 32])
def test_a_search_that_was_cut_off_ends_in_the_same_digits(data, tmp_path, whole, step):
    taken = []

    def watch(*_):
        taken.append(1)
        if len(taken) == step:
            raise Killed

    with pytest.raises(Killed):
        search(data, tmp_path, watch=watch).run(RATES)
    again = search(data, tmp_path)
    _, found = again.run(RATES)
    names = ("learning_rate", "kept_step", "validation_loss", "rates", "train_loss", "steps")
    assert {name: found[name] for name in names} == {name: whole[1][name] for name in names}
    ends = trained_tensors(whole[0].job.model), trained_tensors(again.job.model)
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


def test_a_finished_search_takes_no_further_step(data, whole):
    taken, expected = [], whole[1]
    _, found = search(data, whole[0].job.folder, watch=lambda *step: taken.append(step)).run(RATES)
    assert taken == []
    assert found["train_loss"] == expected["train_loss"]
    assert found["kept_step"] == expected["kept_step"]


def test_a_rate_at_which_the_loss_is_lost_is_given_up(data, tmp_path):
    own = search(data, tmp_path, "full")
    _, numbers = own.run((1e-4, 1e30))
    assert numbers["learning_rate"] == 1e-4
    assert math.isfinite(numbers["validation_loss"])


def test_of_rates_alike_the_one_nearest_to_the_methods_own_goes_on(data, tmp_path):
    own = search(data, tmp_path)
    for rate in (0.003, 0.01, 0.09):
        own.records[rate] = Record(tmp_path / f"{rate}")
        own.records[rate].steps, own.records[rate].losses = 24, {0: 1.0, 6: 0.5}
    assert sorted(own.records, key=lambda rate: own._rank(rate, 2)) == [0.01, 0.003, 0.09]
