"""Findings as pages: HTML for a browser, Markdown for documentation, CSV for spreadsheets."""

from pathlib import Path

from attangent._core.errors import AttangentError
from attangent._core.files import write_whole
from attangent.audit.results import Run

FORMATS = (".html", ".htm", ".md", ".csv")


def check_request(out: Path | None, against: object = None, figures: object = None) -> None:
    """Raise AttangentError if no page can be written to `out` with these options."""
    if out is not None and out.suffix.lower() not in FORMATS:
        raise AttangentError(
            f"cannot write a report to {out}: expected a name ending in .html, .md or .csv; to get a PDF, "
            "print the .html page from a browser"
        )
    for name, value in (("against", against), ("figures", figures)):
        if value is not None and (out is None or out.suffix.lower() != ".md"):
            raise AttangentError(
                f"--{name} needs a Markdown page (got --out {out}); pass --out PAGE.md --{name} {value}"
            )


def write_page(
    run: Run, out: Path | None = None, against: Run | None = None, figures: Path | None = None
) -> Path:
    """Write the report of `run` in the format that the ending of `out` names.

    Args:
        run: The run to report on.
        out: A file ending in .html, .md or .csv; report.html in the run's folder by default.
        against: Another run; a Markdown page lists the claims on which the two differ.
        figures: A folder for the experiments' figures, which a Markdown page shows.

    Returns:
        The path of the page.
    """
    from attangent.audit.report.figures import write_figures
    from attangent.audit.report.markdown import write_markdown
    from attangent.audit.report.page import write_report

    check_request(out, against, figures)
    if out is not None and out.suffix.lower() == ".md":
        return write_markdown(run, out, against, write_figures(run, figures) if figures else ())
    if out is not None and out.suffix.lower() == ".csv":
        write_whole(out, render_csv(run).encode(errors="replace"))
        return out
    return write_report(run, out)


def render_csv(run: Run) -> str:
    """Return the rows of `Run.frame` as CSV, with text that a spreadsheet would run as a formula quoted."""
    from attangent._core.tables import harmless_frame

    return harmless_frame(run.frame()).to_csv(index=False, lineterminator="\n")
