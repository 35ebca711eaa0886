"""Python files that come with a model never run, also if somebody answers yes on standard input."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from attangent import AttangentError, load_tuned
from attangent.adapters.hub import load_pretrained
from attangent.cli import main
from attangent.stages.singular_values import load_model
from tests.adapters.tiny import save_bert, save_llama, write_rows

_CODE = """
from pathlib import Path
Path({mark!r}).touch()
from transformers import {base}, {config}, PreTrainedTokenizerFast
class EvilConfig({config}):
    model_type = "evil"
class Evil({base}):
    config_class = EvilConfig
class EvilTokenizer(PreTrainedTokenizerFast):
    pass
"""
_CAUSAL = ("LlamaForCausalLM", "LlamaConfig", "AutoModelForCausalLM")
_CLASSES = ("BertForSequenceClassification", "BertConfig", "AutoModelForSequenceClassification")


def _spoil(folder: Path, mark: Path, base: str, config: str, auto: str) -> Path:
    """Let the config and the tokenizer of a saved model name classes in a Python file of the folder."""
    (folder / "evil.py").write_text(_CODE.format(mark=str(mark), base=base, config=config))
    classes = {"AutoConfig": "evil.EvilConfig", auto: "evil.Evil", "AutoModel": "evil.Evil"}
    described = json.loads((folder / "config.json").read_text())
    described |= {"model_type": "evil", "architectures": ["Evil"], "auto_map": classes}
    (folder / "config.json").write_text(json.dumps(described))
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    tokenizer |= {"tokenizer_class": "EvilTokenizer"}
    tokenizer["auto_map"] = {"AutoTokenizer": [None, "evil.EvilTokenizer"]}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evil")
    _spoil(save_llama(folder / "llama"), folder / "ran", *_CAUSAL)
    _spoil(save_bert(folder / "bert"), folder / "ran", *_CLASSES)
    write_rows(folder / "rows.jsonl", 12)
    (folder / "prompt.txt").write_text("The tower was built in 1822.")
    _write_tuned(folder / "adapter", folder / "bert", kind="classification", labels=["no", "yes"])
    _write_tuned(folder / "writer", folder / "llama", kind="causal-lm")
    return folder


def _write_tuned(folder: Path, base: Path, **about: Any) -> None:
    """Write a folder as `attangent tune` does, up to its weights, which are read after the base model."""
    folder.mkdir()
    tuned = {"format": "attangent tuned 1", "base_model": str(base), "method": "lora", **about}
    (folder / "tuned.json").write_text(json.dumps(tuned))
    adapter = {"base_model_name_or_path": str(base), "peft_type": "LORA", "auto_mapping": None}
    (folder / "adapter_config.json").write_text(json.dumps(adapter))


COMMANDS = {
    "tune": "tune --model {0}/bert --train {0}/rows.jsonl --out {0}/run",
    "predict": "predict {0}/rows.jsonl --adapter {0}/adapter",
    "predict from standard input": "predict --adapter {0}/adapter",
    "compress": "compress --model {0}/llama --prompt {0}/prompt.txt --out {0}/small --size 8",
    "generate": "generate Hello --model {0}/llama",
    "generate, tuned": "generate Hello --model {0}/llama --adapter {0}/writer",
    "generate, compressed": "generate Hello --model {0}/llama --adapter {0}/compressed",
    "chat": "chat --model {0}/llama",
    "chat, tuned": "chat --model {0}/llama --adapter {0}/writer",
    "spectrum": "spectrum {0}/llama",
}
LOADERS = {
    "load_tuned": lambda folder: load_tuned(folder / "adapter"),
    "load_model": lambda folder: load_model(folder / "llama"),
    "load_pretrained": lambda folder: load_pretrained(AutoModelForCausalLM, folder / "llama"),
    "tokenizer": lambda folder: load_pretrained(AutoTokenizer, folder / "llama"),
}


@pytest.fixture
def yes(monkeypatch):
    """Answer yes to whatever is asked."""
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 20))


def assert_nothing_ran(place: Path, shown: pytest.CaptureFixture[str]) -> str:
    output, errors = shown.readouterr()
    assert "[y/N]" not in output + errors
    assert not (place / "ran").exists()
    return errors


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_runs_the_code_of_a_model(place, yes, capsys, monkeypatch, command):
    monkeypatch.setattr("sys.argv", ["attangent", *COMMANDS[command].format(place).split()])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "contains custom code" in assert_nothing_ran(place, capsys)


@pytest.mark.parametrize("loader", LOADERS)
def test_no_loader_runs_the_code_of_a_model(place, yes, capsys, loader):
    with pytest.raises((AttangentError, ValueError), match="contains custom code"):
        LOADERS[loader](place)
    assert_nothing_ran(place, capsys)


def test_the_code_would_run_if_it_were_trusted(place, yes, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path))
    monkeypatch.setattr("sys.path", [*sys.path])
    AutoModelForCausalLM.from_pretrained(place / "llama")
    assert "[y/N]" in capsys.readouterr().out
    assert (place / "ran").exists()
    (place / "ran").unlink()


def test_every_load_in_the_source_says_that_code_is_not_trusted():
    """`load_pretrained` does; whoever calls `from_pretrained` says so in the same call or its options."""
    import attangent

    for path in Path(attangent.__file__).parent.rglob("*.py"):
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines):
            calls = ".from_pretrained(" in line and "PeftModel" not in line and "{auto}" not in line
            if calls and ">>>" not in line and '"""' not in line:
                near = "\n".join(lines[max(0, number - 4) : number + 4])
                assert "trust_remote_code" in near, f"{path}:{number + 1}"
