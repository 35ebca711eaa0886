"""Runs, results and findings as a notebook shows them: tables and pictures."""

from os import PathLike
from typing import TYPE_CHECKING, Any

from attangent._core.display import Toned, table_html
from attangent._core.errors import AttangentError
from attangent._core.plots import BAD, COLOURS, FAINT, GOOD, MIDDLING, finished, in_style, one_panel, panels
from attangent.audit.finding import Figure, Finding, Verdict
from attangent.audit.report.phrases import reason, values
from attangent.audit.report.readable import told_apart
from attangent.audit.results import Result, Run, totals

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

Place = str | PathLike[str] | None
_TONES = {
    Verdict.HOLDS: "good",
    Verdict.MEASURED: "middling",
    Verdict.VIOLATED: "bad",
    Verdict.NOT_REPRODUCED: "bad",
}
_COLOURS = {
    Verdict.HOLDS: GOOD,
    Verdict.MEASURED: MIDDLING,
    Verdict.VIOLATED: BAD,
    Verdict.NOT_REPRODUCED: COLOURS[3],
    Verdict.OPEN: FAINT,
    Verdict.CRASHED: "#22262b",
}


def counted(run: Run) -> str:
    """How many claims came out how, on one line."""
    return ", ".join(f"{count} {verdict}" for verdict, count in totals(run.results()).items() if count)


def run_html(run: Run) -> str:
    """One row for each claim: verdict, what it rests on."""
    rows = [(result.claim, _verdict(result.verdict), reason(result)) for result in run.results()]
    notes = [counted(run), f"folder: {run.folder}"]
    return table_html(f"Audit, {run.profile} profile", ("claim", "verdict", "why"), rows, notes)


def result_html(result: Result) -> str:
    """The lines of the finding that decides."""
    title = f"{result.claim}: {result.origin.title}"
    return _lines(title, result.verdict, result.deciding.finding, [reason(result)])


def finding_html(finding: Finding) -> str:
    """Hypotheses and conclusions, each with what was measured."""
    return _lines("Finding", finding.verdict, finding, [])


def _lines(title: str, verdict: Verdict, finding: Finding, notes: list[str]) -> str:
    rows: list[tuple[Any, ...]] = []
    for one in finding.hypotheses:
        measured, required = told_apart(one.measured, one.required, one.log10)
        rows.append(("hypothesis", one.name, f"{measured} {one.relation} {required}", _kept(one.met)))
    for line in finding.conclusions:
        measured, bound = values(line)
        rows.append(("conclusion", line.name, f"{measured} {line.relation} {bound}", _kept(line.kept)))
    differs = [f"differs: {text}" for text in finding.differs]
    columns = ("line", "what", "measured and bound", "")
    return table_html(f"{title}: {verdict.value}", columns, rows, [*notes, *differs, finding.remark])


def _kept(kept: bool | None) -> Toned:
    return (
        Toned("undecided", "") if kept is None else Toned("kept", "good") if kept else Toned("broken", "bad")
    )


def _verdict(verdict: Verdict) -> Toned:
    return Toned(verdict.value, _TONES.get(verdict, ""))


@in_style
def plot_run(run: Run, path: Place = None) -> "Picture":
    """How many claims of each paper came out how: one bar for each paper."""
    results = run.results()
    if not results:
        raise AttangentError(f"{run.folder} holds no findings yet: there is nothing to draw")
    papers = sorted({result.origin.paper for result in results})
    figure, axes = one_panel((7.0, 1.2 + 0.45 * len(papers)))
    start = [0] * len(papers)
    for verdict in Verdict:
        counts = [sum(r.origin.paper == paper and r.verdict is verdict for r in results) for paper in papers]
        if any(counts):
            axes.barh(papers, counts, left=start, color=_COLOURS[verdict], label=verdict.value, height=0.6)
            start = [before + count for before, count in zip(start, counts, strict=True)]
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("claims")
    figure.legend(loc="outside upper left", ncols=6)
    return finished(figure, path)


def plot_result(result: Result, path: Place = None) -> "Picture":
    """The figures of the finding that decides, one panel for each."""
    return plot_figures(result.deciding.finding.figures, path, result.claim)


@in_style
def plot_figures(figures: tuple[Figure, ...], path: Place = None, what: str = "the finding") -> "Picture":
    """Figures of a finding, one panel for each."""
    if not figures:
        raise AttangentError(f"{what} has no figure to draw; its numbers are in `numbers`")
    picture, axes = panels(len(figures), across=2, size=(5.2, 3.4))
    for panel, figure in zip(axes, figures, strict=True):
        _draw(panel, figure)
    return finished(picture, path)


def _draw(panel: Any, figure: Figure) -> None:
    bars = [series for series in figure.series if series.kind == "bars"]
    width = 0.8 / max(len(bars), 1)
    for series in figure.series:
        if series.kind == "bars":
            shift = (bars.index(series) - (len(bars) - 1) / 2) * width
            panel.bar(series.x + shift, series.y, width, label=series.label)
        else:
            style = {"line": "-", "bound": "--", "points": "o"}[series.kind]
            panel.plot(series.x, series.y, style, label=series.label)
    if figure.log_x:
        panel.set_xscale("log")
    if figure.log_y:
        panel.set_yscale("log")
    if figure.ticks:
        panel.set_xticks(range(len(figure.ticks)), figure.ticks)
    panel.set(title=figure.title, xlabel=figure.x_label, ylabel=figure.y_label)
    if len(figure.series) > 1:
        panel.legend()
