"""Base models: weights, pooling, precision and a frozen peft adapter."""

import json
import shutil
import types
from pathlib import Path

import peft
import pytest
import torch
from transformers import AutoModelForSequenceClassification

from attangent import AttangentError, NTKConfig, attach, save_adapter
from attangent.adapters import activate, disabled, load_adapter
from attangent.tuning import TuningRequest, tune
from attangent.tuning.folders.tuned import load_tuned
from attangent.tuning.loading import (
    check_gradients,
    load_model,
    load_tokenizer,
    mean_over_tokens,
    quantise,
    resolved_pooling,
    use_mean_pooling,
    with_frozen_adapter,
)
from attangent.tuning.methods import Method, adapt
from attangent.tuning.request import TrainingSettings
from tests.adapters.tiny import save_bert, save_llama, write_rows

pytestmark = pytest.mark.usefixtures("one_penalty")
SHORT = TrainingSettings(epochs=2, batch=8)
BATCH = {"input_ids": torch.arange(3, 15).reshape(2, 6), "attention_mask": torch.ones(2, 6).long()}


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = save_bert(tmp_path_factory.mktemp("bert"))
    write_rows(folder / "train.jsonl", 24)
    write_rows(folder / "eval.jsonl", 16, seed=1)
    return folder


def repeated(folder, out, **own):
    """The loss of a run, and the loss that its folder gives after loading."""
    given = TuningRequest(str(folder), folder / "train.jsonl", folder / "eval.jsonl", training=SHORT, **own)
    (metrics,) = tune(given, out)
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
    with pytest.raises(AttangentError, match="quantised does not work with full"):
        TuningRequest(str(bert), bert / "train.jsonl", method=Method("full"), quantised="int8")
    with pytest.raises(AttangentError, match="expected one of int8"):
        TuningRequest(str(bert), bert / "train.jsonl", quantised="int3")


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


def test_a_checkpoint_without_a_part_of_the_model_is_refused(bert, tmp_path):
    from transformers import BertConfig, BertForMaskedLM

    BertForMaskedLM(BertConfig.from_pretrained(bert)).save_pretrained(tmp_path)  # has no pooler
    with pytest.raises(AttangentError, match=r"has no weights for bert\.pooler\.dense\.bias"):
        load_model(tmp_path, "classification", ("a", "b"))


def test_models_that_cannot_be_loaded(bert, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(AttangentError, match=r"has no config\.json"):
        load_model(tmp_path / "empty", "classification", ("a", "b"))


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("model.safetensors", lambda data: data[: len(data) // 2]),
        ("config.json", lambda data: data.replace(b'"type_vocab_size": 2', b'"type_vocab_size": "x"')),
        ("tokenizer.json", lambda data: data.replace(b'"id": 0', b'"id": "x"')),
    ],
)
def test_files_that_were_cut_off_or_damaged_are_refused_in_one_line(bert, tmp_path, name, spoil):
    folder = Path(shutil.copytree(bert, tmp_path / "model"))
    before = (folder / name).read_bytes()
    (folder / name).write_bytes(spoil(before))
    assert (folder / name).read_bytes() != before
    load = load_tokenizer if name == "tokenizer.json" else _classifier
    with pytest.raises(AttangentError, match="can be loaded from"):
        load(folder)


def _classifier(folder):
    return load_model(folder, "classification", ("a", "b"))


def test_the_classifier_reads_the_mean_of_tokens_that_are_no_padding(tmp_path):
    model = use_mean_pooling(load_model(save_bert(tmp_path), "classification", ("a", "b"))).eval()
    ids, mask = torch.tensor([[2, 5, 6, 3], [2, 7, 3, 0]]), torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=mask).logits
        plain = load_model(tmp_path, "classification", ("a", "b")).eval()
        alone = [plain.bert(input_ids=ids[i : i + 1, :n]).last_hidden_state[0] for i, n in ((0, 4), (1, 3))]
        expected = torch.stack([model.classifier(states.mean(dim=0)) for states in alone])
    torch.testing.assert_close(logits, expected)


def test_without_a_mask_all_tokens_count():
    states = torch.arange(6.0).reshape(1, 3, 2)
    torch.testing.assert_close(mean_over_tokens(states, None), torch.tensor([[2.0, 3.0]]))
    torch.testing.assert_close(mean_over_tokens(states, torch.tensor([[1, 0, 0]])), states[:, 0])


def test_declared_is_what_the_files_say(tmp_path):
    folder = save_bert(tmp_path / "bert")
    assert resolved_pooling("declared", folder) == "first"
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    assert resolved_pooling("declared", folder) == "normalised"
    assert resolved_pooling("first", folder) == "first"
    (folder / "1_Pooling/config.json").write_text("{")
    with pytest.raises(AttangentError, match="is not JSON"):
        resolved_pooling("declared", folder)


def test_what_has_no_encoder_is_refused():
    with pytest.raises(AttangentError, match="no encoder whose tokens"):
        use_mean_pooling(torch.nn.Linear(2, 2))


CONFIGS = {
    "lora": peft.LoraConfig(target_modules=["q_proj", "v_proj"]),
    "dora": peft.LoraConfig(target_modules=["q_proj"], use_dora=True),
    "ia3": peft.IA3Config(target_modules=["k_proj", "v_proj"], feedforward_modules=[]),
}


def shaken(model):
    """Something that acts in the place of what the user has trained."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name or "ia3_" in name:
                parameter += 0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    return model


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    folder = save_llama(tmp_path_factory.mktemp("llama"))
    rows = [{"prompt": f"the {word}", "completion": "sleeps"} for word in ("cat", "dog", "sun", "old") * 3]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, config in CONFIGS.items():
        wrapped = shaken(peft.get_peft_model(load_model(folder, "causal-lm"), config))
        wrapped.save_pretrained(folder / name)
    return folder


def logits(model):
    with torch.no_grad():
        return model.eval()(**BATCH).logits


@pytest.mark.parametrize("name", CONFIGS)
def test_switched_combined_saved_and_loaded(llama, tmp_path, name):
    bare = logits(load_model(llama, "causal-lm"))
    model = peft.PeftModel.from_pretrained(load_model(llama, "causal-lm"), llama / name)
    theirs = logits(model)
    assert not torch.equal(theirs, bare)
    for state in ("first", "second"):
        attach(model, NTKConfig(features="elu", seed=len(state), init="gaussian"), state, calibration=BATCH)
    activate(model, "first")
    one = logits(model)
    activate(model, "first", "second")
    both = logits(model)
    assert not torch.equal(one, both)
    with disabled(model):
        assert torch.equal(logits(model), theirs)
    with model.disable_adapter():
        states_alone = logits(model)
    assert not torch.equal(states_alone, both)
    assert torch.equal(logits(model), both)
    for state in ("first", "second"):
        save_adapter(model, tmp_path / state, state)
    model.save_pretrained(tmp_path / "peft")
    again = peft.PeftModel.from_pretrained(load_model(llama, "causal-lm"), tmp_path / "peft")
    for state in ("first", "second"):
        load_adapter(again, tmp_path / state, state)
    activate(again, "first", "second")
    torch.testing.assert_close(logits(again), both)
    alone = load_model(llama, "causal-lm")
    for state in ("first", "second"):
        load_adapter(alone, tmp_path / state, state)
    activate(alone, "first", "second")
    torch.testing.assert_close(logits(alone), states_alone)


def test_a_state_that_was_tuned_with_a_frozen_adapter_loads_with_it(llama, tmp_path):
    """Version 0.2 could tune this; its folders name the adapter in tuned.json."""
    given = TuningRequest(
        str(llama),
        llama / "rows.jsonl",
        llama / "rows.jsonl",
        "causal-lm",
        method=Method("ntk"),
        training=TrainingSettings(epochs=1, batch=16),
    )
    tune(given, tmp_path)
    described = tmp_path / "seed-0/adapter/tuned.json"
    for name in CONFIGS:
        described.write_text(json.dumps(json.loads(described.read_text()) | {"beside": str(llama / name)}))
        model = with_frozen_adapter(load_model(llama, "causal-lm"), llama / name)
        load_adapter(model, tmp_path / "seed-0/adapter")
        torch.testing.assert_close(logits(load_tuned(tmp_path).model), logits(model))


def test_one_for_another_model_is_refused(llama, tmp_path):
    other = save_bert(tmp_path / "bert")
    with pytest.raises(AttangentError, match="does not fit the model"):
        with_frozen_adapter(load_model(other, "classification", ("cat", "dog")), llama / "lora")


def test_an_encoder_is_no_model_that_generates_text(bert):
    with pytest.raises(AttangentError, match="they would stay random; use a model that generates text"):
        load_model(bert, "causal-lm")
