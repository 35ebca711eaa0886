"""The classifier's closed-form start."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from attangent.tuning.data.text import read_task
from attangent.tuning.encoding import Padding, encode_task
from attangent.tuning.loading import load_model, load_tokenizer, pad_with
from attangent.tuning.start import (
    features_of,
    fit_classifier,
    fit_values,
    linear_classifier,
)
from tests.adapters.tiny import save_bert, save_llama, write_rows

PAD = Padding(0)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = save_bert(tmp_path_factory.mktemp("bert"))
    task = read_task(write_rows(folder / "rows.jsonl", 48))
    return folder, encode_task(task, load_tokenizer(folder), 8)


def test_it_is_the_logistic_solution_on_the_features(data):
    folder, rows = data
    model = load_model(folder, "classification", ("cat", "dog"))
    x, y = features_of(model, model.classifier, rows, PAD)
    strength = fit_classifier(model.classifier, x, y).strength / x.shape[1]
    scale = (x - x.mean(axis=0)).std()
    fit = LogisticRegression(C=strength, max_iter=2000, tol=1e-8).fit((x - x.mean(axis=0)) / scale, y)
    expected = fit.predict_proba((x - x.mean(axis=0)) / scale)
    with torch.no_grad():
        found = model(**{k: v for k, v in PAD(rows).items() if k != "labels"}).logits.softmax(-1)
    np.testing.assert_allclose(found.numpy(), expected, atol=2e-3)
    assert (found.argmax(-1).numpy() == y).mean() > 0.6


@pytest.mark.parametrize(("signal", "size"), [(0.05, 60), (0.5, 60), (3.0, 40)])
def test_the_penalty_is_the_one_that_a_search_over_all_of_them_finds(signal, size):
    from sklearn.model_selection import GridSearchCV, StratifiedKFold

    draw = np.random.default_rng(0)
    y = np.arange(size) % 3
    x = signal * draw.normal(size=(3, 8))[y] + draw.normal(size=(size, 8))
    units = (x - x.mean(axis=0)) / (x - x.mean(axis=0)).std()
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    strengths = {"C": [10.0**power / 8 for power in range(-3, 3)]}
    every = GridSearchCV(LogisticRegression(max_iter=1000), strengths, cv=folds, scoring="neg_log_loss")
    found = fit_classifier(torch.nn.Linear(8, 3), x, y)
    assert found.strength / 8 == every.fit(units, y).best_params_["C"]
    assert found.confident is (signal == 3)
    assert found.least <= found.strength
    layers = [torch.nn.Linear(8, 3) for _ in range(2)]
    for layer, leave_error in zip(layers, (False, True), strict=True):
        assert fit_classifier(layer, x, y, leave_error=leave_error) == found
    left = [_loss(layer, x, y) for layer in layers]
    assert left[1] == left[0] if found.confident or found.least == found.strength else left[1] > left[0]


def _loss(layer, x, y):
    logits = layer(torch.from_numpy(x).float())
    return torch.nn.functional.cross_entropy(logits, torch.from_numpy(y)).item()


def test_a_class_without_rows_and_one_with_a_single_row_are_no_trouble(data):
    folder, rows = data
    model = load_model(folder, "classification", ("cat", "dog", "owl"))
    few = [row for row in rows if row["labels"] == 0][:6] + [row for row in rows if row["labels"] == 1][:1]
    fit_classifier(model.classifier, *features_of(model, model.classifier, few, PAD))
    assert torch.isfinite(model.classifier.weight).all()


def test_one_rare_class_does_not_leave_the_penalty_unchosen():
    draw = np.random.default_rng(0)
    y = np.array([*np.arange(60) % 3, 3])
    x = 3 * draw.normal(size=(4, 8))[y] + draw.normal(size=(61, 8))
    without = fit_classifier(torch.nn.Linear(8, 3), x[:60], y[:60])
    assert without.strength > 1
    assert fit_classifier(torch.nn.Linear(8, 4), x, y).strength == without.strength


def test_only_one_linear_layer_has_a_closed_form(data):
    model = load_model(data[0], "classification", ("cat", "dog"))
    assert linear_classifier(model, ["classifier"]) is model.classifier
    model.classifier = torch.nn.Sequential(model.classifier)
    assert linear_classifier(model, ["classifier"]) is None
    assert linear_classifier(model, []) is None


def test_a_decoder_starts_from_the_solution_at_the_token_it_reads(data, tmp_path):
    folder = save_llama(tmp_path / "llama")
    tokenizer = load_tokenizer(folder)
    task = read_task(data[0] / "rows.jsonl")
    model = load_model(folder, "classification", task.labels)
    pad_with(model, tokenizer)
    rows, pad = encode_task(task, tokenizer, 8), Padding(tokenizer.pad_token_id)
    layer = linear_classifier(model, ["score"])
    x, y = features_of(model, layer, rows, pad)
    assert layer.bias is None
    strength = fit_classifier(layer, x, y).strength / x.shape[1]
    scale = np.sqrt(np.square(x).mean())
    fit = LogisticRegression(C=strength, max_iter=2000, tol=1e-8, fit_intercept=False).fit(x / scale, y)
    for place in range(0, len(rows), 7):  # alone, without padding: the last token is the one
        row = rows[place]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([row["input_ids"]])).logits
        np.testing.assert_allclose(
            logits.softmax(-1).numpy(), fit.predict_proba(x[place : place + 1] / scale), atol=2e-3
        )


def test_values_start_from_the_ridge_solution(data):
    folder, rows = data
    model = load_model(folder, "regression")
    numbered = [{**row, "labels": float(row["labels"]) - 0.5} for row in rows]
    x, y = features_of(model, model.classifier, numbered, PAD)
    penalty = fit_values(model.classifier, x, y).strength
    scale = (x - x.mean(axis=0)).std()
    centred = (x - x.mean(axis=0)) / scale
    gram = centred.T @ centred + penalty * np.eye(x.shape[1])
    weight = np.linalg.solve(gram, centred.T @ (y - y.mean()))
    with torch.no_grad():
        found = model(**{k: v for k, v in PAD(numbered).items() if k != "labels"}).logits.squeeze(-1)
    np.testing.assert_allclose(found.numpy(), centred @ weight + y.mean(), atol=1e-4)
