"""Text completion on held-out rows: the best epoch, exact match, samples, plain prompts."""

import csv
import json

import pytest
import torch

from attangent.tuning import TrainingSettings, TuningRequest, load_tuned, tune
from attangent.tuning.completions import BestEpoch
from attangent.tuning.folders.tuned import load_generator
from attangent.tuning.methods import Method
from attangent.tuning.trainer import trained_tensors
from tests.adapters.tiny import save_llama

TEMPLATE = (
    "{% for m in messages %}{{ m.content }} {% endfor %}{% if add_generation_prompt %}answer :{% endif %}"
)


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    folder = save_llama(tmp_path_factory.mktemp("llama"))
    rows = [{"prompt": f"{a} {b} ?", "completion": " yes"} for a in range(4) for b in range(5)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = json.loads((folder / "tokenizer_config.json").read_text()) | {"chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def test_exact_match_and_samples_with_the_chat_template(llama, tmp_path):
    given = TuningRequest(
        str(llama),
        llama / "rows.jsonl",
        task="causal-lm",
        method=Method("ntk", learning_rate=0.1),
        training=TrainingSettings(epochs=12, batch=4),
    )
    (found,) = tune(given, tmp_path)
    answers = list(csv.DictReader((tmp_path / "seed-0/samples.csv").read_text().splitlines()))
    hits = [row["answer"] == row["completion"] for row in answers]
    assert found["eval_exact_match"] == sum(hits) / len(hits)
    assert found["eval_exact_match"] >= 0.75
    assert (found["rows_answered"], found["rows_scored"], len(found["samples"])) == (4, 4, 3)
    assert len(found["held_out_losses"]) == 12
    assert load_tuned(tmp_path).description.chat is True
    assert load_generator(tmp_path)[1].chat_template is not None


def test_plain_prompts_have_no_template(llama, tmp_path):
    given = TuningRequest(
        str(llama),
        llama / "rows.jsonl",
        task="causal-lm",
        plain=True,
        method=Method("lora"),
        training=TrainingSettings(epochs=1, batch=4),
    )
    (found,) = tune(given, tmp_path)
    assert found["learning_rate"] == pytest.approx(5e-3)
    assert load_generator(tmp_path)[1].chat_template is None


class _Counted:
    """A stand-in for a trainer: one weight, whose value is the held-out loss."""

    def __init__(self):
        self.model = torch.nn.Linear(1, 1, bias=False)
        self.accelerator = self

    def unwrap_model(self, model):
        return model

    def wait_for_everyone(self):
        pass


def test_the_weights_of_the_best_epoch_come_back(tmp_path, monkeypatch):
    trainer = _Counted()
    monkeypatch.setattr(
        "attangent.tuning.completions.score", lambda trainer, *_: {"loss": trainer.model.weight.item()}
    )
    best = BestEpoch(tmp_path, [])
    for epoch, loss in enumerate((3.0, 1.0, 2.0), 1):
        torch.nn.init.constant_(trainer.model.weight, loss)
        best._add(trainer, epoch)
    resumed = BestEpoch(tmp_path, [])  # another process reads what the first has written
    assert resumed.restore(trainer) == {"held_out_losses": [3.0, 1.0, 2.0], "best_epoch": 2}
    assert float(trained_tensors(trainer.model)["weight"]) == 1.0
    assert list(tmp_path.iterdir()) == []
