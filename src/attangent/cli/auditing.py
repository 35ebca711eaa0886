"""The commands `audit`, `report` and `new-claims`. Heavy imports wait until one of them runs."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from attangent._core.deprecation import warn_deprecated
from attangent._core.errors import AttangentError
from attangent.cli.common_options import INTERRUPTED, AsJson, Quiet
from attangent.cli.output import hint, print_table

if TYPE_CHECKING:
    from attangent.audit import Result, Run


def audit(
    ids: Annotated[
        list[str] | None,
        typer.Argument(help="Claim ids or patterns (P2/theorem-4.2, 'P2/lemma-*'); all claims by default."),
    ] = None,
    paper: Annotated[
        str | None, typer.Option(help="Run only the claims of this paper (for example P2).")
    ] = None,
    profile: Annotated[
        Literal["quick", "full"], typer.Option(help="Sizes to run: quick takes minutes, full takes hours.")
    ] = "quick",
    seeds: Annotated[
        int | None, typer.Option(help="Number of seeds per claim; every claim has its own default.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="First seed; by default 0, and 1000 with --profile full.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Number of checks that run at once; one per core by default.")
    ] = None,
    dask: Annotated[
        str | None, typer.Option(help="Run the checks on the Dask cluster at this address.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; audit-PROFILE by default.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Recompute existing findings.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the claims and exit.")] = False,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Check the papers' statements and write a report.

    An interrupted run resumes when started again. A violated claim is a result, not an error: the exit code
    is 0. It is 1 if a check crashed and 2 if an argument is invalid.
    """
    if ids and ids[0] == "new":
        warn_deprecated("`attangent audit new`", "`attangent new-claims`", "0.3")
        if len(ids) != 2:
            raise AttangentError(f"expected one name (got {len(ids) - 1}): attangent new-claims MyPaper")
        new_claims(ids[1], out, json_, quiet)
        return
    if list_:
        _check_alone("--list", profile=profile if profile != "quick" else None, seeds=seeds, seed=seed)
        _check_alone("--list", jobs=jobs, dask=dask, out=out, force=force or None)
        _print_claims(ids or [], paper, json_)
        _name_left_out()
        return
    if dask is not None:
        _check_alone("--dask", jobs=jobs)
    from joblib import cpu_count

    from attangent.audit.runner import AuditRequest, run_in_folder

    try:
        request = AuditRequest(
            ids=tuple(ids or []),
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
        run, everything = run_in_folder(request)
    except KeyboardInterrupt:
        typer.echo("stopped; run the same command again to resume", err=True)
        raise typer.Exit(INTERRUPTED) from None
    _show(run, everything, json_, quiet)
    if run.failures:
        raise typer.Exit(1)


def _check_alone(flag: str, **others: object) -> None:
    """Check that options which `flag` would ignore are not set."""
    for name, value in others.items():
        if value is not None:
            raise AttangentError(f"--{name} has no effect with {flag}; leave one of them out")


def report(
    run: Annotated[Path, typer.Argument(help="Folder of a run.")],
    out: Annotated[
        Path | None,
        typer.Option(help="File to write, ending in .html, .md or .csv; RUN/report.html by default."),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(help="Folder of another run; the .md page lists the claims on which the two differ."),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Folder for the experiments' figures, which the .md page shows.")
    ] = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Render the report of a run from its findings."""
    from attangent.audit.report import check_request, write_page
    from attangent.audit.results import load

    check_request(out, against, figures)
    findings = load(run)
    skipped = {path.name: reason for path, reason in findings.problems.items()}
    for name, reason in skipped.items():
        typer.echo(f"skipped: {name}: {reason}", err=True)
    page = write_page(findings, out, None if against is None else load(against), figures)
    if json_:
        typer.echo(json.dumps({"report": str(page), "passed_over": skipped}, indent=1))
    elif not quiet:
        typer.echo(f"report: {page}")
        hint(f"open {page} in a browser" if page.suffix == ".html" else f"read {page}")


def new_claims(
    name: Annotated[str, typer.Argument(help="Name of the paper, such as MyPaper; claim ids start with it.")],
    out: Annotated[Path | None, typer.Option(help="Folder to write; ./NAME_claims by default.")] = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write a package of claims for another paper, with an example and a test."""
    from attangent.audit.plugins import write_new_claims

    folder = write_new_claims(name, out)
    if json_:
        typer.echo(json.dumps({"folder": str(folder)}))
    elif not quiet:
        typer.echo(f"package of claims: {folder}")
        hint(f"pip install -e {folder}, then attangent audit --paper {name}")


def _name_left_out() -> None:
    from attangent.audit.registry import left_out

    for name, reason in left_out().items():
        typer.echo(f"left out: {name}: {reason}", err=True)


def _print_claims(ids: list[str], paper: str | None, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(_described(ids, paper), indent=1))
        return
    from attangent.audit.registry import list_claims

    rows = [(claim.id, claim.nature, claim.place, claim.title) for claim in list_claims(ids, paper)]
    print_table(("claim", "nature", "place", "title"), rows, no_wrap=True)


_LISTED = (
    "id",
    "paper",
    "place",
    "title",
    "kind",
    "nature",
    "plain",
    "quote",
    "statement",
    "rests_on",
    "repairs",
    "seeds",
)


def _described(ids: list[str], paper: str | None) -> list[dict[str, Any]]:
    from attangent.audit.registry import select

    return [
        {
            **{name: getattr(claim, name) for name in _LISTED},
            "failure": claim.failure and asdict(claim.failure),
            "proved": claim.proof is not None,
            "full_seeds": claim.seeds_of("full"),
            "settings": {"quick": dict(claim.quick), "full": dict(claim.full)},
        }
        for claim in select(ids, paper)
    ]


def _show(run: "Run", everything: "Run", as_json: bool, quiet: bool) -> None:
    """Write the report of the folder; print the findings, the files set aside, and the crashes."""
    from attangent.audit.report.page import write_report

    report_path = write_report(everything)
    if as_json:
        typer.echo(json.dumps({**run.as_json(), "report": str(report_path)}, indent=1))
    elif not quiet:
        _print_run(run, report_path)
    _name_left_out()
    for note in run.problems.values():
        typer.echo(f"set aside: {note}", err=True)
    for failure in run.failures:
        last = failure["traceback"].strip().splitlines()[-1]
        typer.echo(f"crashed: {failure['claim']} seed {failure['seed']}: {last}", err=True)


_STYLES = {
    "holds": "green",
    "measured": "cyan",
    "violated": "red",
    "not reproduced": "magenta",
    "smaller setting": "blue",
    "open": "yellow",
    "crashed": "bold red",
}


def _print_run(run: "Run", report_path: Path) -> None:
    from rich.text import Text

    from attangent.audit.causes import headlines
    from attangent.audit.results import counted

    rows: list[tuple[Any, ...]] = []
    for result in run.results():
        verdict = Text(result.verdict.value, style=_STYLES[result.verdict.value])
        rows.append((result.claim, verdict, f"{result.seconds:.1f} s", *_deciding_line(result)))
    print_table(("claim", "verdict", "time", "value and bound", "quantity"), rows, no_wrap=True)
    summary = run.as_json()
    for headline in headlines(run.results()):
        typer.echo(headline)
    typer.echo(counted(summary["totals"]))
    if any(summary["ours"].values()):
        typer.echo(f"our statements: {counted(summary['ours'])}")
    typer.echo(f"report: {report_path}")
    _print_missing_extras(run)
    hint(f"open {report_path} in a browser")


def _print_missing_extras(run: "Run") -> None:
    """Count the claims that are open because packages are missing, and say what to install."""
    lacking = [result for result in run.results() if result.deciding.finding.lacks]
    extras = sorted({result.deciding.finding.lacks for result in lacking})
    for extra in extras:
        count = sum(result.deciding.finding.lacks == extra for result in lacking)
        typer.echo(f"{count} claims need packages that are not installed: pip install 'attangent[{extra}]'")


def _deciding_line(result: "Result") -> tuple[str, str]:
    from attangent.audit.report.phrases import values

    finding = result.deciding.finding
    line = finding.deciding
    if line is None:
        return "", finding.crash or "the statement gives no threshold"
    measured, bound = values(line)
    return f"{measured} {line.relation} {bound}", line.name
