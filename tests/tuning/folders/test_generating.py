"""Chats with tuned models: turns are remembered, templates are used where there are some."""

import json

import pytest

from attangent import AttangentError
from attangent.tuning import TuningRequest, tune
from attangent.tuning.folders.generating import TunedChat, continue_text
from attangent.tuning.folders.tuned import load_tuned
from attangent.tuning.methods import Method
from attangent.tuning.request import TrainingSettings
from tests.adapters.tiny import save_bert, save_llama, write_rows

TEMPLATE = "{% for turn in messages %}{{ turn['content'] }} {% endfor %}"


@pytest.fixture(scope="module", params=["ntk", "lora"])
def tuned(tmp_path_factory, request):
    folder = tmp_path_factory.mktemp("llama")
    save_llama(folder)
    rows = [{"prompt": "the cat", "completion": "sleeps"}, {"prompt": "sleeps dog", "completion": "runs"}] * 8
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = TuningRequest(
        str(folder),
        folder / "rows.jsonl",
        folder / "rows.jsonl",
        "causal-lm",
        method=Method(request.param, learning_rate=0.1 if request.param == "ntk" else 0.03),
        training=TrainingSettings(epochs=20, batch=8),
    )
    tune(given, folder / "run")
    return folder / "run"


def test_a_chat_goes_on_from_what_was_said(tuned):
    chat = TunedChat.load(tuned)
    chat.tuned.tokenizer.chat_template = TEMPLATE
    assert chat.say("the cat", 1) == continue_text(tuned, "the cat", 1) == "sleeps"
    assert chat.say("dog", 1) == continue_text(tuned, "the cat sleeps dog", 1)
    assert [turn["role"] for turn in chat.turns] == ["user", "assistant"] * 2


def test_without_a_template_turns_are_lines(tuned):
    chat = TunedChat.load(tuned)
    assert chat.tuned.tokenizer.chat_template is None
    chat.say("the cat", 1)
    asked = chat.tuned.tokenizer.decode(chat._asked()["input_ids"][0])
    assert "the cat" in asked


def test_a_pipeline_writes_as_we_do(tuned):
    found = load_tuned(tuned).pipeline()("the cat", max_new_tokens=1, do_sample=False)
    assert found[0]["generated_text"].endswith("sleeps")


def test_a_classifier_does_not_chat(tmp_path):
    folder = save_bert(tmp_path / "bert")
    rows = write_rows(folder / "rows.jsonl", 8)
    tune(TuningRequest(str(folder), rows, rows, method=Method("probe")), tmp_path / "run")
    with pytest.raises(AttangentError, match="tuned for classification; use `attangent predict`"):
        TunedChat.load(tmp_path / "run")
    with pytest.raises(AttangentError, match="tuned for classification"):
        continue_text(tmp_path / "run", "the cat", 1, model=str(tmp_path / "another"))  # before it is sought
