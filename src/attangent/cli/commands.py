"""The command line: every family of commands in one app."""

import sys
from typing import Annotated

import typer

from attangent import __version__
from attangent._errors import AttangentError
from attangent._signals import EXIT_CODE, Terminated, ending_on_signals
from attangent.cli.auditing import audit, report
from attangent.cli.compression import compress, generate
from attangent.cli.forecasting import diagnose, forecast
from attangent.cli.tuning import compare, solve, tune

app = typer.Typer(
    name="attangent",
    help="Softmax attention seen through its tangent kernel.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line; what a user got wrong is one line on standard error and exit code 2.

    SIGTERM and SIGHUP end it in good order, with exit code 143.
    """
    try:
        with ending_on_signals():
            app()
    except Terminated:
        typer.echo("ended on request; what was finished is kept", err=True)
        sys.exit(EXIT_CODE)
    except AttangentError as error:
        typer.echo(f"attangent: {error}", err=True)
        sys.exit(2)


def _version(shown: bool) -> None:
    if shown:
        typer.echo(f"attangent {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Softmax attention seen through its tangent kernel: audit the papers' claims."""


app.command()(audit)
app.command()(report)
app.command()(compress)
app.command()(generate)
app.command()(forecast)
app.command()(diagnose)
app.command()(tune)
app.command()(compare)
app.command()(solve)
