"""The commands `compress` and `generate`. Heavy imports wait until one of them runs."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attangent._core.checks import check_not_negative, check_size, has_words
from attangent._core.errors import AttangentError, loading
from attangent._core.progress import Bars
from attangent.cli.common_options import AsJson, Quiet, Seed, hint

if TYPE_CHECKING:
    from attangent.compression.report import Report

_REPORT = "report.json"
_MOST_TOKENS = 100_000
GOAL_NOT_MET = 3
"""The exit code where the caps came before the goal."""


def compress(
    model: Annotated[str, typer.Option(help="A causal language model: a folder or a hub id.")],
    prompt: Annotated[
        Path,
        typer.Option(help="The prompt: a text or Markdown file, or the first messages of a chat (.json)."),
    ],
    out: Annotated[Path, typer.Option(help="The folder to write the adapter and its report to.")],
    keep: Annotated[
        float, typer.Option(help="The part of the answers to keep; 0 takes --size as it is.")
    ] = 0.95,
    size: Annotated[
        int | None, typer.Option(help="The most virtual tokens for each KV head, in the mean.")
    ] = None,
    total: Annotated[
        int | None,
        typer.Option(help="The most virtual tokens for each KV head of all pieces of a very long prompt."),
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Look for a better size no longer than this.")] = None,
    method: Annotated[
        str,
        typer.Option(
            help="recall, plain (what other engines can hold), anchors; rivals: select, merge, elu."
        ),
    ] = "recall",
    tolerance: Annotated[
        float | None,
        typer.Option(help="The smallest size whose KL ratio is at most this; replaces --keep and --size."),
    ] = None,
    distill: Annotated[
        int | None,
        typer.Option(
            help="Steps of training where the closed form falls short of the goal: 0 for none, by default as "
            "many as the text needs. With --keep 0 there are none by default."
        ),
    ] = None,
    ask: Annotated[
        Path | None, typer.Option(help="Questions, one per line; after a tab, words the answer should have.")
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(help="Texts to fit on, one per line; by default the model writes its own."),
    ] = None,
    export: Annotated[
        str | None, typer.Option(help="peft: also write a CARTRIDGE adapter that plain peft loads.")
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Take a text file as it is, not as the system message of a chat.")
    ] = False,
    seed: Seed = 0,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Turn a long prompt into a small adapter that still answers, and say how many answers were kept.

    Questions are made from the prompt itself. The smallest size that keeps enough of their answers is looked
    for; where the caps come first, the best is written and the exit code is 3. A run that was cut off goes on
    where it stopped when the same command is given again.
    """
    text = _read(prompt)
    questions = _questions(ask)
    given = None if calibration is None else _lines(calibration)
    _check_out(out)
    from attangent.compression.export import check_export
    from attangent.compression.request import Order

    check_export(export)

    order = Order(keep, size, seconds, method, tolerance, distill, total)
    order.check()
    network, tokenizer = _load(model)
    from attangent.compression.folder import compress_to_folder

    with Bars(quiet or json_) as bars:
        report = compress_to_folder(
            network,
            tokenizer,
            _prompt(text, prompt, tokenizer, plain),
            out,
            order,
            questions=questions,
            calibration=given,
            seed=seed,
            export=export,
            progress=bars.show,
        )
    _show(report, model, out, json_, quiet)
    if report.goal and not report.goal["met"]:
        raise typer.Exit(GOAL_NOT_MET)


def generate(
    text: Annotated[str, typer.Argument(help="What is asked behind the prompt.")],
    model: Annotated[str, typer.Option(help="The model of the compressed prompt: a folder or a hub id.")],
    adapter: Annotated[Path, typer.Option(help="A folder that `attangent compress` or `tune` wrote.")],
    tokens: Annotated[int, typer.Option(help="At most so many new tokens.")] = 64,
    temperature: Annotated[
        float, typer.Option(help="0 takes the likeliest tokens; above, tokens are drawn.")
    ] = 0.0,
    seed: Seed = 0,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Answer behind a compressed prompt, at the cost of no prompt."""
    _check_tokens(tokens)
    check_not_negative("temperature", temperature)
    if not has_words(text):
        raise AttangentError(f"the text is {text!r}, expected something to be asked, in whole letters")
    from attangent.tuning.folders.tuned import is_tuned

    if is_tuned(adapter):
        from attangent.tuning.folders.generating import continue_text

        answer = continue_text(adapter, text, tokens, temperature, seed, model)
    else:
        network, tokenizer = _load(model)
        from attangent.compression.folder import answer_behind
        from attangent.compression.result import load_compressed

        reader = load_compressed(network, tokenizer, adapter)
        answer = answer_behind(network, tokenizer, reader, text, tokens, temperature, seed)
    typer.echo(json.dumps({"asked": text, "answer": answer}) if json_ else answer)


def _check_tokens(tokens: int) -> None:
    if check_size("tokens", tokens) > _MOST_TOKENS:
        raise AttangentError(f"tokens is {tokens:,}, expected at most {_MOST_TOKENS:,}: no answer is as long")


def chat(
    model: Annotated[str, typer.Option(help="The model of the compressed prompt: a folder or a hub id.")],
    adapter: Annotated[Path, typer.Option(help="A folder that `attangent compress` or `tune` wrote.")],
    tokens: Annotated[int, typer.Option(help="At most so many new tokens in an answer.")] = 128,
    budget: Annotated[
        int | None,
        typer.Option(help="Fold old turns into the state when more tokens than this have been said."),
    ] = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Talk behind a compressed prompt, or with a tuned model; an empty line ends it.

    With --json every turn is one line, an object with `asked` and `answer`.
    """
    _check_tokens(tokens)
    session = _session(model, adapter, budget)
    interactive = sys.stdin.isatty() and not json_
    if interactive and not quiet:
        typer.echo("ask; an empty line ends it", err=True)
    while True:
        try:
            text = input("> " if interactive else "")
        except EOFError:
            return
        if not text.strip():
            return
        answer = session.say(text, tokens)
        typer.echo(json.dumps({"asked": text, "answer": answer}) if json_ else answer)


def _session(model: str, adapter: Path, budget: int | None) -> Any:
    """A chat with what `compress` or `tune` wrote."""
    from attangent.compression.session import ChatSession
    from attangent.tuning.folders.tuned import is_tuned

    if not is_tuned(adapter):
        return ChatSession.load(*_load(model), adapter, budget=budget)
    if budget is not None:
        raise AttangentError("--budget is given for a tuned model, which has no state to fold turns into")
    from attangent.tuning.folders.generating import TunedChat

    return TunedChat.load(adapter, model)


def _show(report: "Report", model: str, out: Path, json_: bool, quiet: bool) -> None:
    if json_:
        typer.echo(json.dumps(report.as_json(), indent=1))
    elif not quiet:
        typer.echo(report.headline)
        typer.echo(report.course)
        _print_report(report)
        typer.echo(f"adapter: {out}, report: {out / _REPORT}")
        if report.export_line:
            typer.echo(f"for {report.export_line}")
        hint(f"attangent chat --model {model} --adapter {out}")
    for warning in report.warnings:
        typer.echo(f"warning: {warning}", err=True)


def _load(model: str) -> tuple[Any, Any]:
    """The model in float32 and its tokenizer."""
    from attangent.adapters.hub import check_model_name, load_pretrained

    check_model_name(model)
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    before = logging.get_verbosity()
    logging.set_verbosity_error()  # what is wrong is said below, in one line
    try:
        with loading(f"no causal language model with a tokenizer could be loaded from {model}"):
            tokenizer = load_pretrained(AutoTokenizer, model)
            options: dict[str, Any] = {"dtype": torch.float32, "output_loading_info": True}
            loaded: Any = load_pretrained(AutoModelForCausalLM, model, **options)
            network, about = loaded
    finally:
        logging.set_verbosity(before)
    if about["missing_keys"]:
        raise AttangentError(
            f"{model} holds no causal language model: {sorted(about['missing_keys'])[0]} and "
            f"{len(about['missing_keys']) - 1} more weights are missing; expected a model that writes text, "
            "not an encoder"
        )
    return network.eval().requires_grad_(False), tokenizer


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise AttangentError(
            f"cannot read {path}: it is not UTF-8 ({error.reason} at byte {error.start}); save it as UTF-8"
        ) from None
    except OSError as error:
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
    found = [(question.strip(), expected.strip() or None) for question, _, expected in parts]
    if not all(question for question, _ in found):
        raise AttangentError(f"{path} has a line without a question, expected one in front of every tab")
    return found


def _lines(path: Path) -> list[str]:
    lines = [line for line in _read(path).splitlines() if line.strip()]
    if not lines:
        raise AttangentError(f"{path} is empty, expected one text per line")
    return lines


def _check_out(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise AttangentError(f"cannot write to {out}: it is a file, expected a folder")
    if not out.resolve().parent.is_dir():
        raise AttangentError(f"cannot write {out}: there is no folder {out.resolve().parent}")


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
