"""The commands `audit` and `report`. Heavy imports wait until one of them runs."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attangent._core.errors import AttangentError
from attangent.cli.common_options import INTERRUPTED, AsJson, Quiet, hint

if TYPE_CHECKING:
    from attangent.audit import Result, Run


def audit(
    ids: Annotated[
        list[str] | None, typer.Argument(help="Claim ids or patterns (P2/theorem-4.2, 'P2/lemma-*').")
    ] = None,
    paper: Annotated[str | None, typer.Option(help="Only the claims of this paper (P2).")] = None,
    profile: Annotated[str, typer.Option(help="quick (minutes) or full (hours).")] = "quick",
    seeds: Annotated[
        int | None, typer.Option(help="How many seeds for each claim; every claim has its own default.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="The first seed; 0 by default, 1000 in the full profile.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Checks that run at once; one for each core.")] = None,
    dask: Annotated[str | None, typer.Option(help="Run on the Dask cluster at this address.")] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder; audit-PROFILE by default.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Compute findings again that are there.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the claims and stop.")] = False,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run the papers' statements as executable claims and write a report.

    `attangent audit new MyPaper` writes a package of claims to begin with, to the folder --out.

    A run that was cut off goes on where it stopped. A violated claim is a result, not an error: the exit code
    is 0. It is 1 if a check crashed and 2 if something given cannot be used.
    """
    if ids and ids[0] == "new":
        _write_skeleton(ids[1:], out, json_, quiet)
        return
    if list_:
        _print_claims(ids or [], paper, json_)
        _name_left_out()
        return
    from joblib import cpu_count

    from attangent.audit.running.runner import run_in_folder

    try:
        found, whole = run_in_folder(
            ids or [],
            paper=paper,
            profile=profile,
            seeds=seeds,
            first_seed=seed,
            jobs=jobs if jobs is not None else cpu_count(),
            dask=dask,
            out=out,
            force=force,
            quiet=quiet or json_,
        )
    except KeyboardInterrupt:
        typer.echo("stopped; the same command goes on from here", err=True)
        raise typer.Exit(INTERRUPTED) from None
    _show(found, whole, json_, quiet)
    if found.failures:
        raise typer.Exit(1)


def report(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Where to write: a .html, .md or .csv file; RUN/report.html by default."),
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="Another run: the .md page says where the two come out differently.")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="A folder for the experiments' figures, which the .md page shows.")
    ] = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Render the report of a run again, from its findings."""
    if out is not None and out.suffix.lower() not in (".html", ".htm", ".md", ".csv"):
        raise AttangentError(
            f"the report is to be written to {out}, expected a name ending in .html, .md or .csv; a browser "
            "prints the .html one as PDF"
        )
    for name, given in (("against", against), ("figures", figures)):
        if given is not None and (out is None or out.suffix != ".md"):
            raise AttangentError(
                f"--{name} is given with --out {out}, expected a .md page: --out PAGE.md --{name} {given}"
            )
    from attangent.audit.report.export import write_csv
    from attangent.audit.report.markdown import write_markdown
    from attangent.audit.report.page import write_report
    from attangent.audit.report.pictures import write_pictures
    from attangent.audit.results import load

    found = load(run)
    for path, reason in found.problems.items():
        typer.echo(f"passed over: {path.name}: {reason}", err=True)
    if out and out.suffix == ".md":
        other = None if against is None else load(against)
        place = write_markdown(found, out, other, write_pictures(found, figures) if figures else ())
    else:
        place = write_csv(found, out) if out and out.suffix == ".csv" else write_report(found, out)
    if json_:
        passed_over = {path.name: reason for path, reason in found.problems.items()}
        typer.echo(json.dumps({"report": str(place), "passed_over": passed_over}, indent=1))
    elif not quiet:
        typer.echo(f"report: {place}")
        hint(f"open {place} in a browser" if place.suffix == ".html" else f"read {place}")


def _write_skeleton(names: list[str], out: Path | None, json_: bool, quiet: bool) -> None:
    from attangent.audit.skeleton import write_skeleton

    if len(names) != 1:
        raise AttangentError(f"new is given {len(names)} names, expected one: attangent audit new MyPaper")
    folder = write_skeleton(names[0], out)
    if json_:
        typer.echo(json.dumps({"folder": str(folder)}))
    elif not quiet:
        typer.echo(f"a package of claims: {folder}")
        hint(f"pip install -e {folder}, then attangent audit --paper {names[0]}")


def _name_left_out() -> None:
    from attangent.audit.registry import left_out

    for name, reason in left_out().items():
        typer.echo(f"left out: {name}: {reason}", err=True)


def _print_claims(ids: list[str], paper: str | None, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(_described(ids, paper), indent=1))
        return
    from attangent.audit.listing import outline

    rows = [(entry.id, entry.place, entry.title) for entry in outline(ids, paper)]
    _print_table(("claim", "place", "title"), rows)


def _described(ids: list[str], paper: str | None) -> list[dict[str, Any]]:
    from attangent.audit.registry import select

    return [
        {
            "id": claim.id,
            "paper": claim.paper,
            "place": claim.place,
            "title": claim.title,
            "kind": claim.kind,
            "quote": claim.quote,
            "statement": claim.statement,
            "rests_on": claim.rests_on,
            "repairs": claim.repairs,
            "seeds": claim.seeds,
            "full_seeds": claim.seeds_of("full"),
            "settings": {"quick": dict(claim.quick), "full": dict(claim.full)},
        }
        for claim in select(ids, paper)
    ]


def _show(found: "Run", whole: "Run", as_json: bool, quiet: bool) -> None:
    """Write the report of the whole folder; print what was found, set aside, and what crashed."""
    from attangent.audit.report.page import write_report

    report_path = write_report(whole)
    if as_json:
        typer.echo(json.dumps({**found.as_json(), "report": str(report_path)}, indent=1))
    elif not quiet:
        _print_run(found, report_path)
    _name_left_out()
    for note in found.problems.values():
        typer.echo(f"set aside: {note}", err=True)
    for failure in found.failures:
        last = failure["traceback"].strip().splitlines()[-1]
        typer.echo(f"crashed: {failure['claim']} seed {failure['seed']}: {last}", err=True)


_STYLES = {
    "holds": "green",
    "measured": "cyan",
    "violated": "red",
    "not reproduced": "magenta",
    "open": "yellow",
    "crashed": "bold red",
}


def _print_run(found: "Run", report_path: Path) -> None:
    from rich.text import Text

    rows: list[tuple[Any, ...]] = []
    for result in found.results():
        verdict = Text(result.verdict.value, style=_STYLES[result.verdict.value])
        rows.append((result.claim, verdict, f"{result.seconds:.1f} s", *_what_decides(result)))
    _print_table(("claim", "verdict", "time", "value and bound", "measured"), rows)
    summary = found.as_json()
    typer.echo(_counts(summary["totals"]))
    if any(summary["ours"].values()):
        typer.echo(f"statements of ours: {_counts(summary['ours'])}")
    typer.echo(f"report: {report_path}")
    _say_what_is_missing(found)
    hint(f"open {report_path} in a browser")


def _say_what_is_missing(found: "Run") -> None:
    """Name the claims that are open because something is not here, and what would settle them."""
    lacking = [result for result in found.results() if result.deciding.finding.lacks]
    extras = sorted({result.deciding.finding.lacks for result in lacking})
    for extra in extras:
        count = sum(result.deciding.finding.lacks == extra for result in lacking)
        typer.echo(f"{count} need packages that are not here: pip install 'attangent[{extra}]'")


def _counts(totals: dict[str, int]) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in totals.items() if count)


def _what_decides(result: "Result") -> tuple[str, str]:
    from attangent.audit.report.phrases import values

    finding = result.deciding.finding
    line = finding.deciding
    if line is None:
        return "", finding.crash or "no line has a threshold of the statement's own"
    measured, bound = values(line)
    return f"{measured} {line.relation} {bound}", line.name


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
