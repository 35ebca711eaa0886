"""Command lines with hostile values: `python -m drill.commands_worker SEED START STOP`."""

import random
import sys
from functools import cache
from pathlib import Path
from typing import Any

import typer.main

from drill.jobs import prompt, rows, series, small_decoder, small_encoder
from drill.serving import Case, serve

VALUES = (
    *("", "x", "-1", "0", "1", "3", "1e300", "nan", "inf", "99999999999999999999", "0.5", "a,b", ","),
    *("../outside", "/outside", "/dev/full", "/proc/self/mem", ".", "no/such/place"),
    *("\udcff", "(a+)+$", "x" * 5000, "{}", "[1]"),
    *("inputs/data/rows.jsonl", "inputs/data/series.csv", "inputs/data/prompt.txt", "inputs/encoder"),
)


@cache
def commands() -> dict[str, Any]:
    from attangent.cli import app

    group: Any = typer.main.get_command(app)
    return dict(sorted(group.commands.items()))


@cache
def _examples() -> dict[str, list[str]]:
    """A command line of every command that should be answered."""
    data, model = str(rows()), small_encoder()
    return {
        "audit": ["P2/claim-3.4", "--seeds", "1", "--out", "audit", "--quiet"],
        "report": ["audit"],
        "tune": ["--model", model, "--train", data, "--out", "tuned", "--method", "head", "--epochs", "1"],
        "predict": ["--help"],
        "compare": [
            *("--model", model, "--train", data, "--eval", data, "--out", "compared"),
            *("--methods", "head", "--seeds", "1", "--epochs", "1"),
        ],
        "compress": [
            *("--model", small_decoder(), "--prompt", str(prompt()), "--out", "compressed"),
            *("--size", "8", "--keep", "0", "--plain"),
        ],
        "forecast": [
            *(str(series()), "--horizon", "2", "--out", "f.csv"),
            *("--id", "unique_id", "--model", "theta"),
        ],
        "evaluate": [str(series()), "--horizon", "2", "--id", "unique_id"],
        "diagnose": [str(_metrics()), "--target", "loss"],
        "stages": [str(_metrics())],
        "spectrum": [small_decoder()],
        "generate": ["--model", small_decoder(), "--prompt", "the cat"],
    }


def _metrics() -> Path:
    path = Path.cwd() / "inputs" / "metrics.csv"
    path.write_text("\n".join(["step,loss", *(f"{step},{1 / (1 + step)}" for step in range(60))]))
    return path


def case(seed: int, index: int) -> Case:
    """A command with one option, or one word, that nobody expects."""
    rng = random.Random(f"{seed}:{index}")
    name = list(commands())[index % len(commands())]
    words = list(_examples().get(name, []))
    options = [p for p in commands()[name].params if p.param_type_name == "option" and p.name != "help"]
    if words and rng.random() < 0.4:
        words[rng.randrange(len(words))] = rng.choice(VALUES)
    elif not options:
        words.append(rng.choice(VALUES))
    else:
        option = rng.choice(options)
        words += [option.opts[0]] if option.is_flag else [option.opts[0], rng.choice(VALUES)]
    return Case(f"attangent {name}", [" ".join(words)[:300]], lambda: _run(name, words), finite=False)


def _run(name: str, words: list[str]) -> None:
    """The whole of `attangent`, with the border that says errors in words; other exceptions come through."""
    from attangent import AttangentError
    from attangent.cli import main

    sys.argv = ["attangent", name, *words]
    try:
        main()
    except SystemExit as error:
        if error.code:
            raise AttangentError(f"exit {error.code}") from None


if __name__ == "__main__":
    serve(case, warm_up=0)
