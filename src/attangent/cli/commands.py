"""The command line: every family of commands in one app."""

import contextlib
import sys
import warnings
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from attangent import __version__
from attangent._core.errors import AttangentError, in_words
from attangent._core.files import is_failed_write
from attangent._core.signals import EXIT_CODE, Terminated, ending_on_signals
from attangent.cli import data
from attangent.cli.auditing import audit, report
from attangent.cli.common_options import spoken
from attangent.cli.compression import chat, compress, generate
from attangent.cli.doctor import doctor
from attangent.cli.evaluation import diagnose, evaluate
from attangent.cli.forecasting import forecast
from attangent.cli.inspection import spectrum, stages
from attangent.cli.tuning import predict, tune

app = typer.Typer(
    name="attangent",
    help="Softmax attention seen through its tangent kernel.",
    epilog="attangent COMMAND --help says what a command takes; docs/cli.md has exit codes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line; what a user got wrong is one line on standard error and exit code 2.

    SIGTERM and SIGHUP end it in good order, with exit code 143.
    """
    try:
        with ending_on_signals(), _warnings_on_one_line():
            app(prog_name="attangent")
    except Terminated:
        typer.echo("ended on request; what was finished is kept", err=True)
        sys.exit(EXIT_CODE)
    except AttangentError as error:
        typer.echo(f"attangent: {error}", err=True)
        sys.exit(2)
    except ModuleNotFoundError as error:
        _name_extra(error)
    except BrokenPipeError:
        raise
    except OSError as error:
        typer.echo(f"attangent: {in_words(error)}", err=True)
        sys.exit(2)
    except MemoryError as error:
        typer.echo(f"attangent: there is not enough memory: {error or 'ask for less at a time'}", err=True)
        sys.exit(2)
    except Exception as error:
        if not is_failed_write(error):
            raise
        typer.echo(f"attangent: cannot write: {error}; free some room or name another place", err=True)
        sys.exit(2)


@contextlib.contextmanager
def _warnings_on_one_line() -> Iterator[None]:
    """Show a warning of this package as a line, without the place in its code."""
    with warnings.catch_warnings():
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **named: Any) -> None:
            if category.__module__.partition(".")[0] == "attangent":
                typer.echo(f"warning: {message}", err=True)
            else:
                others(message, category, *place, **named)

        warnings.showwarning = show
        yield


def _name_extra(error: ModuleNotFoundError) -> None:
    """Say which extra brings a package that is not here; what no extra brings is a defect and is raised."""
    from attangent.cli.environment import extra_with

    package = (error.name or "").partition(".")[0]
    extra = extra_with(package)
    if extra is None:
        raise error
    typer.echo(
        f"attangent: this needs {package}, which is not here: pip install 'attangent[{extra}]'", err=True
    )
    sys.exit(2)


def _version(shown: bool) -> None:
    if shown:
        typer.echo(f"attangent {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_version, is_eager=True, metavar=""),
    ] = False,
) -> None:
    """Softmax attention seen through its tangent kernel: tune, predict, audit."""


for job, commands in {
    "Audit the papers": (audit, report),
    "Tune a model": (tune, predict),
    "Compress a prompt": (compress, generate, chat),
    "Forecast": (forecast, evaluate, diagnose),
    "Look inside": (stages, spectrum, doctor),
}.items():
    for command in commands:
        app.command(rich_help_panel=job)(spoken(command))

data_app = typer.Typer(no_args_is_help=True, help="Data sets: what there is, where it is, what is missing.")
app.add_typer(data_app, name="data", rich_help_panel="Look inside")
for name, command in {
    "list": data.list_,
    "path": data.path,
    "check": data.check,
    "add": data.add,
    "get": data.get,
}.items():
    data_app.command(name)(spoken(command))
