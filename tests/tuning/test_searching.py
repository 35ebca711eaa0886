"""Rates on rows kept apart: what goes on, what it costs, that a search cut off ends in the same digits."""

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
from attangent.tuning.stopping import clearly_better
from attangent.tuning.training import Job, Training
from tests.adapters.tiny import save_bert, write_rows

PAD = Padding(0)
TRAINING = Training(epochs=4, batch=8)  # 24 steps
RATES = (0.001, 0.01, 0.1)
"""The usual one first."""


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


def test_other_rates_end_at_half_unless_they_are_clearly_better(data, tmp_path):
    taken = []
    own = search(data, tmp_path, watch=lambda *step: taken.append(step))
    found = own.run(RATES)
    ends = {rate: record.last for rate, record in own.records.items()}
    at_half = {rate: own.records[rate].errors[12] for rate in RATES}
    ahead = [rate for rate in RATES[1:] if clearly_better(at_half[rate], at_half[RATES[0]])]
    assert ends[RATES[0]] == 24
    assert sum(ends[rate] > 12 for rate in RATES[1:]) == min(len(ahead), 1)
    assert len(taken) == sum(ends.values())
    assert found.rate in (RATES[0], *ahead)
    assert found.errors == own.records[found.rate].errors[round(24 * found.share)]


def test_the_model_is_left_at_its_start(data, tmp_path):
    own = search(data, tmp_path)
    own.run(RATES[:1])
    now = trained_tensors(own.job.model)
    assert all(torch.equal(own.start[name], now[name]) for name in now)


def test_a_rate_makes_the_run_that_it_alone_would_have_made(data, tmp_path, whole):
    own, found = whole
    alone = search(data, tmp_path)
    again = alone.run((found.rate,))
    assert own.records[found.rate].errors == alone.records[found.rate].errors
    assert (again.share, again.errors) == (found.share, found.errors)


class Killed(Exception):
    """As if the process had been killed here."""


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    """A search without a break."""
    own = search(data, tmp_path_factory.mktemp("whole"))
    return own, own.run(RATES)


@pytest.mark.parametrize("step", [8, 27, 38])
def test_a_search_that_was_cut_off_ends_in_the_same_digits(data, tmp_path, whole, step):
    taken = []

    def watch(*_):
        taken.append(1)
        if len(taken) == step:
            raise Killed

    with pytest.raises(Killed):
        search(data, tmp_path, watch=watch).run(RATES)
    assert search(data, tmp_path).run(RATES) == whole[1]


def test_a_finished_search_takes_no_further_step(data, whole):
    taken = []
    found = search(data, whole[0].job.folder, watch=lambda *step: taken.append(step)).run(RATES)
    assert taken == []
    assert found == whole[1]


def test_a_rate_at_which_the_loss_is_lost_is_given_up(data, tmp_path):
    found = search(data, tmp_path, "full").run((1e-4, 1e30))
    assert found.rate == 1e-4
    assert math.isfinite(found.numbers["validation_error"])


def test_a_usual_rate_that_is_far_too_small_is_left(data, tmp_path):
    found = search(data, tmp_path, "full").run((1e-9, 1e-2))
    assert found.rate == 1e-2
    assert found.share > 0
