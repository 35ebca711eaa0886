"""The recipe around a method: never worse than the classifier alone, the same for every method."""

import copy

import pytest
import torch

from attangent.tuning.data.text import read_task
from attangent.tuning.encoding import Completion, Padding, encode_completions, encode_task
from attangent.tuning.loading import load_model, load_tokenizer
from attangent.tuning.methods import Method
from attangent.tuning.recipe import PLAIN, Recipe
from attangent.tuning.running import Task, run_method
from attangent.tuning.start import features_of, fit_classifier
from attangent.tuning.training import Training, score
from tests.adapters.tiny import save_bert, save_llama, write_rows

PAD = Padding(0)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = save_bert(tmp_path_factory.mktemp("bert"))
    task = read_task(write_rows(folder / "rows.jsonl", 96))
    return load_model(folder, "classification", task.labels), encode_task(task, load_tokenizer(folder), 8)


def run(data, tmp_path, method, recipe, **training):
    model, rows = data
    task = Task(copy.deepcopy(model), "classification", rows[:64], PAD)
    given = Training(**{"epochs": 2, "batch": 8, **training})
    return run_method(task, Method(method), given, recipe, tmp_path)


@pytest.mark.parametrize("method", ["ntk", "lora", "head", "ntk+lora", "full"])
def test_a_share_is_chosen_on_rows_kept_apart(data, tmp_path, method):
    found = run(data, tmp_path, method, Recipe(validation="unlike"))
    assert found.numbers["kept"] in (0, 0.25, 0.5, 0.75, 1)
    assert found.numbers["validation_loss"] <= found.numbers["validation_loss_at_start"]
    assert found.numbers["steps"] == 2 * 7  # a fifth of 64 rows is kept apart


def test_what_is_useless_is_not_kept(data, tmp_path):
    """At an absurd rate all is forgotten: what is left is logistic regression on the frozen features."""
    model, rows = data
    task = Task(copy.deepcopy(model), "classification", rows[:64], PAD)
    absurd, validated = Method("full", learning_rate=1.0), Recipe(validation="random")
    found = run_method(task, absurd, Training(epochs=1, batch=8), validated, tmp_path)
    assert found.numbers["kept"] == 0
    probe = run(data, tmp_path, "probe", Recipe(validation="none"))
    ends = [score(one.trainer, rows[64:], "classification") for one in (found, probe)]
    assert ends[0]["loss"] == pytest.approx(ends[1]["loss"], rel=1e-3)


def test_a_probe_is_the_closed_form_and_takes_no_step(data, tmp_path):
    model, rows = data
    found = run(data, tmp_path, "probe", Recipe(validation="none"))
    assert found.numbers["steps"] == 0
    other = copy.deepcopy(model)
    fit_classifier(other.classifier, *features_of(other, other.classifier, rows[:64], PAD))
    torch.testing.assert_close(found.model.classifier.weight, other.classifier.weight)


def test_the_plain_recipe_trains_on_every_row_at_the_methods_rate(data, tmp_path):
    found = run(data, tmp_path, "lora", PLAIN)
    assert (found.numbers["steps"], found.numbers["learning_rate"]) == (16, 2e-3)
    assert "kept" not in found.numbers


@pytest.mark.parametrize(("start", "rate"), [("closed-form", 4e-3), ("cross-validated", 5e-4)])
def test_the_rate_is_smaller_where_the_start_leaves_nothing_to_learn(data, tmp_path, start, rate):
    """A small random model is not sure of its rows, so that its classifier starts with an error left."""
    assert run(data, tmp_path, "lora", Recipe(start)).numbers["learning_rate"] == rate


def test_a_sure_classifier_is_left_as_it_is(data, tmp_path, monkeypatch):
    monkeypatch.setattr("attangent.tuning.start._SURE", 0.01)
    assert run(data, tmp_path, "lora", Recipe()).numbers["learning_rate"] == 5e-4


def test_without_a_classifier_the_rate_is_the_methods_own(tmp_path):
    folder = save_llama(tmp_path / "llama")
    rows = encode_completions([Completion("the cat", "sleeps")] * 5, load_tokenizer(folder), 16)
    task = Task(load_model(folder, "causal-lm"), "causal-lm", rows, PAD)
    found = run_method(
        task, Method("lora"), Training(epochs=1, batch=4), Recipe(validation="random"), tmp_path
    )
    assert found.numbers["learning_rate"] == 2e-3
    assert found.numbers["validation_loss"] <= found.numbers["validation_loss_at_start"]
    assert found.numbers["steps"] == 1  # a fifth of the rows is kept apart here too


@pytest.mark.parametrize("method", ["ntk", "lora", "head", "ntk+lora", "full", "prefix"])
def test_every_method_is_searched_alike(data, tmp_path, method):
    found = run(data, tmp_path, method, Recipe(search=True)).numbers
    assert len(found["rates"]) == 3
    assert f"{found['learning_rate']:g}" in found["rates"]
    assert found["validation_error"] <= next(iter(found["rates"].values()))  # the usual rate comes first
    assert found["steps"] == round(16 * found["trained_share"])  # all 64 rows, not the 51 of the search


def test_what_was_chosen_is_trained_on_all_rows_from_the_start(data, tmp_path):
    """LoRA starts as the base model, so that the last run is the one without a search."""
    searched = run(data, tmp_path / "a", "lora", Recipe(search=True), epochs=4)
    model, rows = data
    assert searched.numbers["trained_share"] == 1
    task = Task(copy.deepcopy(model), "classification", rows[:64], PAD)
    chosen = Method("lora", learning_rate=searched.numbers["learning_rate"])
    plain = run_method(task, chosen, Training(epochs=4, batch=8), Recipe(), tmp_path / "b")
    ends = [score(one.trainer, rows[64:], "classification")["loss"] for one in (searched, plain)]
    assert ends[0] == pytest.approx(ends[1], rel=1e-5)


def test_a_rate_that_is_given_is_not_sought(data, tmp_path):
    model, rows = data
    task = Task(copy.deepcopy(model), "classification", rows[:64], PAD)
    given = Method("lora", learning_rate=0.004)
    found = run_method(task, given, Training(epochs=2, batch=8), Recipe(search=True), tmp_path)
    assert set(found.numbers["rates"]) == {"0.004"}


def test_a_search_that_finds_nothing_better_is_logistic_regression_on_all_rows(data, tmp_path):
    model, rows = data
    task = Task(copy.deepcopy(model), "classification", rows[:64], PAD)
    absurd, training = Method("full", learning_rate=1.0), Training(epochs=1, batch=8, head_rate=1.0)
    found = run_method(task, absurd, training, Recipe(search=True), tmp_path)
    assert found.numbers["trained_share"] == 0
    probe = run(data, tmp_path, "probe", Recipe())
    ends = [score(one.trainer, rows[64:], "classification") for one in (found, probe)]
    assert ends[0]["loss"] == pytest.approx(ends[1]["loss"], rel=1e-3)
