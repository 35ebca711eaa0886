"""All findings of a run as a table for spreadsheets."""

from pathlib import Path

from attangent._core.files import write_whole
from attangent._core.tables import harmless_frame
from attangent.audit.results import Run


def write_csv(run: Run, path: Path) -> Path:
    """Write one row for each claim, seed and conclusion to `path` and give its place."""
    write_whole(path, render_csv(run).encode(errors="replace"))
    return path


def render_csv(run: Run) -> str:
    """The rows of `Run.frame` as CSV; text that a spreadsheet would run as a formula begins with a quote."""
    return harmless_frame(run.frame()).to_csv(index=False, lineterminator="\n")
