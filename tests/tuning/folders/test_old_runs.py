"""A run folder written by version 0.1.0: it still loads, and its command finds it done."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from attangent.adapters import load_adapter
from attangent.tuning import TuningRequest, tune
from attangent.tuning.loading import load_model
from attangent.tuning.methods import Method
from attangent.tuning.prepared import prepare
from attangent.tuning.request import TrainingSettings
from tests.adapters.tiny import save_bert, write_rows

RUN = Path(__file__).parents[2] / "fixtures/tuning/old-run"


@pytest.fixture
def old(tmp_path, monkeypatch):
    """The folder in which `attangent tune` was called then."""
    save_bert(tmp_path / "bert")
    write_rows(tmp_path / "train.jsonl", 24)
    write_rows(tmp_path / "eval.jsonl", 16, seed=1)
    shutil.copytree(RUN, tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    return TuningRequest(
        "bert",
        Path("train.jsonl"),
        Path("eval.jsonl"),
        method=Method("ntk"),
        training=TrainingSettings(epochs=3.0, batch=8),
    )


def test_the_same_command_returns_its_metrics(old):
    written = json.loads((RUN / "seed-0/metrics.json").read_text())
    assert tune(old, Path("run")) == [written]


def test_its_adapter_gives_its_scores(old):
    written = json.loads((RUN / "seed-0/metrics.json").read_text())
    model = load_adapter(load_model("bert", "classification", ("cat", "dog"), seed=5), "run/seed-0/adapter")
    prepared = prepare(old)
    batch = prepared.collate(prepared.evaluate)
    labels = batch.pop("labels")
    with torch.no_grad():
        logits = model.eval()(**batch).logits
    assert float((logits.argmax(-1) == labels).float().mean()) == written["eval_accuracy"]
    loss = torch.nn.functional.cross_entropy(logits, labels)
    assert float(loss) == pytest.approx(written["eval_loss"], abs=1e-6)


def test_the_same_settings_still_train_to_the_same_numbers(old, tmp_path):
    written = json.loads((RUN / "seed-0/metrics.json").read_text())
    (found,) = tune(replace(old, start="random"), tmp_path / "anew")
    for name in ("eval_loss", "train_loss"):
        assert found[name] == pytest.approx(written[name], rel=1e-5)
    assert (found["eval_accuracy"], found["steps"]) == (written["eval_accuracy"], written["steps"])
