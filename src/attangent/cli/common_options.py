"""Options that mean the same in every command, and the wrapper that every command runs in."""

import contextlib
import copy
import functools
import inspect
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import OptionInfo

from attangent._core.checks import check_size
from attangent._core.errors import AttangentError
from attangent._core.files import check_file, write_whole

INTERRUPTED = 130
"""Exit code after Ctrl-C."""

COMMON = ("seed", "jobs", "out", "json_", "quiet")
PANEL = "Common options"

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Hide progress bars, notes and hints, not warnings.")]
Seed = Annotated[int, typer.Option(help="Seed of all random draws; the first one if there are several.")]
Jobs = Annotated[
    int | None, typer.Option(help="Number of cores to use.", show_default="all that this process may use")
]
Answers = Annotated[Path | None, typer.Option(help="Write the output to this file instead of printing it.")]
_SILENT = {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
_WRITTEN = ("out", "plot", "report", "figures", "fitted", "contributions")
_MODELS = ("model", "adapter", "beside")
_MODEL_FILES = (".json", ".safetensors", ".bin", ".model", ".jinja", ".txt", ".gguf")

_METAVARS = {int: "N", float: "X", Path: "PATH", str: "TEXT"}

ALIASES: dict[str, dict[str, str]] = {"audit": {"first_seed": "seed"}}
"""New names of earlier options by command; the old ones are hidden and still work."""
HIDDEN: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("chat", "evaluate", "export", "predict"), ("jobs",)),
    "generate": ("jobs", "out"),
    "stages": ("out",),
}
"""Common options that work and are not shown, by command: OMP_NUM_THREADS and the shell's > do the same."""


def spoken(
    command: Callable[..., None], *, threads: bool = False, answers: bool = False
) -> Callable[..., None]:
    """Return the command with its common options and old option names; Ctrl-C exits with code 130.

    Args:
        command: A function whose parameters are typer arguments and options.
        threads: Add `--jobs`, the number of threads of numerical libraries.
        answers: Add `--out`, a file for the output.
    """
    parameters = dict(inspect.signature(command, eval_str=True).parameters)
    added = [_parameter("jobs", Jobs)] * threads + [_parameter("out", Answers)] * answers
    aliases = ALIASES.get(command.__name__, {})
    hidden = [_alias(old, parameters[new]) for old, new in aliases.items()]

    @functools.wraps(command)
    def entry(**values: Any) -> None:
        _check_overwriting(values)
        jobs = values.pop("jobs") if threads else None
        out = values.pop("out") if answers else None
        for old, new in aliases.items():
            value = values.pop(old)
            values[new] = values[new] if value is None else value
        silent = bool(values.get("quiet") or values.get("json_"))
        try:
            with _limited_threads(jobs), _silent_libraries(silent), _into(out):
                command(**values)
        except KeyboardInterrupt:
            typer.echo("stopped; finished results are saved", err=True)
            raise typer.Exit(INTERRUPTED) from None

    unseen = HIDDEN.get(command.__name__, ())
    ordered = [_styled(each, unseen) for each in sorted([*parameters.values(), *hidden, *added], key=_rank)]
    vars(entry)["__signature__"] = inspect.Signature(ordered)
    entry.__annotations__ = {each.name: each.annotation for each in ordered}
    # the help would keep the line breaks of the docstring
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    entry.__doc__ = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    return entry


def _parameter(name: str, kind: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)


def _alias(old: str, new: inspect.Parameter) -> inspect.Parameter:
    kind = new.annotation.__args__[0] | None
    return _parameter(old, Annotated[kind, typer.Option(f"--{old.replace('_', '-')}", hidden=True)])


def _rank(parameter: inspect.Parameter) -> tuple[bool, int]:
    """Sort required parameters first and common options last."""
    position = COMMON.index(parameter.name) + 1 if parameter.name in COMMON else 0
    return parameter.default is not inspect.Parameter.empty, position


def _styled(parameter: inspect.Parameter, hidden: tuple[str, ...]) -> inspect.Parameter:
    """Put optional common options in their own help panel, show types in one short word, and list choices.

    `Literal[...] | str` is an open choice: other names may come from installed packages.
    """
    kind = parameter.annotation.__args__[0]
    info = copy.copy(parameter.annotation.__metadata__[0])
    if parameter.name in COMMON and parameter.default is not inspect.Parameter.empty:
        info.rich_help_panel = PANEL
    if parameter.name in hidden:
        info.hidden = True
    inner, *others = (each for each in _members(kind) if each is not type(None))
    choices = get_args(inner)
    ending = ""
    if str in others:
        ending = ", or one from an installed package"
        info.autocompletion = lambda incomplete: [name for name in choices if name.startswith(incomplete)]
        kind = str | None if type(None) in get_args(kind) else str
    if len(choices) > 1 and (ending or any(choice not in (info.help or "") for choice in choices)):
        info.help = f"{info.help} One of {', '.join(choices)}{ending}."
    if isinstance(info, OptionInfo):
        info.metavar = info.metavar or _METAVARS.get(inner, "NAME")
    return parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[kind, info])


def _members(kind: Any) -> tuple[Any, ...]:
    """Return the types inside `X | None` or `list[X]`, or the type itself."""
    if get_origin(kind) in (list, UnionType, Union):
        return tuple(inner for each in get_args(kind) for inner in _members(each))
    return (kind,)


class _ShortHelp:
    """A typer command whose help shows no types of switches and arguments, and defaults as worded."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters = super().get_params(ctx)  # pyright: ignore[reportAttributeAccessIssue]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
            if parameter.param_type_name == "argument":
                parameter.display_type_rich = lambda ctx: None
            default = getattr(parameter, "show_default", None)
            if isinstance(default, str):  # typer would put it in parentheses
                parameter._get_default_string = lambda text=default, **_: text
        return parameters


class ShortHelpCommand(_ShortHelp, TyperCommand):
    """A command with short help."""


class ShortHelpGroup(_ShortHelp, TyperGroup):
    """A group of commands with short help."""


def _check_overwriting(values: dict[str, Any]) -> None:
    """Check that no output path is also an input, a file of the model, or another output."""
    written = {name: path for name in _WRITTEN if isinstance(path := values.get(name), Path)}
    options: dict[Path, str] = {}
    for name, path in written.items():
        other = options.setdefault(path.resolve(), name)
        if other != name:
            raise AttangentError(f"--{other} and --{name} both write to {path}: choose two paths")
    for name, value in values.items():
        for source in value if isinstance(value, list) else [value]:
            if name in _WRITTEN or not _is_input(name, source):
                continue
            for flag, path in written.items():
                if path.exists() and (path.samefile(source) or _is_in_model(path, Path(source))):
                    raise AttangentError(
                        f"--{flag} is {path}, which is also an input and would be overwritten: "
                        "choose another path"
                    )


def _is_in_model(path: Path, folder: Path) -> bool:
    """Return whether a path is a file that a model in `folder` may consist of."""
    inside = folder.is_dir() and path.resolve().is_relative_to(folder.resolve())
    return inside and path.is_file() and path.suffix.lower() in _MODEL_FILES


def _is_input(name: str, value: Any) -> bool:
    """Return whether a value is a file, or the folder of a model; other folders may be resumed in place."""
    if isinstance(value, Path) and value.is_file():
        return True
    return name in _MODELS and isinstance(value, str | Path) and Path(value).is_dir()


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Set environment variables, and restore them afterwards."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _limited_threads(jobs: int | None) -> Iterator[None]:
    """Limit numerical libraries to `jobs` threads, by default to the cores that this process may use.

    Left alone, torch would start one thread per core of the machine, also in a container with fewer.
    """
    if jobs is None and ("OMP_NUM_THREADS" in os.environ or "torch" in sys.modules):
        yield
        return
    from joblib import cpu_count
    from threadpoolctl import threadpool_limits

    count = cpu_count() if jobs is None else check_size("jobs", jobs)
    if jobs is not None and "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(jobs)
    # the variable is for libraries that are loaded from here on
    with _environment({"OMP_NUM_THREADS": str(count)}), threadpool_limits(count):
        yield


@contextlib.contextmanager
def _silent_libraries(silent: bool) -> Iterator[None]:
    """Hide progress bars and warnings of transformers and its libraries; those of attangent are shown.

    Environment variables reach them if they are loaded later, so that commands without a model stay fast.
    """
    if not silent:
        yield
        return
    logging = sys.modules.get("transformers.utils.logging")
    level = None if logging is None else logging.get_verbosity()
    bars = logging is not None and logging.is_progress_bar_enabled()
    if logging is not None:
        logging.set_verbosity_error()
        logging.disable_progress_bar()
    try:
        with _environment(_SILENT), warnings.catch_warnings():
            for library in ("transformers", "huggingface_hub", "peft", "accelerate"):
                warnings.filterwarnings("ignore", module=rf"{library}(\.|$)")
            yield
    finally:
        if logging is not None:
            logging.set_verbosity(level)
            if bars:
                logging.enable_progress_bar()


@contextlib.contextmanager
def _into(out: Path | None) -> Iterator[None]:
    """Write printed text to a file instead; nothing is written if the command fails."""
    if out is None:
        yield
        return
    check_file(out)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        yield
    write_whole(out, printed.getvalue())
