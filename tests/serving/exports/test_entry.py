"""From a compressed prompt to an engine: a server that runs the same model writes transformers' tokens."""

import io
import json
import shutil
from pathlib import Path

import pytest
import torch

from attangent import AttangentError
from attangent._core.files import write_json
from attangent.compression import load_compressed
from attangent.serving.exports import entry
from attangent.serving.exports.engine_prefix import EnginePrefix, Marker, read_prefix
from attangent.serving.exports.entry import (
    ExportRequest,
    LlamaServer,
    VllmServer,
    ask_engine,
    export_prompt,
    read_questions,
)
from attangent.serving.exports.plain import base_model, plain_prefix
from tests.compression.cases import ChatLetters, Letters, tiny_llama
from tests.serving.exports.cases import SIZE, TEXT, LlamaStandIn, greedy, serving, write_prompt


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_prompt(tmp_path_factory.mktemp("prompts") / "town")


def attached_tokens(folder, text, count):
    model = tiny_llama()
    reader = load_compressed(model, ChatLetters(), folder)
    return greedy(model, reader.question(ChatLetters(), text).tolist(), count)


def test_an_engine_writes_what_the_attached_model_writes(folder, tmp_path):
    with serving(LlamaStandIn(tmp_path)) as url:
        request = ExportRequest(folder, "llama.cpp", tmp_path / "out", "town", url, tmp_path)
        export = export_prompt(tiny_llama(), ChatLetters(), request)
        ids = [*export.prefix.marker.ids, *ChatLetters()("<user>who is it?</><assistant>")["input_ids"]]
        answer = LlamaServer(url).complete(ids, 12)
    assert answer == ChatLetters().decode(attached_tokens(folder, "who is it?", 12))
    assert export.answers is not None
    assert export.answers.asked == 2
    stored = json.loads((tmp_path / "out" / "prefix.json").read_text())
    assert stored["answers"] == {"llama.cpp": export.answers._asdict()}
    assert stored["prompt_tokens"] == len(f"<system>{TEXT.strip()}</>") + 1


def test_a_second_prefix_reuses_nothing_of_the_first(folder, tmp_path):
    """Their markers begin alike, but the slot holds the compressed keys and values of the first."""
    stand_in = LlamaStandIn(tmp_path)
    with serving(stand_in) as url:
        for name in ("town", "towns"):
            request = ExportRequest(folder, "llama.cpp", tmp_path / name, name, url, tmp_path)
            export_prompt(tiny_llama(), ChatLetters(), request)
    assert stand_in.reused == [0, 0]


def test_layers_have_the_order_of_the_model(folder, tmp_path):
    """A resumed compression saves them in the order of their names."""
    other = shutil.copytree(folder, tmp_path / "other")
    config = json.loads((other / "adapter_config.json").read_text())
    config["states"] = dict(reversed(config["states"].items()))
    (other / "adapter_config.json").write_text(json.dumps(config))
    prefixes = [plain_prefix(tiny_llama(), ChatLetters(), place, "town") for place in (folder, other)]
    assert len(prefixes[0].layers) > 1
    for one, two in zip(prefixes[0].layers, prefixes[1].layers, strict=True):
        assert torch.equal(one.keys, two.keys)


def test_without_a_server_only_the_folder_is_written(folder, tmp_path):
    request = ExportRequest(folder, "vllm", tmp_path / "out", "town")
    export = export_prompt(tiny_llama(), ChatLetters(), request)
    assert export.answers is None
    assert read_prefix(tmp_path / "out").size == SIZE


def test_a_server_with_another_model_is_refused(folder, tmp_path):
    with serving(LlamaStandIn(tmp_path, tiny_llama(seed=1))) as url:
        request = ExportRequest(folder, "llama.cpp", tmp_path / "out", "town", url, tmp_path)
        with pytest.raises(AttangentError, match="runs another model"):
            export_prompt(tiny_llama(), ChatLetters(), request)


def test_a_server_with_another_slot_folder_is_refused(folder, tmp_path):
    (tmp_path / "other").mkdir()
    with serving(LlamaStandIn(tmp_path)) as url:
        request = ExportRequest(folder, "llama.cpp", tmp_path / "out", "town", url, tmp_path / "other")
        with pytest.raises(AttangentError, match="--slot-save-path"):
            export_prompt(tiny_llama(), ChatLetters(), request)


def test_a_server_that_is_not_there_is_named(folder, tmp_path):
    request = ExportRequest(folder, "vllm", tmp_path / "out", "town", "http://127.0.0.1:9")
    with pytest.raises(AttangentError, match="start the server first"):
        export_prompt(tiny_llama(), ChatLetters(), request)


def test_only_plain_prompts_can_be_exported(tmp_path):
    folder = write_prompt(tmp_path / "town", method="recall")
    with pytest.raises(AttangentError, match="compress --method plain"):
        base_model(folder)
    notes = json.loads((folder / "compressed_prompt.json").read_text())
    write_json(folder / "compressed_prompt.json", {**notes, "method": None})
    with pytest.raises(AttangentError, match="compressed by None"):
        base_model(folder)


def test_another_tokenizer_is_refused(folder):
    with pytest.raises(AttangentError, match="another tokenizer"):
        plain_prefix(tiny_llama(), Letters(127), folder, "town")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "llama.cpp"}, "pass --server and --slots"),
        ({"engine": "llama.cpp", "server": "http://a"}, "pass --server and --slots"),
        ({"engine": "vllm", "slots": Path()}, "leave it out"),
        ({"engine": "llama.cpp", "server": "http://a", "slots": Path("missing")}, "there is no folder"),
        ({"engine": "vllm", "server": "file:///etc/passwd"}, "must be like http"),
        ({"engine": "sglang"}, "expected one of vllm, llama.cpp"),
        ({"engine": "vllm", "name": "a/b"}, "must have 1 to 64"),
    ],
)
def test_requests_that_cannot_be_carried_out_are_refused(folder, tmp_path, options, message):
    with pytest.raises(AttangentError, match=message):
        ExportRequest(**{"folder": folder, "out": tmp_path, "name": "town", **options})


def test_a_report_without_questions_is_refused(folder, tmp_path):
    (tmp_path / "report.json").write_text('{"own": [{"question": "who?"}]}')
    with pytest.raises(AttangentError, match="from an earlier version"):
        ExportRequest(tmp_path, "vllm", tmp_path, "town", "http://127.0.0.1:9")


PREFIX = EnginePrefix("town", Marker([1, 2, 3], []), (), "m", 90)


class Engine:
    """Knows one answer."""

    def __init__(self):
        self.read = []

    def complete(self, ids, tokens):
        self.read.append(ids)
        return "It is Ada Quill." if "mayor" in ChatLetters().decode(ids) else "I do not know."


@pytest.fixture(scope="module")
def prompt(tmp_path_factory):
    return write_prompt(tmp_path_factory.mktemp("prompts") / "town")


@pytest.fixture
def prompt_folder(prompt, tmp_path):
    prompt_folder = shutil.copytree(prompt, tmp_path / "town")
    questions = [
        {"text": "Who is the mayor?", "expected": "Ada Quill", "fact": 0},
        {"text": "Who is the mayor now?", "expected": "Ben Stone", "fact": 1},
        {"text": "Who is the cook?", "expected": "Ada Quill", "fact": 2},
        {"text": "Who is the town's mayor?", "expected": "Ada Quill", "fact": 2},
    ]
    write_json(prompt_folder / "report.json", {"own": [{"asked": question} for question in questions]})
    return prompt_folder


def test_facts_are_counted_and_requests_begin_with_the_marker(prompt_folder):
    engine = Engine()
    done = []
    assert ask_engine(engine.complete, ChatLetters(), PREFIX, prompt_folder, done.append) == (2, 3)
    assert done == [1, 1, 1, 1]
    turn = ChatLetters()("<user>Who is the mayor?</><assistant>")["input_ids"]
    assert engine.read[0] == [1, 2, 3, *turn]


@pytest.mark.parametrize("content", [{}, {"own": 3}, {"own": ["who?"]}])
def test_another_file_is_no_report(prompt_folder, content):
    write_json(prompt_folder / "report.json", content)
    with pytest.raises(AttangentError, match="was not written by"):
        read_questions(prompt_folder)


def test_questions_of_an_earlier_version_are_refused(prompt_folder):
    write_json(prompt_folder / "report.json", {"own": [{"asked": 3}]})
    with pytest.raises(AttangentError, match="from an earlier version"):
        read_questions(prompt_folder)


@pytest.mark.parametrize("answer", [[], 3, {}, {"data": []}, {"data": [3]}])
def test_another_server_is_no_engine(answer, monkeypatch):
    monkeypatch.setattr(entry, "urlopen", lambda *_, **__: io.BytesIO(json.dumps(answer).encode()))
    with pytest.raises(AttangentError, match=r"answers without data\.0\.id"):
        VllmServer("http://127.0.0.1:9").model()
