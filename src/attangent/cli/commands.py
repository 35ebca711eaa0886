"""The command line: parses, calls one function, prints. Heavy imports wait until a command needs them."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attangent import __version__
from attangent._errors import AttangentError
from attangent.cli.compression import compress, generate
from attangent.cli.forecasting import diagnose, forecast
from attangent.cli.instruments import spectrum, stages
from attangent.cli.tuning import compare, solve, tune

if TYPE_CHECKING:
    from attangent.audit import Run

app = typer.Typer(
    name="attangent",
    help="Softmax attention seen through its tangent kernel.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line; what a user got wrong is one line on standard error and exit code 2."""
    try:
        app()
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


@app.command()
def audit(
    ids: Annotated[
        list[str] | None, typer.Argument(help="Claim ids or patterns (P2/theorem-4.2, 'P2/lemma-*').")
    ] = None,
    paper: Annotated[str | None, typer.Option(help="Only the claims of this paper (P2).")] = None,
    profile: Annotated[str, typer.Option(help="quick (minutes) or full (hours).")] = "quick",
    seeds: Annotated[int | None, typer.Option(help="Seeds a claim; each claim has its own default.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Checks that run at once; by default one a core.")] = None,
    dask: Annotated[str | None, typer.Option(help="Run on the Dask cluster at this address.")] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder; audit-PROFILE by default.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Compute findings again that are there.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the claims and stop.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar, no table.")] = False,
) -> None:
    """Run the papers' statements as executable claims and write a report.

    A run that was cut off goes on where it stopped. A violated claim is a result, not an error: the exit code
    is 0. It is 1 if a check crashed and 2 if something given cannot be used.
    """
    if list_:
        _print_claims(ids or [], paper, json_)
        return
    from attangent.audit import run

    try:
        found = run(
            ids or [],
            paper=paper,
            profile=profile,
            seeds=seeds,
            jobs=jobs if jobs is not None else os.cpu_count() or 1,
            dask=dask,
            out=out,
            force=force,
            quiet=quiet or json_,
        )
    except KeyboardInterrupt:
        typer.echo("stopped; the same command goes on from here", err=True)
        raise typer.Exit(130) from None
    _tell(found, json_, quiet)
    if found.failures:
        raise typer.Exit(1)


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    out: Annotated[
        Path | None, typer.Option(help="Where to write: a .html or .md file; RUN/report.html by default.")
    ] = None,
) -> None:
    """Render the report of a run again, from its findings."""
    from attangent.audit.report.markdown import write_markdown
    from attangent.audit.report.page import write_report
    from attangent.audit.results import load

    found = load(run)
    for path, reason in found.problems.items():
        typer.echo(f"passed over: {path.name}: {reason}", err=True)
    place = write_markdown(found, out) if out and out.suffix == ".md" else write_report(found, out)
    typer.echo(f"report: {place}")


app.command()(compress)
app.command()(generate)
app.command()(forecast)
app.command()(diagnose)
app.command()(tune)
app.command()(compare)
app.command()(solve)
app.command()(stages)
app.command()(spectrum)


def _print_claims(ids: list[str], paper: str | None, as_json: bool) -> None:
    from attangent.audit.registry import select

    claims = select(ids, paper)
    if as_json:
        rows = [
            {
                "id": claim.id,
                "paper": claim.paper,
                "place": claim.place,
                "title": claim.title,
                "statement": claim.statement,
                "seeds": claim.seeds,
                "settings": {"quick": dict(claim.quick), "full": dict(claim.full)},
            }
            for claim in claims
        ]
        typer.echo(json.dumps(rows, indent=1))
        return
    _print_table(("claim", "place", "title"), [(claim.id, claim.place, claim.title) for claim in claims])


def _tell(found: "Run", as_json: bool, quiet: bool) -> None:
    """Write the report; print what was found, then what was set aside and what crashed."""
    from attangent.audit.report.page import write_report
    from attangent.audit.results import load

    report_path = write_report(load(found.folder))
    if as_json:
        typer.echo(json.dumps({**found.as_json(), "report": str(report_path)}, indent=1))
    elif not quiet:
        _print_run(found, report_path)
    for note in found.problems.values():
        typer.echo(f"set aside: {note}", err=True)
    for failure in found.failures:
        last = failure["traceback"].strip().splitlines()[-1]
        typer.echo(f"crashed: {failure['claim']} seed {failure['seed']}: {last}", err=True)


_STYLES = {"holds": "green", "measured": "cyan", "violated": "red", "open": "yellow"}


def _print_run(found: "Run", report_path: Path) -> None:
    from rich.text import Text

    rows: list[tuple[Any, ...]] = []
    for result in found.results():
        decided = next(
            (c for c in result.deciding.finding.conclusions if c.kept is False and c.claimed), None
        )
        shown = decided or result.deciding.finding.conclusions[0]
        numbers = (
            f"{_number(shown.measured, shown.log10)} {shown.relation} {_number(shown.bound, shown.log10)}"
        )
        verdict = Text(result.verdict.value, style=_STYLES[result.verdict.value])
        rows.append((result.claim, verdict, f"{result.seconds:.1f} s", numbers, shown.name))
    _print_table(("claim", "verdict", "time", "value and bound", "measured"), rows)
    totals = found.as_json()["totals"]
    typer.echo(", ".join(f"{count} {verdict}" for verdict, count in totals.items() if count))
    typer.echo(f"report: {report_path}")


def _number(value: float, log10: bool) -> str:
    return f"10^{value:.1f}" if log10 else f"{value:.3g}"


def _print_table(columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=column != columns[-1])
    for row in rows:
        table.add_row(*(escape(cell) if isinstance(cell, str) else cell for cell in row))
    Console(width=None if sys.stdout.isatty() else 200).print(table)
