"""Every command with a line that should be answered: what the fuzzer of commands starts from."""

from functools import cache
from pathlib import Path
from typing import Any

import typer.main

from chaos.jobs import made, prompt, rows, series, small_decoder, small_encoder

_SERIES = 20


@cache
def commands() -> dict[str, Any]:
    """Every command by its words, also those within a group: `data list`."""
    from attangent.cli import app

    found: dict[str, Any] = {}
    group: Any = typer.main.get_command(app)
    for name, command in sorted(group.commands.items()):
        below = getattr(command, "commands", None)
        found |= {f"{name} {inner}": one for inner, one in below.items()} if below else {name: command}
    return found


@cache
def lines() -> dict[str, list[str]]:
    """Return the arguments of a valid call of each command."""
    data, encoder, decoder, table = str(rows()), small_encoder(), small_decoder(), str(series(_SERIES))
    return {
        "audit": ["P2/claim-3.4", "--seeds", "1", "--out", "audit", "--quiet"],
        "report": ["audit"],
        "new-claims": ["MyPaper", "--out", "claims"],
        "tune": ["--model", encoder, "--train", data, "--out", "tuned", "--method", "head", "--epochs", "1"],
        "predict": [data, "--adapter", "tuned/seed-0"],
        "compress": [
            *("--model", decoder, "--prompt", str(prompt()), "--out", "compressed"),
            *("--size", "8", "--keep", "0", "--plain"),
        ],
        "generate": ["the cat", "--model", decoder, "--adapter", "compressed", "--tokens", "4"],
        "chat": ["--model", decoder, "--adapter", "compressed", "--tokens", "4"],
        "export": ["compressed", "--to", "vllm", "--out", "exported"],
        "serve": ["--model", decoder, "--port", "0", "--store", "store"],
        "demo": ["forecast", "--out", "demo"],
        "forecast": [
            *(table, "--horizon", "2", "--out", "f.csv"),
            *("--id", "unique_id", "--model", "theta"),
        ],
        "evaluate": [table, "--horizon", "2", "--id", "unique_id"],
        "stages": [str(_metrics())],
        "spectrum": [decoder],
        "doctor": [],
        "data list": [],
        "data add": ["inputs"],
        "data get": ["ett"],
    }


BEFORE = ("audit", "tune", "compress")
"""Commands whose results others start from; they come first."""


def _metrics() -> Path:
    path = made("data") / "metrics.csv"
    path.write_text("\n".join(["step,loss", *(f"{step},{1 / (1 + step)}" for step in range(60))]))
    return path
