"""What all commands have in common: five flags that mean the same everywhere, and how a command is stopped.

A command declares those of the five that change what it does, with the types below. `spoken` adds the rest,
so that a script can give them to any command.
"""

import contextlib
import copy
import functools
import inspect
import io
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from attangent._core.checks import check_size
from attangent._core.cores import available_cores
from attangent._core.errors import AttangentError
from attangent._core.files import check_file, write_whole

INTERRUPTED = 130

COMMON = ("seed", "jobs", "out", "json_", "quiet")
PANEL = "In every command"

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No bars, notes or hints; warnings stay.")]
Seed = Annotated[int, typer.Option(help="Seed of all random draws; the first, where there are several.")]
Jobs = Annotated[int | None, typer.Option(help="How many cores to use at once.")]
Answers = Annotated[
    Path | None, typer.Option(help="Write what would be printed to this file, whole or not at all.")
]
_WRITTEN = ("out", "plot", "report", "figures")
_MODELS = ("model", "adapter", "beside")
_Unused = Annotated[int, typer.Option("--seed", hidden=True, help="Accepted; nothing is drawn here.")]

ALIASES: dict[str, dict[str, str]] = {
    "audit": {"first_seed": "seed"},
    "solve": {"max_new_tokens": "tokens"},
}
"""Flags of earlier versions and what they are called now; they still work and are not shown."""


def spoken(command: Callable[..., None]) -> Callable[..., None]:
    """The command with all five flags and its old names; Ctrl-C ends it with exit code 130."""
    signature = inspect.signature(command, eval_str=True)
    own = dict(signature.parameters)
    added = _added(own)
    aliases = ALIASES.get(command.__name__, {})
    hidden = {old: _alias(old, own[new]) for old, new in aliases.items()}

    @functools.wraps(command)
    def entry(**given: Any) -> None:
        extra = {name: given.pop(name) for name in added}
        for old, new in aliases.items():
            value = given.pop(old)
            given[new] = given[new] if value is None else value
        _check_places(given | extra)
        with _interruptible(), _cores(extra.get("jobs")), _into(extra.get("out")):
            command(**given)

    everything = [*own.values(), *hidden.values(), *added.values()]
    ordered = [_dressed(one) for one in sorted(everything, key=_place)]
    vars(entry)["__signature__"] = inspect.Signature(ordered)
    entry.__annotations__ = {one.name: one.annotation for one in ordered}
    return entry


def _added(own: dict[str, inspect.Parameter]) -> dict[str, inspect.Parameter]:
    kinds = {"out": (Answers, None), "seed": (_Unused, 0), "jobs": (Jobs, None)}
    return {name: _named(name, *kind) for name, kind in kinds.items() if name not in own}


def _place(parameter: inspect.Parameter) -> tuple[bool, int]:
    """Where it stands in the help: what must be given first, the five last and in their order."""
    number = COMMON.index(parameter.name) + 1 if parameter.name in COMMON else 0
    return parameter.default is not inspect.Parameter.empty, number


def _dressed(parameter: inspect.Parameter) -> inspect.Parameter:
    """The parameter as the help shows it: the five in a panel of their own, switches without a type."""
    (kind, *_), info = parameter.annotation.__args__, copy.copy(parameter.annotation.__metadata__[0])
    if parameter.name in COMMON:
        info.rich_help_panel = PANEL
    if kind is bool:
        info.metavar = ""
    return parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[kind, info])


def _alias(old: str, new: inspect.Parameter) -> inspect.Parameter:
    kind = new.annotation.__args__[0] | None
    flag = f"--{old.replace('_', '-')}"
    return _named(old, Annotated[kind, typer.Option(flag, hidden=True)], None)


def _named(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _check_places(given: dict[str, Any]) -> None:
    """Refuse to write where something is read from: it would be overwritten."""
    written = {name: place for name in _WRITTEN if isinstance(place := given.get(name), Path)}
    for name, value in given.items():
        for source in value if isinstance(value, list) else [value]:
            if name in _WRITTEN or not _is_read(name, source):
                continue
            for flag, place in written.items():
                if place.exists() and place.samefile(source):
                    raise AttangentError(
                        f"--{flag} is {place}, which is also what is read, and would be overwritten: "
                        "name another place"
                    )


def _is_read(name: str, value: Any) -> bool:
    """Files, and the folders of models: a run may well go on in the folder it is told to look at."""
    if isinstance(value, Path) and value.is_file():
        return True
    return name in _MODELS and isinstance(value, str | Path) and Path(value).is_dir()


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("stopped; what was finished is kept", err=True)
        raise typer.Exit(INTERRUPTED) from None


@contextlib.contextmanager
def _cores(jobs: int | None) -> Iterator[None]:
    """Numerical libraries use so many threads; they read this when they are first imported.

    Unless told otherwise they get the cores that the process may use: torch itself would take all of the
    machine's, also those that a container does not give.
    """
    before = os.environ.get("OMP_NUM_THREADS")
    if jobs is None and (before is not None or "torch" in sys.modules):
        yield
        return
    if jobs is not None:
        check_size("jobs", jobs)
    os.environ["OMP_NUM_THREADS"] = str(available_cores() if jobs is None else jobs)
    if jobs is not None and "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(jobs)
    try:
        yield
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before


@contextlib.contextmanager
def _into(out: Path | None) -> Iterator[None]:
    """What is printed goes to a file, where one is named; nothing is written where the command fails."""
    if out is None:
        yield
        return
    check_file(out)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        yield
    write_whole(out, printed.getvalue())


def hint(text: str, quiet: bool = False) -> None:
    """What to do next, as the last line."""
    if not quiet:
        typer.echo(f"next: {text}")
