"""The command line: the app with every command, and `main` with its exit codes."""

import contextlib
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

from attangent import __version__
from attangent._core.errors import AttangentError, describe_os_error
from attangent._core.files import is_failed_write
from attangent.cli import data
from attangent.cli.auditing import audit, new_claims, report
from attangent.cli.common_options import ShortHelpCommand, ShortHelpGroup, spoken
from attangent.cli.compression import chat, compress, generate
from attangent.cli.data import demo
from attangent.cli.evaluation import evaluate
from attangent.cli.forecasting import forecast
from attangent.cli.inspection import doctor, extra_with, spectrum, stages
from attangent.cli.serving import export, serve
from attangent.cli.tuning import predict, tune

TERMINATED = 143
"""Exit code after SIGTERM, as shells show it."""
_OUT_OF_MEMORY = ("allocate memory", "unable to allocate", "out of memory")
_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]

app = typer.Typer(
    name="attangent",
    cls=ShortHelpGroup,
    help="Compress prompts, tune models, forecast series, and audit attention theory.",
    epilog="Run attangent COMMAND --help for the options of a command; docs/cli.md lists exit codes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line; a user's mistake prints one line to standard error and exits with code 2.

    SIGTERM and SIGHUP close files, end workers and exit with code 143.
    """
    try:
        with ending_on_signals(), _warnings_on_one_line():
            app(prog_name="attangent")
    except Terminated:
        typer.echo("terminated; finished results are saved", err=True)
        sys.exit(TERMINATED)
    except AttangentError as error:
        _exit(str(error))
    except ModuleNotFoundError as error:
        _name_extra(error)
    except BrokenPipeError:
        raise
    except OSError as error:
        _exit(describe_os_error(error))
    except Exception as error:
        if is_failed_write(error):
            _exit(f"cannot write: {error}; free disk space or choose another location")
        if not _is_out_of_memory(error):
            raise
        _exit(f"there is not enough memory: {error or 'no details'}; use smaller sizes or less data")


class Terminated(BaseException):
    """Raised when the system asks the process to end; not an Exception, so that no handler swallows it."""


@contextlib.contextmanager
def ending_on_signals() -> Iterator[None]:
    """Raise `Terminated` in the main thread on SIGTERM and SIGHUP; other threads change nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _terminate) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _terminate(number: int, frame: FrameType | None) -> None:
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)  # a second signal must not interrupt the cleanup
    threading.excepthook = lambda failure: None  # threads of pools fail while these are shut down
    raise Terminated(signal.Signals(number).name)


@contextlib.contextmanager
def _warnings_on_one_line() -> Iterator[None]:
    """Show each of this package's warnings once, as one line without a source line."""
    with warnings.catch_warnings():
        show_other = warnings.showwarning
        shown: set[str] = set()

        def show(message: Warning | str, category: type[Warning], *args: Any, **named: Any) -> None:
            if category.__module__.partition(".")[0] != "attangent":
                show_other(message, category, *args, **named)
            elif str(message) not in shown:
                shown.add(str(message))
                typer.echo(f"warning: {message}", err=True)

        warnings.showwarning = show
        yield


def _is_out_of_memory(error: Exception) -> bool:
    """Return whether an allocator failed; torch raises RuntimeError then."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or any(words in text for words in _OUT_OF_MEMORY)


def _exit(message: str) -> NoReturn:
    typer.echo(f"attangent: {message}", err=True)
    sys.exit(2)


def _name_extra(error: ModuleNotFoundError) -> NoReturn:
    """Name the extra that installs a missing package; if there is none, it is a defect: raise the error."""
    package = (error.name or "").partition(".")[0]
    extra = extra_with(package)
    if extra is None:
        raise error
    _exit(f"this needs {package}, which is not installed: pip install 'attangent[{extra}]'")


def _version(shown: bool) -> None:
    if shown:
        typer.echo(f"attangent {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    """Compress prompts, tune models, forecast series, and audit attention theory."""


EXAMPLES = {
    "audit": "attangent audit 'P2/lemma-*' --seeds 5",
    "report": "attangent report audit-quick --out report.html",
    "new-claims": "attangent new-claims MyPaper",
    "tune": "attangent tune --model sentence-transformers/all-MiniLM-L6-v2 --train messages.csv --out run",
    "predict": "attangent predict --adapter run new.csv --out answers.csv",
    "compress": "attangent compress --model MODEL --prompt handbook.txt --out handbook",
    "generate": "attangent generate --model MODEL --adapter handbook 'Who signs the lease?'",
    "chat": "attangent chat --model MODEL --adapter handbook",
    "serve": "attangent serve --model MODEL --prefix handbook=handbook",
    "export": "attangent export handbook --to llama.cpp --out slot",
    "forecast": "attangent forecast sales.csv --id shop --date day --target sold --horizon 14",
    "evaluate": "attangent evaluate sales.csv --id shop --date day --target sold --horizon 14",
    "stages": "attangent stages metrics.csv --plot stages.png",
    "spectrum": "attangent spectrum MODEL --plot spectra.png",
    "demo": "attangent demo forecast",
}
"""One command line per command, shown at the end of its help."""

_WITH_THREADS = (tune, predict, compress, generate, chat, serve, export, evaluate, spectrum)
_WITH_ANSWERS = (generate, stages, spectrum)
_DEPRECATED = (spectrum, data.add)
"""`attangent.stages.spectrum` in Python, and ATTANGENT_DATA or `data get --out`, do the same."""

for panel, commands in {
    "Compress a prompt": (compress, generate, chat, serve, export),
    "Tune a model": (tune, predict),
    "Forecast": (forecast, evaluate),
    "Audit papers": (audit, report, new_claims),
    "Inspect": (stages, spectrum, doctor, demo),
}.items():
    for command in commands:
        wrapped = spoken(command, threads=command in _WITH_THREADS, answers=command in _WITH_ANSWERS)
        name = command.__name__.replace("_", "-")
        example = f"Example: {EXAMPLES[name]}" if name in EXAMPLES else None
        old = command in _DEPRECATED
        app.command(
            name, cls=ShortHelpCommand, rich_help_panel=panel, epilog=example, hidden=old, deprecated=old
        )(wrapped)

data_app = typer.Typer(cls=ShortHelpGroup, no_args_is_help=True, help="List, add and download data sets.")
app.add_typer(data_app, name="data", rich_help_panel="Inspect")
for name, command in {"list": data.list_, "add": data.add, "get": data.get}.items():
    old = command in _DEPRECATED
    data_app.command(name, cls=ShortHelpCommand, hidden=old, deprecated=old)(spoken(command))
