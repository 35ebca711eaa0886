"""Text completion on held-out rows: the best epoch, exact match, samples, plain prompts."""

import copy
import csv
import json

import pytest
import torch
from transformers.modeling_outputs import CausalLMOutput

from attangent.tuning import TrainingSettings, TuningRequest, completions, load_tuned, tune
from attangent.tuning.completions import BaseTexts, BestEpoch
from attangent.tuning.data.text import read_completions
from attangent.tuning.encoding import Padding, encode_completions
from attangent.tuning.folders.tuned import load_generator
from attangent.tuning.loading import load_model, load_tokenizer
from attangent.tuning.methods import Method
from attangent.tuning.prepared import PreparedTask
from attangent.tuning.running import run_method
from attangent.tuning.trainer import trained_tensors
from tests.adapters.tiny import save_llama

TEMPLATE = (
    "{% for m in messages %}{{ m.content }} {% endfor %}{% if add_generation_prompt %}answer :{% endif %}"
)


@pytest.fixture(autouse=True)
def short_texts(monkeypatch):
    monkeypatch.setattr(completions, "_TEXT_TOKENS", 24)


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
        method=Method("lora", learning_rate=0.1),
        training=TrainingSettings(epochs=5, batch=4),
        keep_holdout=True,
    )
    (found,) = tune(given, tmp_path)
    answers = list(csv.DictReader((tmp_path / "seed-0/samples.csv").read_text().splitlines()))
    hits = [row["answer"] == row["completion"] for row in answers]
    assert found["eval_exact_match"] == sum(hits) / len(hits)
    assert found["eval_exact_match"] >= 0.75
    assert (found["rows_answered"], found["rows_scored"], len(found["samples"])) == (4, 4, 3)
    assert len(found["held_out_losses"]) == 5
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


def task_of(folder, chat=True):
    """Return a model whose texts are not uniform, so that a KL term has something to hold."""
    tokenizer = load_tokenizer(folder)
    model = load_model(folder, "causal-lm")
    with torch.no_grad():
        model.lm_head.weight.mul_(20.0)
    rows = encode_completions(read_completions(folder / "rows.jsonl"), tokenizer, 32, chat=chat)
    return PreparedTask(model, "causal-lm", rows, Padding(0), tokenizer=tokenizer, chat=chat)


@pytest.mark.parametrize("chat", [True, False])
def test_texts_are_samples_of_the_base_model_with_its_probabilities(llama, chat):
    task = task_of(llama, chat)
    texts = BaseTexts.sampled(task.model, task, seed=0)
    assert len(texts.ids) == 16
    sampled = texts.log_probs.shape[1]
    assert torch.equal(texts.ids[0, :-sampled], texts.ids[-1, :-sampled])
    with torch.no_grad():
        logits = task.model(input_ids=texts.ids).logits[:, -sampled - 1 : -1]
    torch.testing.assert_close(texts.log_probs.float(), logits.log_softmax(-1), atol=2e-2, rtol=1e-3)
    tokens = texts.ids[:, -sampled:].unsqueeze(-1)
    surprise = -logits.log_softmax(-1).gather(-1, tokens).mean()
    entropy = torch.distributions.Categorical(logits=logits).entropy().mean()
    assert float(surprise) == pytest.approx(float(entropy), rel=0.1)
    forward = task.model.forward

    def without_cache(past_key_values=None, **inputs):
        assert past_key_values is None
        output = forward(**inputs)
        return CausalLMOutput(logits=output.logits)

    task.model.forward = without_cache
    again = BaseTexts.sampled(task.model, task, seed=0)
    assert torch.equal(again.ids, texts.ids)
    torch.testing.assert_close(again.log_probs, texts.log_probs, atol=2e-2, rtol=1e-3)


def test_the_penalty_is_the_divergence_and_is_zero_at_the_base_model(llama, monkeypatch):
    task = task_of(llama)
    texts = BaseTexts.sampled(task.model, task, seed=0)
    assert float(texts.penalty(task.model, 0).detach()) == pytest.approx(0.0, abs=1e-3)
    assert texts.perplexity_ratio(task.model) == pytest.approx(1.0, abs=1e-2)
    other = copy.deepcopy(task.model).requires_grad_(False)
    torch.nn.init.normal_(other.lm_head.weight, generator=torch.Generator().manual_seed(0))
    for step, first in ((0, 0), (2, 8), (3, 0), (4, 4)):
        ids = texts.ids[first : first + 4]
        base, tuned = (_distribution(model, ids, texts.log_probs.shape[1]) for model in (task.model, other))
        expected = float(torch.distributions.kl_divergence(base, tuned).mean())
        assert float(texts.penalty(other, step)) == pytest.approx(expected, rel=1e-2)
    monkeypatch.setattr(completions, "KL_WEIGHT", 0.5)
    assert float(texts.penalty(other, 4)) == pytest.approx(expected / 2, rel=1e-2)
    assert texts.perplexity_ratio(other) > 1.5


def _distribution(model, ids, count):
    with torch.no_grad():
        return torch.distributions.Categorical(logits=model(input_ids=ids).logits[:, -count - 1 : -1])


@pytest.mark.parametrize("method", ["lora", "ntk"])
def test_the_penalty_keeps_a_tuned_model_near_its_base(llama, tmp_path, monkeypatch, method):
    ratios = []
    for weight in (0.0, 5.0):
        monkeypatch.setattr(completions, "KL_WEIGHT", weight)
        training = TrainingSettings(epochs=6, batch=4)
        result = run_method(
            task_of(llama),
            Method(method, learning_rate=0.05),
            training,
            "closed-form",
            tmp_path / str(weight),
        )
        ratios.append(result.metrics["base_texts_perplexity_ratio"])
    assert ratios[1] < 1 + (ratios[0] - 1) / 2


def test_accumulated_steps_have_the_same_penalty(llama, tmp_path):
    ends = []
    for batch, accumulate in ((8, 1), (4, 2)):
        training = TrainingSettings(epochs=1, batch=batch, accumulate=accumulate)
        result = run_method(task_of(llama), Method("lora"), training, "closed-form", tmp_path / str(batch))
        ends.append(trained_tensors(result.model))
    for name, tensor in ends[0].items():
        torch.testing.assert_close(ends[1][name], tensor, rtol=1e-3, atol=1e-5)
