"""One method: its start, its rates, its training."""

import copy

import pytest
import torch

from attangent import AttangentError
from attangent.tuning.data.text import Completion, read_task
from attangent.tuning.encoding import Padding, encode_completions, encode_task
from attangent.tuning.loading import load_model, load_tokenizer
from attangent.tuning.methods import Method
from attangent.tuning.prepared import PreparedTask
from attangent.tuning.request import TrainingSettings
from attangent.tuning.running import run_method
from attangent.tuning.start import features_of, fit_classifier
from attangent.tuning.tasks import trained_classifier
from tests.adapters.tiny import save_bert, save_llama, write_rows

PAD = Padding(0)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = save_bert(tmp_path_factory.mktemp("bert"))
    task = read_task(write_rows(folder / "rows.jsonl", 96))
    return load_model(folder, "classification", task.labels), encode_task(task, load_tokenizer(folder), 8)


def run(data, tmp_path, method, start="closed-form", **training):
    model, rows = data
    task = PreparedTask(copy.deepcopy(model), "classification", rows[:64], PAD)
    given = TrainingSettings(**{"epochs": 2, "batch": 8, **training})
    return run_method(task, Method(method), given, start, tmp_path)


def test_a_probe_is_the_closed_form_and_takes_no_step(data, tmp_path):
    model, rows = data
    found = run(data, tmp_path, "probe", "closed-form")
    assert found.metrics["steps"] == 0
    assert found.metrics["seconds"] > 0
    other = copy.deepcopy(model)
    fit_classifier(other.classifier, *features_of(other, other.classifier, rows[:64], PAD))
    torch.testing.assert_close(found.model.classifier.weight, other.classifier.weight)


def test_a_probe_needs_one_linear_layer(data, tmp_path):
    """Otherwise it would save the random classifier."""
    model, rows = data
    deep = copy.deepcopy(model)
    deep.classifier = torch.nn.Sequential(deep.classifier)
    task = PreparedTask(deep, "classification", rows, PAD)
    with pytest.raises(AttangentError, match="is not one linear layer, which the method probe needs"):
        run_method(task, Method("probe"), TrainingSettings(), "closed-form", tmp_path)


def test_the_plain_recipe_trains_on_every_row_at_the_methods_rate(data, tmp_path):
    found = run(data, tmp_path, "lora", "random")
    assert (found.metrics["steps"], found.metrics["learning_rate"]) == (16, 2e-3)


def test_the_rate_is_larger_if_the_start_leaves_an_error_to_learn_from(data, tmp_path):
    """A small random model is not sure of its rows."""
    assert run(data, tmp_path, "lora").metrics["learning_rate"] == 4e-3


def test_the_saved_classifier_is_the_mean_of_the_trained_one_and_a_refit(data, tmp_path, monkeypatch):
    rows = data[1]
    averaged = run(data, tmp_path / "averaged", "lora").model
    monkeypatch.setattr("attangent.tuning.running._average_with_refit", lambda *_: None)
    trained = run(data, tmp_path / "trained", "lora").model
    layers = [trained_classifier(model) for model in (trained, averaged)]
    refit = torch.nn.Linear(layers[0].in_features, 2)
    fit_classifier(refit, *features_of(trained, layers[0], rows[:64], PAD))
    assert (refit.weight - layers[0].weight).abs().max() > 1e-2
    for name in ("weight", "bias"):
        mean = (getattr(layers[0], name) + getattr(refit, name)) / 2
        torch.testing.assert_close(getattr(layers[1], name), mean)


def test_a_sure_classifier_is_left_as_it_is(data, tmp_path, monkeypatch):
    monkeypatch.setattr("attangent.tuning.start._CONFIDENT", 0.01)
    assert run(data, tmp_path, "lora", "closed-form").metrics["learning_rate"] == 5e-4


def test_without_a_classifier_lora_takes_a_higher_rate(tmp_path):
    folder = save_llama(tmp_path / "llama")
    tokenizer = load_tokenizer(folder)
    rows = encode_completions([Completion("the cat", "sleeps")] * 5, tokenizer, 16)
    task = PreparedTask(load_model(folder, "causal-lm"), "causal-lm", rows, PAD, tokenizer=tokenizer)
    settings = TrainingSettings(epochs=1, batch=4)
    found = run_method(task, Method("lora"), settings, "closed-form", tmp_path)
    assert (found.metrics["learning_rate"], found.metrics["steps"]) == (5e-3, 2)
