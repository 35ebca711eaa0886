"""The classifier in closed form."""

import json

import numpy as np
import pytest
import torch

import attangent
from attangent import AttangentError
from attangent.tuning.loading import load_model, load_tokenizer
from attangent.tuning.planning.kernel_tuned import KernelTuned


def texts_and_labels(path):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [row["text"] for row in rows], [row["label"] for row in rows]


@pytest.fixture(scope="module")
def fitted(bert):
    return KernelTuned(str(bert)).fit(*texts_and_labels(bert / "train.jsonl"))


def test_it_learns_labels_of_any_kind(bert, fitted):
    texts, labels = texts_and_labels(bert / "train.jsonl")
    assert attangent.KernelTuned is KernelTuned
    assert list(fitted.classes_) == ["cat", "dog"]
    assert fitted.score(texts, labels) > 0.9
    probabilities = fitted.predict_proba(texts[:3])
    assert np.allclose(probabilities.sum(axis=1), 1)
    assert list(fitted.classes_[probabilities.argmax(axis=1)]) == list(fitted.predict(texts[:3]))


def test_the_formula_holds_on_features_made_by_hand(bert, fitted):
    """f(x) = K(x, X) (K + ridge I)^-1 Y with K from the Jacobian in two parts."""
    texts, labels = texts_and_labels(bert / "train.jsonl")
    network = fitted._network
    rows = fitted._encoded(texts, [0] * len(texts))
    J = network.tangent(rows).jacobian.flatten(0, 1).double()
    head, rest = J[:, network.head_places], J[:, ~network.head_places]
    K = head @ head.T / head.square().sum(1).mean()
    K = K + fitted.share_ * rest @ rest.T / rest.square().sum(1).mean()
    wanted = network.basis[torch.tensor([0 if label == "cat" else 1 for label in labels])].double()
    inside = K + fitted.ridge_ * torch.eye(len(K), dtype=torch.float64)
    said = (K @ torch.linalg.solve(inside, wanted.flatten())).unflatten(0, (-1, 1)) @ network.basis.double().T
    assert np.allclose(fitted.decision_function(texts), said.numpy(), atol=1e-4)


def test_a_loaded_model_is_left_as_it_is(bert):
    model = load_model(bert, "classification", ("a", "b", "c"))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    texts, labels = texts_and_labels(bert / "train.jsonl")
    KernelTuned(model, load_tokenizer(bert), method="lora").fit(texts, labels)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert list(model.state_dict()) == list(before)


@pytest.mark.parametrize(
    ("texts", "labels", "words"),
    [
        ("one text", ["a"], "texts"),
        ([], [], "list of texts"),
        ([3, 4], ["a", "b"], "texts"),
        (["x", "y"], ["a"], "2 texts and 1 labels"),
        (["x", "y"], ["a", "a"], "all labels are"),
        (["x", "y"], [["a"], ["b", "c"]], "single values"),
        (["x", "y"], [["a"], ["b"]], "single values"),
    ],
)
def test_what_cannot_be_learnt_is_refused(bert, texts, labels, words):
    with pytest.raises(AttangentError, match=words):
        KernelTuned(str(bert)).fit(texts, labels)


def test_answers_before_learning_and_models_without_tokenizers(bert):
    with pytest.raises(AttangentError, match="fit has not been called"):
        KernelTuned(str(bert)).predict(["x"])
    with pytest.raises(AttangentError, match="without a tokenizer"):
        KernelTuned(load_model(bert, "classification", ("a", "b"))).fit(["x", "y"], [0, 1])
