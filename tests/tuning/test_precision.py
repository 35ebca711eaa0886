"""Bases of few bits carry what is tuned, or are refused."""

import json
import types

import pytest
import torch
from transformers import AutoModelForSequenceClassification

from attangent import AttangentError
from attangent.tuning.finetune import Tuning, finetune
from attangent.tuning.folders.tuned import load_tuned
from attangent.tuning.loading import load_model
from attangent.tuning.methods import Method, adapt
from attangent.tuning.precision import check_gradients, quantise
from attangent.tuning.training import Training
from tests.adapters.tiny import save_bert, save_llama, write_rows

SHORT = Training(epochs=2, batch=8)
BATCH = {"input_ids": torch.arange(3, 15).reshape(2, 6), "attention_mask": torch.ones(2, 6).long()}


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = save_bert(tmp_path_factory.mktemp("bert"))
    write_rows(folder / "train.jsonl", 24)
    write_rows(folder / "eval.jsonl", 16, seed=1)
    return folder


def repeated(folder, out, **own):
    """The loss of a run, and the loss that its folder gives after loading."""
    given = Tuning(str(folder), folder / "train.jsonl", folder / "eval.jsonl", training=SHORT, **own)
    (metrics,) = finetune(given, out)
    rows = [json.loads(line) for line in (folder / "eval.jsonl").read_text().splitlines()]
    answers = load_tuned(out).predict([row["text"] for row in rows])
    chances = [answer.probabilities[row["label"]] for answer, row in zip(answers, rows, strict=True)]
    return metrics, float(-torch.tensor(chances).log().mean())


@pytest.mark.parametrize("method", ["ntk", "lora", "ntk+lora"])
def test_weights_in_8_bits_carry_every_method(bert, tmp_path, method):
    pytest.importorskip("torchao")
    metrics, again = repeated(bert, tmp_path / "8", method=Method(method), quantised="int8")
    assert again == pytest.approx(metrics["eval_loss"], abs=1e-4)


def test_weights_in_8_bits_are_near_those_in_32(bert):
    pytest.importorskip("torchao")
    model = load_model(bert, "classification", ("cat", "dog")).eval()
    with torch.no_grad():
        whole = model(**BATCH).logits
        few = quantise(model, "int8")(**BATCH).logits
    assert 0 < float((few - whole).abs().max()) < 0.1


def test_only_the_layers_below_the_head_lose_bits(bert, tmp_path):
    pytest.importorskip("torchao")
    for model in (
        quantise(load_model(bert, "classification", ("cat", "dog")), "int8"),
        quantise(load_model(save_llama(tmp_path), "causal-lm"), "int8"),
    ):
        few = {name for name, p in model.named_parameters() if type(p.data) is not torch.Tensor}
        assert any("value" in name or "v_proj" in name for name in few)
        assert not any("classifier" in name or "lm_head" in name or "embed" in name for name in few)


def test_activations_in_8_bits_are_refused(bert):
    torchao = pytest.importorskip("torchao.quantization")
    model = load_model(bert, "classification", ("cat", "dog"))
    torchao.quantize_(model.bert.encoder, torchao.Int8DynamicActivationInt8WeightConfig())
    adapted = adapt(model, Method("ntk"), "classification", 0, [BATCH])
    check_gradients(adapted, BATCH)  # the classifier is above: its gradient passes
    adapted.classifier.requires_grad_(False)
    with pytest.raises(AttangentError, match="no gradient passes"):
        check_gradients(adapted, BATCH)


def test_what_saves_the_model_itself_is_refused(bert):
    with pytest.raises(AttangentError, match="quantised is given for full"):
        Tuning(str(bert), bert / "train.jsonl", method=Method("full"), quantised="int8")
    with pytest.raises(AttangentError, match="expected one of int8"):
        Tuning(str(bert), bert / "train.jsonl", quantised="int3")


@pytest.mark.parametrize("method", ["ntk", "lora", "probe"])
def test_a_base_in_bfloat16_trains_its_classifier_in_float32(bert, tmp_path, method):
    small = tmp_path / "bfloat16"
    AutoModelForSequenceClassification.from_pretrained(bert, dtype=torch.bfloat16).save_pretrained(small)
    for path in (*bert.glob("tokenizer*"), bert / "train.jsonl", bert / "eval.jsonl"):
        (small / path.name).write_bytes(path.read_bytes())
    model = load_model(small, "classification", ("cat", "dog"))
    assert (model.dtype, model.classifier.weight.dtype) == (torch.bfloat16, torch.float32)
    assert model(**BATCH).logits.dtype == torch.float32
    metrics, again = repeated(small, tmp_path / "out", method=Method(method))
    assert again == pytest.approx(metrics["eval_loss"], abs=2e-3)
    trained = load_tuned(tmp_path / "out").model
    heads = {p.dtype for n, p in trained.named_parameters() if "classifier" in n}
    assert heads == {torch.float32}


class Marked(torch.Tensor):
    """A tensor of another type, as quantised weights are."""


class Below(torch.nn.Module):
    """A state below a classifier, with or without a gradient that passes from one to the other."""

    def __init__(self, passes):
        super().__init__()
        self.passes = passes
        self.frozen = torch.nn.Parameter(torch.ones(3).as_subclass(Marked), requires_grad=False)
        self.state = torch.nn.Parameter(torch.zeros(3))
        self.classifier = torch.nn.Linear(3, 2)

    def forward(self, x):
        hidden = x + self.state
        logits = self.classifier(hidden if self.passes else hidden.detach())
        return types.SimpleNamespace(logits=logits)


def test_a_classifier_that_gets_a_gradient_does_not_hide_that_the_state_gets_none():
    batch = {"x": torch.ones(1, 3), "labels": torch.zeros(1)}
    check_gradients(Below(passes=True), batch)
    with pytest.raises(AttangentError, match="no gradient passes through this quantised model"):
        check_gradients(Below(passes=False), batch)
