"""The commands `compress` and `generate`. Heavy imports wait until one of them runs."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attangent._errors import AttangentError

if TYPE_CHECKING:
    from attangent.compression.fidelity import Report

_REPORT = "report.json"


def compress(
    model: Annotated[str, typer.Option(help="A causal language model: a folder or a hub id.")],
    prompt: Annotated[
        Path, typer.Option(help="The prompt: a text file, or the first messages of a chat (.json).")
    ],
    out: Annotated[Path, typer.Option(help="The folder to write the adapter and its report to.")],
    size: Annotated[int, typer.Option(help="Virtual tokens for each layer and KV head.")] = 64,
    method: Annotated[str, typer.Option(help="anchors, or a rival: select, merge, elu.")] = "anchors",
    tolerance: Annotated[
        float | None,
        typer.Option(help="The smallest size whose KL ratio is at most this; replaces --size."),
    ] = None,
    distill: Annotated[int, typer.Option(help="Steps of training after the closed form.")] = 0,
    ask: Annotated[
        Path | None, typer.Option(help="Questions, one a line; after a tab, words the answer should have.")
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(help="Texts to fit on, one a line; by default the model writes its own."),
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Take a text file as it is, not as the system message of a chat.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of all random draws.")] = 0,
    json_: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but warnings and errors.")] = False,
) -> None:
    """Turn a long prompt into an adapter of constant size, and say how much of its effect was kept.

    A distillation that was cut off goes on where it stopped when the same command is given again.
    """
    text = _read(prompt)
    questions = _questions(ask)
    given = None if calibration is None else _lines(calibration)
    _check_out(out)
    from attangent.compression.compressor import check_method

    check_method(method, distill)
    network, tokenizer = _load(model)
    from attangent.compression.run import compress_to_folder

    with _Bars(quiet or json_) as bars:
        report = compress_to_folder(
            network,
            tokenizer,
            _prompt(text, prompt, tokenizer, plain),
            out,
            size=size,
            method=method,
            tolerance=tolerance,
            distill=distill,
            questions=questions,
            calibration=given,
            seed=seed,
            told=bars.tell,
        )
    _tell(report, out, json_, quiet)


def generate(
    text: Annotated[str, typer.Argument(help="What is asked behind the prompt.")],
    model: Annotated[str, typer.Option(help="The model of the compressed prompt: a folder or a hub id.")],
    adapter: Annotated[Path, typer.Option(help="A folder that `attangent compress` wrote.")],
    tokens: Annotated[int, typer.Option(help="At most so many new tokens.")] = 64,
    temperature: Annotated[
        float, typer.Option(help="0 takes the likeliest tokens; above, tokens are drawn.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 0,
) -> None:
    """Answer behind a compressed prompt, at the cost of no prompt."""
    if tokens < 1 or temperature < 0:
        raise AttangentError(
            f"tokens is {tokens} and temperature {temperature}, expected at least 1 and at least 0"
        )
    from attangent.tuning.folders.tuned import is_tuned

    if is_tuned(adapter):
        from attangent.tuning.folders.generating import continue_text

        typer.echo(continue_text(adapter, text, tokens, temperature, seed, model))
        return
    network, tokenizer = _load(model)
    from attangent.compression.result import load_compressed
    from attangent.compression.run import answer_behind

    reader = load_compressed(network, tokenizer, adapter)
    typer.echo(answer_behind(network, tokenizer, reader, text, tokens, temperature, seed))


def _tell(report: "Report", out: Path, json_: bool, quiet: bool) -> None:
    if json_:
        typer.echo(json.dumps(report.as_json(), indent=1))
    elif not quiet:
        _print_report(report)
        typer.echo(f"adapter: {out}, report: {out / _REPORT}")
    for warning in report.warnings:
        typer.echo(f"warning: {warning}", err=True)


def _load(model: str) -> tuple[Any, Any]:
    """The model in float32 and its tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(model)
        network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    except (OSError, ValueError) as error:
        first = str(error).strip().splitlines()[0]
        raise AttangentError(
            f"no causal language model with a tokenizer could be loaded from {model}: {first}"
        ) from None
    return network.eval(), tokenizer


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise AttangentError(f"cannot read {path}: {error}") from None


def _prompt(text: str, path: Path, tokenizer: Any, plain: bool) -> Any:
    """Chat messages for a .json file and, where the tokenizer knows chats, for text; else the text."""
    if path.suffix == ".json":
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise AttangentError(f"{path} is not JSON: {error}") from None
    chat = getattr(tokenizer, "chat_template", None) and not plain and text.strip()
    return [{"role": "system", "content": text.strip()}] if chat else text


def _questions(path: Path | None) -> list[tuple[str, str | None]]:
    if path is None:
        return []
    parts = [line.partition("\t") for line in _lines(path)]
    return [(question.strip(), expected.strip() or None) for question, _, expected in parts]


def _lines(path: Path) -> list[str]:
    lines = [line for line in _read(path).splitlines() if line.strip()]
    if not lines:
        raise AttangentError(f"{path} is empty, expected one text a line")
    return lines


def _check_out(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise AttangentError(f"cannot write to {out}: it is a file, expected a folder")
    if not out.resolve().parent.is_dir():
        raise AttangentError(f"cannot write {out}: there is no folder {out.resolve().parent}")


class _Bars:
    """One bar a stage on standard error; silent where that is no terminal."""

    def __init__(self, quiet: bool):
        from rich.console import Console
        from rich.progress import Progress

        console = Console(stderr=True)
        self._bars = Progress(console=console, transient=True, disable=quiet or not console.is_terminal)
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> "_Bars":
        self._bars.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bars.stop()

    def tell(self, stage: str, done: int, total: int) -> None:
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(stage, total=total)
        self._bars.update(self._tasks[stage], completed=done, total=total)


def _print_report(report: "Report") -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in ("", "full prompt", "compressed", "no prompt"):
        table.add_column(column, overflow="fold")
    for row in report.rows():
        table.add_row(*(escape(cell) for cell in row))
    Console(width=None if sys.stdout.isatty() else 200).print(table)
