"""Tuning on files, whole: what is written, what is refused, what is not computed twice."""

import json

import pytest
import torch

from attangent import AttangentError
from attangent.adapters import load_adapter
from attangent.tuning.data.math import Problem, score_answers, solve
from attangent.tuning.finetune import Tuning, finetune
from attangent.tuning.loading import load_model, load_tokenizer
from attangent.tuning.methods import Method
from attangent.tuning.preparing import prepare
from attangent.tuning.training import Training
from tests.adapters.tiny import save_bert, save_llama, save_vit, write_images, write_rows

SHORT = Training(epochs=1, batch=8)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = save_bert(tmp_path_factory.mktemp("bert"))
    write_rows(folder / "train.jsonl", 24)
    write_rows(folder / "eval.jsonl", 16, seed=1)
    return folder


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    folder = save_llama(tmp_path_factory.mktemp("llama"))
    rows = [{"question": f"{a} {b} ?", "answer": f"{a} .\n#### {a}"} for a in range(4) for b in range(5)]
    (folder / "math.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def tuning(folder, **own):
    files = {"train": folder / "train.jsonl", "evaluate": folder / "eval.jsonl"}
    return Tuning(str(folder), **{**files, "training": SHORT, **own})


def test_a_run_writes_adapter_metrics_and_settings_once(bert, tmp_path, monkeypatch):
    (found,) = finetune(tuning(bert), tmp_path)
    folder = tmp_path / "seed-0"
    assert {path.name for path in folder.iterdir()} == {"adapter", "metrics.json", "settings.json"}
    assert json.loads((folder / "metrics.json").read_text()) == found
    assert json.loads((folder / "settings.json").read_text())["method"]["name"] == "ntk"
    monkeypatch.setattr("attangent.tuning.finetune.prepare", None)
    assert finetune(tuning(bert), tmp_path) == [found]
    with pytest.raises(AttangentError, match="holds a run with other settings"):
        finetune(tuning(bert, max_tokens=5), tmp_path)


def test_the_saved_adapter_gives_the_scores_back(bert, tmp_path):
    (found,) = finetune(tuning(bert, training=Training(epochs=3, batch=8)), tmp_path)
    model = load_model(bert, "classification", ("cat", "dog"), seed=7)
    load_adapter(model, tmp_path / "seed-0/adapter")
    prepared = prepare(tuning(bert))
    with torch.no_grad():
        batch = prepared.collate(prepared.evaluate)
        labels = batch.pop("labels")
        hits = (model.eval()(**batch).logits.argmax(-1) == labels).double().mean()
    assert float(hits) == found["eval_accuracy"]


def test_seeds_differ(bert, tmp_path):
    first, second = finetune(tuning(bert), tmp_path, seeds=2)
    assert (first["seed"], second["seed"]) == (0, 1)
    assert first["eval_loss"] != second["eval_loss"]


@pytest.mark.parametrize(("name", "place"), [("lora", "adapter"), ("head", "model"), ("ntk+lora", "lora")])
def test_other_methods_save_what_their_libraries_read(bert, tmp_path, name, place):
    finetune(tuning(bert, method=Method(name)), tmp_path)
    files = {path.name for path in (tmp_path / "seed-0" / place).iterdir()}
    assert files & {"adapter_model.safetensors", "model.safetensors"}


def test_images(tmp_path):
    folder = save_vit(tmp_path / "vit")
    data = [write_images(tmp_path / part, 6, seed) for seed, part in enumerate(("train", "eval"))]
    given = Tuning(str(folder), *data, method=Method("ntk", top=1), training=SHORT)
    (found,) = finetune(given, tmp_path / "out")
    assert given.kind == "image-classification"
    assert found["head_parameters"] == 34


def test_math_end_to_end(llama, tmp_path):
    given = Tuning(
        str(llama), llama / "math.jsonl", llama / "math.jsonl", "causal-lm", max_tokens=40, training=SHORT
    )
    (found,) = finetune(given, tmp_path)
    assert found["eval_loss"] > 0
    assert "eval_accuracy" not in found
    model, tokenizer = load_model(llama, "causal-lm"), load_tokenizer(llama)
    load_adapter(model, tmp_path / "seed-0/adapter")
    problems = [Problem("1 2 ?", "", "1"), Problem("the old cat 3 4 ?", "", "3")]
    texts = solve(model, tokenizer, problems, max_new_tokens=4, batch=2)
    alone = [solve(model, tokenizer, [problem], max_new_tokens=4)[0] for problem in problems]
    assert texts == alone  # padding on the left changes nothing
    assert 0 <= score_answers(texts, problems).accuracy <= 1


def test_too_long_and_wrong_labels_are_said_before_training(bert, tmp_path):
    (tmp_path / "odd.jsonl").write_text('{"text": "a", "label": "bird"}\n{"text": "b", "label": "cat"}\n')
    with pytest.raises(AttangentError, match="has the labels bird"):
        finetune(tuning(bert, evaluate=tmp_path / "odd.jsonl"), tmp_path / "out")
    (tmp_path / "long.jsonl").write_text(json.dumps({"text": "the cat " * 60, "label": "cat"}) + "\n")
    with pytest.raises(AttangentError, match="the model takes 48"):
        finetune(tuning(bert, evaluate=tmp_path / "long.jsonl"), tmp_path / "out")
    assert not (tmp_path / "out").exists()
