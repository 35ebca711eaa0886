"""The commands under test, each at a size of seconds, with what has to be equal at the end."""

import json
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

NAMES = ("audit", "tune", "compress", "forecast")
CLAIMS = ("P2/claim-3.4", "P2/definition-3.7", "P2/lemma-b.1", "P2/appendix-f-features", "P2/lemma-e.1")
_SERIES = 300
_PASSING = ("seconds", "memory", "megabytes", "time", "path", "runtime", "per_second")
"""What differs from run to run, by parts of its name."""


class Job(NamedTuple):
    """A command line but for the place of its results, and a reader of what has to be equal."""

    arguments: tuple[str, ...]
    out: str
    results: Callable[[Path], Any]

    def command(self, folder: Path) -> list[str]:
        return [sys.executable, "-m", "attangent", *self.arguments, "--out", str(folder / self.out)]


def jobs(names: Sequence[str] = NAMES) -> dict[str, Job]:
    """Every command that keeps what was finished, by name; or those that are named."""
    every = {
        "audit": Job(("audit", *CLAIMS, "--seeds", "4", "--quiet"), "run", _findings),
        "tune": Job(
            (
                *("tune", "--model", small_encoder(), "--train", str(rows()), "--config", str(settings())),
                *("--epochs", "6", "--batch", "4"),
            ),
            "run",
            _tuned,
        ),
        "compress": Job(
            (
                *("compress", "--model", small_decoder(), "--prompt", str(prompt()), "--plain"),
                *("--size", "8", "--keep", "0", "--distill", "12"),
            ),
            "run",
            _adapter,
        ),
        "forecast": Job(("forecast", str(series()), "--horizon", "3", "--id", "unique_id"), "run.csv", _csv),
    }
    return {name: every[name] for name in names}


@cache
def small_encoder() -> str:
    from tests.adapters.tiny import save_bert

    return str(save_bert(made("encoder")))


@cache
def small_decoder() -> str:
    from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

    from tests.adapters.tiny import save_llama

    folder = save_llama(made("decoder"))
    before = AutoModelForCausalLM.from_pretrained(folder).config.to_dict()
    config = LlamaConfig(**{**before, "max_position_embeddings": 4096})
    LlamaForCausalLM(config).save_pretrained(folder)
    return str(folder)


@cache
def rows() -> Path:
    from tests.adapters.tiny import write_rows

    return write_rows(made("data") / "rows.jsonl", 60)


@cache
def settings() -> Path:
    path = made("data") / "tune.toml"
    path.write_text("[training]\ncheckpoint_steps = 10\n")
    return path


@cache
def prompt() -> Path:
    path = made("data") / "prompt.txt"
    path.write_text("the old cat sleeps . a new dog runs . the sea is blue . the sun is red . " * 4)
    return path


@cache
def series(count: int = _SERIES) -> Path:
    import pandas as pd

    from chaos.instances import panel

    path = made("data") / (f"series-{count}.csv")
    frames = [panel().assign(unique_id=f"s{n}", y=panel().y * (1 + n) + n) for n in range(count)]
    pd.concat(frames).to_csv(path, index=False)
    return path


def made(name: str) -> Path:
    """A folder for inputs below the one that is worked in."""
    folder = Path.cwd() / "inputs" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _findings(out: Path) -> Any:
    from attangent.audit import load

    return {record.origin.stem: record.content() for record in load(out).records}


def _tuned(out: Path) -> Any:
    weights = {str(path.relative_to(out)): path.read_bytes() for path in _last(out, "*.safetensors")}
    metrics = {path.name: _lasting(json.loads(path.read_text())) for path in _last(out, "metrics*.json")}
    return weights, metrics


def _last(out: Path, pattern: str) -> list[Path]:
    return sorted(path for path in out.rglob(pattern) if "checkpoint" not in str(path.relative_to(out)))


def _adapter(out: Path) -> Any:
    return {path.name: path.read_bytes() for path in out.glob("*.safetensors")}


def _csv(out: Path) -> Any:
    return out.read_bytes()


def _lasting(content: Any) -> Any:
    """The content without what differs from run to run."""
    if isinstance(content, dict):
        kept = {name: part for name, part in content.items() if not any(word in name for word in _PASSING)}
        return {name: _lasting(part) for name, part in kept.items()}
    return [_lasting(part) for part in content] if isinstance(content, list) else content
