"""The commands `compress`, `generate` and `chat`. Heavy imports wait until one of them runs."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from attangent._core.checks import check_not_negative, check_size, has_words
from attangent._core.errors import AttangentError
from attangent._core.progress import Bars
from attangent.cli.common_options import AsJson, Quiet, Seed
from attangent.cli.output import print_table
from attangent.cli.tuning import check_base

if TYPE_CHECKING:
    from attangent.compression import ChatSession, Report

_REPORT = "report.json"
_MOST_TOKENS = 100_000
GOAL_NOT_MET = 3
"""Exit code if a bound was reached before the goal."""

Model = Annotated[str, typer.Option(help="Causal language model: a folder or a Hub id.")]
ModelOrTuned = Annotated[
    str | None,
    typer.Option(
        help="Causal language model: a folder or a Hub id.", show_default="that of a tuned model's folder"
    ),
]
Adapter = Annotated[
    Path | None,
    typer.Option(help="Folder that `attangent compress` or `tune` wrote; none uses the bare model."),
]


def compress(
    model: Model,
    prompt: Annotated[
        Path, typer.Option(help="Prompt: a text or Markdown file, or the first messages of a chat (.json).")
    ],
    out: Annotated[Path, typer.Option(help="Folder to write the adapter and its report to.")],
    keep: Annotated[
        float, typer.Option(help="Fraction of the answers to keep; 0 takes --size without a search.")
    ] = 0.95,
    size: Annotated[
        int | None,
        typer.Option(help="Maximum average number of virtual tokens per KV head; 64 with --keep 0."),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Stop searching for a better size after this many seconds.")
    ] = None,
    method: Annotated[
        Literal["recall", "plain"] | str,
        typer.Option(help="recall fits each head as it needs; plain suits engines with ordinary KV caches."),
    ] = "recall",
    distill: Annotated[
        int | None,
        typer.Option(
            help="Steps of training when the closed form misses the goal; 0 never trains. By default as many "
            "as the text needs, and none with --keep 0."
        ),
    ] = None,
    ask: Annotated[
        Path | None,
        typer.Option(help="File with a question per line; after a tab, words that the answer should have."),
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(help="File with a text per line to fit on; by default the model writes its own."),
    ] = None,
    export: Annotated[
        Literal["peft"] | None, typer.Option(help="Also write a CARTRIDGE adapter that plain peft loads.")
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Read a text file unchanged, not as the system message of a chat.")
    ] = False,
    seed: Seed = 0,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Turn a long prompt into a small adapter that still answers, and report how many answers were kept.

    Questions are made from the prompt itself. `compress` finds the smallest size that keeps enough of their
    answers. If a bound is reached first, it writes the best result and exits with code 3. The same command
    resumes an interrupted run.
    """
    if seconds is not None and keep == 0:
        raise AttangentError("--seconds limits the search for a size, and --keep 0 does not search")
    content = _read_prompt(prompt)
    if plain and not isinstance(content, str):
        raise AttangentError(f"--plain is for text files, and {prompt} is a chat; leave it out")
    questions = _questions(ask)
    texts = None if calibration is None else _lines(calibration)
    _check_out(out)
    replaces = (out / _REPORT).is_file()
    from attangent.adapters.hub import load_causal_lm
    from attangent.compression import CompressionRequest, compress_to_folder
    from attangent.compression.prompt import as_prompt

    request = CompressionRequest(
        content, keep, size, seconds, method, distill, texts, questions, seed=seed, export=export
    )
    network, tokenizer = load_causal_lm(model)
    request = replace(request, prompt=content if plain else as_prompt(content, tokenizer))
    with Bars(quiet or json_) as bars:
        report = compress_to_folder(network, tokenizer, request, out, bars.show)
    _show(report, model, out, json_, quiet)
    if (report.resumed or replaces) and not (quiet or json_):
        typer.echo(f"{'resumed the run in' if report.resumed else 'replaced the earlier result in'} {out}")
    if report.goal and not report.goal["met"]:
        raise typer.Exit(GOAL_NOT_MET)


def generate(
    text: Annotated[str, typer.Argument(help="Question to a compressed prompt, or text to continue.")],
    model: ModelOrTuned = None,
    adapter: Adapter = None,
    tokens: Annotated[int, typer.Option(help="Maximum number of new tokens.")] = 64,
    temperature: Annotated[
        float, typer.Option(help="0 takes the most likely tokens; above 0, tokens are drawn.")
    ] = 0.0,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the draws, with --temperature.", show_default="0")
    ] = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Generate an answer with a compressed prompt, a tuned model or a bare one."""
    _check_tokens(tokens)
    check_not_negative("temperature", temperature)
    if seed is not None and temperature == 0:
        raise AttangentError(
            "--seed has no effect if no tokens are drawn; pass --temperature above 0 as well"
        )
    if not has_words(text):
        raise AttangentError(f"the text must have words in valid Unicode (got {text!r})")
    network, tokenizer = _load_either(adapter, model)
    from attangent.compression.session import generate_text, plain_ids

    if adapter is None:
        ids = plain_ids(tokenizer, text)
    elif _is_tuned(adapter):
        import torch

        from attangent.tuning.encoding import prompt_ids

        ids = torch.tensor(prompt_ids(text, tokenizer, bool(tokenizer.chat_template)))
    else:
        from attangent.compression import load_compressed

        ids = load_compressed(network, tokenizer, adapter).question(tokenizer, text)
    _print_answer(text, generate_text(network, tokenizer, ids, tokens, temperature, seed or 0), json_)


def chat(
    model: ModelOrTuned = None,
    adapter: Adapter = None,
    tokens: Annotated[int, typer.Option(help="Maximum number of new tokens per answer.")] = 128,
    budget: Annotated[
        int | None,
        typer.Option(
            help="Fold old turns into the state, which grows with them, if the chat exceeds this many tokens."
        ),
    ] = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Chat with a compressed prompt, a tuned model or a bare one; an empty line ends the chat.

    With --json every turn is one line, an object with `asked` and `answer`.
    """
    _check_tokens(tokens)
    session = _session(model, adapter, budget)
    interactive = sys.stdin.isatty() and not json_
    if interactive and not quiet:
        typer.echo("type a question; an empty line ends the chat", err=True)
    while True:
        try:
            text = input("> " if interactive else "")
        except EOFError:
            return
        if not text.strip():
            return
        _print_answer(text, session.say(text, tokens), json_)


def _check_tokens(tokens: int) -> None:
    if check_size("tokens", tokens) > _MOST_TOKENS:
        raise AttangentError(f"tokens must be at most {_MOST_TOKENS:,} (got {tokens:,})")


def _print_answer(text: str, answer: str, json_: bool) -> None:
    typer.echo(json.dumps({"asked": text, "answer": answer}) if json_ else answer)


def _session(model: str | None, adapter: Path | None, budget: int | None) -> "ChatSession":
    if _is_tuned(adapter) and budget is not None:
        raise AttangentError("--budget cannot be used with a tuned model; leave it out")
    network, tokenizer = _load_either(adapter, model)
    from attangent.compression import ChatSession
    from attangent.compression.prompt import BareReader

    if adapter is None or _is_tuned(adapter):
        return ChatSession(network, tokenizer, budget=budget, reader=BareReader())
    return ChatSession.load(network, tokenizer, adapter, budget)


def _is_tuned(adapter: Path | None) -> bool:
    from attangent.tuning.folders.tuned import is_tuned

    return adapter is not None and is_tuned(adapter)


def _load_either(adapter: Path | None, model: str | None) -> tuple[Any, Any]:
    """Load a tuned model, which knows its base, or the bare model."""
    if adapter is not None and _is_tuned(adapter):
        from attangent.tuning.folders.tuned import load_generator

        loaded = load_generator(adapter, model)
        check_base(adapter, model)
        return loaded
    if model is None and adapter is not None and not adapter.exists():
        raise AttangentError(f"there is no {adapter}; pass a folder that `attangent tune` wrote.")
    if model is None:
        raise AttangentError("--model is missing; only a folder that `attangent tune` wrote names its model.")
    from attangent.adapters.hub import load_causal_lm

    return load_causal_lm(model)


def _show(report: "Report", model: str, out: Path, json_: bool, quiet: bool) -> None:
    if json_:
        typer.echo(json.dumps(report.as_json(), indent=1))
    elif not quiet:
        typer.echo(report.headline)
        if report.rough:
            typer.echo(f"warning: {report.rough}", err=True)
        typer.echo(report.course)
        print_table(("", "full prompt", "compressed", "no prompt"), report.rows())
        for line in report.details:
            typer.echo(line)
        typer.echo(f"adapter: {out}, report: {out / _REPORT}")
        if report.export_line:
            typer.echo(f"for {report.export_line}")
        typer.echo(f"next: attangent chat --model {model} --adapter {out}")
    for warning in report.warnings:
        # This one is printed below the facts.
        if json_ or quiet or warning != report.rough:
            typer.echo(f"warning: {warning}", err=True)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise AttangentError(
            f"cannot read {path}: it is not UTF-8 ({error.reason} at byte {error.start}); save it as UTF-8"
        ) from None
    except OSError as error:
        raise AttangentError(f"cannot read {path}: {error}") from None


def _read_prompt(path: Path) -> str | list[dict[str, Any]]:
    """Return the text of a file, or the chat messages of a .json file."""
    text = _read(path)
    if not text.strip():
        raise AttangentError(f"{path} has only blanks, so the prompt is empty; write a text into it")
    if path.suffix != ".json":
        return text
    try:
        messages = json.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError also for numbers with thousands of digits
        raise AttangentError(f"{path} is not JSON that can be read: {error}") from None
    from attangent.compression.prompt import plain_messages

    try:
        return plain_messages(messages)
    except AttangentError as error:
        raise AttangentError(f"{path}: {error}") from None


def _questions(path: Path | None) -> list[tuple[str, str | None]]:
    if path is None:
        return []
    parts = [line.partition("\t") for line in _lines(path)]
    questions = [(question.strip(), expected.strip() or None) for question, _, expected in parts]
    if not all(question for question, _ in questions):
        raise AttangentError(f"{path} has a line without a question; write one before every tab")
    return questions


def _lines(path: Path) -> list[str]:
    lines = [line for line in _read(path).splitlines() if line.strip()]
    if not lines:
        raise AttangentError(f"{path} is empty; write one text per line")
    return lines


def _check_out(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise AttangentError(f"cannot write to {out}: it is a file; pass a folder")
    if not out.resolve().parent.is_dir():
        raise AttangentError(f"cannot write {out}: there is no folder {out.resolve().parent}")
