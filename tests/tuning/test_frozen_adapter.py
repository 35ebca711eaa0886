"""A peft adapter of the user's beside a state: tuned with, switched, combined, saved, loaded."""

import json

import peft
import pytest
import torch

from attangent import AttangentError, NTKConfig, attach, save_adapter
from attangent.adapters import activate, disabled, load_adapter
from attangent.tuning.finetune import Tuning, finetune
from attangent.tuning.folders.tuned import load_tuned
from attangent.tuning.frozen_adapter import check_beside, with_beside
from attangent.tuning.loading import load_model
from attangent.tuning.methods import Method
from attangent.tuning.training import Training
from tests.adapters.tiny import save_bert, save_llama, write_rows

BATCH = {"input_ids": torch.arange(3, 15).reshape(2, 6), "attention_mask": torch.ones(2, 6).long()}
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


@pytest.mark.parametrize("name", CONFIGS)
def test_a_state_is_tuned_beside_it_and_loads_with_it(llama, tmp_path, name):
    before = {path.name: path.read_bytes() for path in (llama / name).iterdir()}
    given = Tuning(
        str(llama),
        llama / "rows.jsonl",
        llama / "rows.jsonl",
        "causal-lm",
        training=Training(epochs=2, batch=4),
        beside=llama / name,
    )
    (found,) = finetune(given, tmp_path)
    assert before == {path.name: path.read_bytes() for path in (llama / name).iterdir()}
    tuned = load_tuned(tmp_path)
    row = tuned.tokenizer("the cat sleeps", return_tensors="pt")
    with torch.no_grad():
        answer = tuned.model(**row).logits
    model = with_beside(load_model(llama, "causal-lm"), llama / name)
    load_adapter(model, tmp_path / "seed-0/adapter")
    with torch.no_grad():
        torch.testing.assert_close(model.eval()(**row).logits, answer)
    alone = finetune(Tuning(**{**vars(given), "beside": None}), tmp_path / "alone")[0]
    assert found["eval_loss"] != alone["eval_loss"]
    assert found["parameters"] == alone["parameters"]


def test_a_classifier_is_tuned_beside_it(tmp_path):
    bert = save_bert(tmp_path / "bert")
    rows = write_rows(bert / "rows.jsonl", 24)
    config = peft.LoraConfig(target_modules=["query", "value"])
    shaken(peft.get_peft_model(load_model(bert, "classification", ("cat", "dog")), config)).save_pretrained(
        tmp_path / "lora"
    )
    given = Tuning(str(bert), rows, rows, training=Training(epochs=1, batch=8), beside=tmp_path / "lora")
    (found,) = finetune(given, tmp_path / "out")
    texts = [json.loads(line) for line in rows.read_text().splitlines()]
    answers = load_tuned(tmp_path / "out").predict([row["text"] for row in texts])
    hits = [answer.label == row["label"] for answer, row in zip(answers, texts, strict=True)]
    assert sum(hits) / len(hits) == found["eval_accuracy"]


def test_what_cannot_stand_beside_a_state_is_refused(llama, tmp_path):
    with pytest.raises(AttangentError, match="expected the method ntk"):
        Tuning(
            str(llama), llama / "rows.jsonl", task="causal-lm", method=Method("lora"), beside=llama / "lora"
        )
    with pytest.raises(AttangentError, match="give the folder of a peft adapter"):
        check_beside(tmp_path)
    described = json.loads((llama / "lora/adapter_config.json").read_text())
    for change, reason in (
        ({"peft_type": "PREFIX_TUNING"}, "before the tokens"),
        ({"modules_to_save": ["score"]}, "has its own score"),
        ({"peft_type": "ATTANGENT_NTK"}, "a state of attangent's"),
    ):
        (tmp_path / "adapter_config.json").write_text(json.dumps(described | change))
        (tmp_path / "adapter_model.safetensors").write_bytes(b"")
        with pytest.raises(AttangentError, match=reason):
            check_beside(tmp_path)


def test_one_for_another_model_is_refused(llama, tmp_path):
    other = save_bert(tmp_path / "bert")
    with pytest.raises(AttangentError, match="does not fit the model"):
        with_beside(load_model(other, "classification", ("cat", "dog")), llama / "lora")
