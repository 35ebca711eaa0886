"""The command `export`."""

import json

import pytest
from typer.testing import CliRunner

from attangent import AttangentError
from attangent.adapters import hub
from attangent.cli.commands import app
from tests.compression.cases import ChatLetters, tiny_llama
from tests.serving.exports.cases import LlamaStandIn, serving, write_prompt


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_prompt(tmp_path_factory.mktemp("prompts") / "town")


@pytest.fixture
def load(monkeypatch):
    loaded = []

    def load_model(name):
        loaded.append(name)
        return tiny_llama(), ChatLetters()

    monkeypatch.setattr(hub, "load_causal_lm", load_model)
    return loaded


def run(*arguments):
    return CliRunner().invoke(app, ["export", *map(str, arguments)])


def test_vllm_gets_a_folder_and_the_user_a_command(folder, load, tmp_path):
    result = run(folder, "--to", "vllm", "--model", "here", "--out", tmp_path / "vllm", "--name", "guide")
    assert result.exit_code == 0, result.output
    assert load == ["here"]
    assert sorted(path.name for path in (tmp_path / "vllm").iterdir()) == [
        "prefix.json",
        "prefix.safetensors",
    ]
    assert "guide: 48 tokens instead of" in result.output
    assert "vllm serve here --middleware attangent.serving.exports.prefix_names.PrefixNames" in result.output
    assert '"model": "guide"' in result.output


def test_llama_cpp_is_filled_and_asked(folder, load, tmp_path):
    with serving(LlamaStandIn(tmp_path)) as url:
        result = run(folder, "--to", "llama.cpp", "--server", url, "--slots", tmp_path, "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["folder"] == str(folder / "llama.cpp")
    assert report["answers"]["asked"] == 2
    assert (tmp_path / "town.bin").is_file()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--to", "llama.cpp"), "pass --server and --slots"),
        (("--to", "vllm", "--slots", "."), "leave it out"),
        (("--to", "vllm", "--name", "a b"), "must have 1 to 64"),
    ],
)
def test_wrong_options_are_refused_before_the_model_is_loaded(folder, load, options, message):
    result = run(folder, *options)
    assert isinstance(result.exception, AttangentError)
    assert message in str(result.exception)
    assert not load


def test_other_folders_are_refused_before_the_model_is_loaded(load, tmp_path):
    missing = run(tmp_path / "missing", "--to", "vllm")
    assert "there is no folder" in str(missing.exception)
    empty = run(tmp_path, "--to", "vllm")
    assert "pass a folder that `attangent compress` wrote" in str(empty.exception)
    recall = run(write_prompt(tmp_path / "recall", method="recall"), "--to", "vllm")
    assert "compress --method plain" in str(recall.exception)
    assert not load
