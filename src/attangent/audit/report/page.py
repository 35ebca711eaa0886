"""The report of a run: one HTML file that needs nothing else, and the tables that notebooks show."""

import base64
import hashlib
import json
import math
import shlex
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from jinja2 import BaseLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from attangent._core.display import Toned, table_html
from attangent._core.files import write_whole
from attangent.audit.finding import Conclusion, Figure, Finding, Verdict
from attangent.audit.plugins import Paper, cited
from attangent.audit.report.figures import Key, draw, legend
from attangent.audit.report.mathematics import mathml
from attangent.audit.report.phrases import (
    FILTERS,
    MEANINGS,
    NATURE_MEANINGS,
    RELATIONS,
    SIGNS,
    duration,
    formula,
    missed,
    power_of_ten,
    readable,
    reason,
    told_apart,
    values,
)
from attangent.audit.report.summaries import ProofGraph, Summary, proof_graph, summarise
from attangent.audit.results import Result, Run, SeedValues, counted, totals
from attangent.audit.storing import FindingRecord, plain


def write_report(run: Run, path: Path | None = None) -> Path:
    """Write the report of `run` to `path`, by default report.html in its folder, and return the path."""
    target = run.folder / "report.html" if path is None else Path(path)
    write_whole(target, render(run).encode(errors="replace"))
    return target


def render(run: Run) -> str:
    """Return the report of `run` as HTML; equal runs give equal pages."""
    loader = PackageLoader("attangent.audit.report")
    environment = _environment(loader)
    style, script = (Markup(loader.get_source(environment, name)[0]) for name in ("report.css", "report.js"))
    claims = _claim_views(run)
    return environment.get_template("report.html").render(
        run=run,
        claims=claims,
        papers=_paper_views(claims),
        totals=totals(claim.result for claim in claims if not claim.result.is_ours),
        ours=sum(claim.result.is_ours for claim in claims),
        natures=Counter(claim.result.origin.nature for claim in claims),
        seconds=sum(claim.result.seconds for claim in claims),
        problems=[(_relative(path, run.folder), text) for path, text in run.problems.items()],
        versions=_versions(run.records),
        style=style,
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _versions(records: Iterable[FindingRecord]) -> dict[str, str]:
    versions: dict[str, set[str]] = {}
    for record in records:
        for name, version in record.versions.items():
            versions.setdefault(name, set()).add(version)
    return {name: ", ".join(sorted(numbers)) for name, numbers in sorted(versions.items())}


def _relative(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else path.name


def _environment(loader: BaseLoader) -> Environment:
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(_FILTERS)
    environment.globals.update(SIGNS=SIGNS, MEANINGS=MEANINGS, NATURES=NATURE_MEANINGS, RELATIONS=RELATIONS)
    return environment


@dataclass(frozen=True)
class _Drawing:
    """A figure ready for the page; `svg` is None if none of its points can be drawn."""

    figure: Figure
    svg: Markup | None
    keys: list[Key]

    @property
    def has_bars(self) -> bool:
        return any(series.kind == "bars" for series in self.figure.series)


@dataclass(frozen=True)
class ClaimView:
    """One claim on the page. The tables show the measurements of the seed in `shown`."""

    result: Result
    shown: FindingRecord
    drawings: list[_Drawing]
    repair: Result | None = None

    @property
    def verdict(self) -> Verdict:
        return self.result.verdict

    @property
    def others(self) -> list[int]:
        """The seeds drawn faintly."""
        return [seed for seed in self.result.seeds if seed != self.shown.origin.seed]

    @property
    def unexpected(self) -> bool:
        """Whether the claim is declared to fail and this run does not show it."""
        return self.result.origin.failure is not None and not self.verdict.failed

    @property
    def command(self) -> str:
        origin = self.result.origin
        return shlex.join(["attangent", "audit", origin.claim, "--profile", origin.profile, "--force"])

    def kept_on(self, index: int) -> str:
        """Count the seeds on which the conclusion with this index was kept."""
        lists = [record.finding.conclusions for record in self.result.records]
        kept = [conclusions[index].kept is True for conclusions in lists if index < len(conclusions)]
        return f"{sum(kept)} of {len(kept)}"


def _claim_views(run: Run) -> list[ClaimView]:
    numbers = count()
    results = run.results()
    repairs = {result.origin.repairs: result for result in results if result.origin.repairs}
    views = []
    for result in results:
        shown = result.deciding
        drawings = [
            _drawing(result, shown, index, next(numbers)) for index in range(len(shown.finding.figures))
        ]
        views.append(ClaimView(result, shown, drawings, repairs.get(result.claim)))
    return views


def _drawing(result: Result, shown: FindingRecord, index: int, number: int) -> _Drawing:
    figure = shown.finding.figures[index]
    others = (r.finding.figures for r in result.records if r.origin.seed != shown.origin.seed)
    same = [
        figures[index] for figures in others if index < len(figures) and figures[index].title == figure.title
    ]
    svg = draw([figure, *same], f"figure{number}")
    return _Drawing(figure, None if svg is None else Markup(svg), legend(figure))


@dataclass(frozen=True)
class PaperView:
    """One paper on the page: its citation, a summary, and its claims."""

    name: str
    cited: Paper | None
    claims: list[ClaimView]
    ours: list[ClaimView]
    summary: Summary | None
    graph: ProofGraph | None

    @property
    def subject(self) -> str:
        return self.cited.subject if self.cited else ""

    @property
    def totals(self) -> dict[str, int]:
        return totals(claim.result for claim in self.claims)


def _paper_views(claims: list[ClaimView]) -> list[PaperView]:
    """Return one view per paper, in the order of their claims."""
    grouped: dict[str, list[ClaimView]] = {}
    for claim in claims:
        grouped.setdefault(claim.result.origin.paper, []).append(claim)
    return [_paper_view(name, members) for name, members in grouped.items()]


def _paper_view(name: str, members: list[ClaimView]) -> PaperView:
    ours = [claim for claim in members if claim.result.is_ours]
    printed = [claim for claim in members if not claim.result.is_ours]
    results = [claim.result for claim in printed]
    repairs = {claim.result.origin.repairs: claim.result for claim in ours}
    summary = summarise(name, results, repairs) if results else None
    return PaperView(name, cited(name), printed, ours, summary, proof_graph(results))


def number(value: float, log10: bool = False) -> Markup:
    """Return `value` as text; hovering shows all its digits."""
    return _exact(value, power_of_ten(value) if log10 else readable(value), log10)


def line_values(line: Conclusion) -> tuple[Markup, Markup]:
    """Return the measured value and its bound, with enough digits to tell them apart."""
    measured, bound = values(line)
    return _exact(line.measured, measured, line.log10), _exact(line.bound, bound, line.log10)


def _exact(value: float, text: str, log10: bool) -> Markup:
    exact = f"10^{value!r}" if log10 else repr(value)
    return Markup('<data value="{}" title="{}">{}</data>').format(exact, exact, maths(text))


def maths(text: str) -> Markup:
    """Set exponents and indices in `text`; ^ stays in it for copying and screen readers."""
    raised = Markup('<sup><span class="caret">^</span>{}</sup>')
    tags = {"plain": Markup("{}"), "sup": raised, "sub": Markup("<sub>{}</sub>")}
    return Markup("").join(tags[kind].format(piece) for kind, piece in formula(str(text)))


def spread(over_seeds: SeedValues) -> Markup:
    """Return mean ± deviation and the range, or every value if one of them is not finite."""
    if len({repr(value) for value in over_seeds.values}) == 1:
        return number(over_seeds.values[0])
    if not all(math.isfinite(value) for value in over_seeds.values):
        return Markup(", ").join(number(value) for value in over_seeds.values)
    middle = Markup("{} ± {}").format(number(over_seeds.mean), readable(over_seeds.deviation, 2))
    ends = (number(over_seeds.low), number(over_seeds.high))
    return Markup('{} <span class="range">{} … {}</span>').format(middle, *ends)


def setting(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)


_FILTERS: dict[str, Callable[..., Any]] = {
    **FILTERS,
    "duration": duration,
    "line_values": line_values,
    "mathml": mathml,
    "maths": maths,
    "missed": missed,
    "number": number,
    "setting": setting,
    "spread": spread,
}

_TONES = {
    Verdict.HOLDS: "good",
    Verdict.MEASURED: "middling",
    Verdict.VIOLATED: "bad",
    Verdict.NOT_REPRODUCED: "bad",
    Verdict.SMALLER: "middling",
}
_KEPT = {None: Toned("undecided", ""), True: Toned("kept", "good"), False: Toned("broken", "bad")}


def run_html(run: Run) -> str:
    """Return a table with one row per claim: its verdict and the reason."""
    rows = [
        (result.claim, Toned(result.verdict.value, _TONES.get(result.verdict, "")), reason(result))
        for result in run.results()
    ]
    notes = [counted(totals(run.results())), f"folder: {run.folder}"]
    return table_html(f"Audit, {run.profile} profile", ("claim", "verdict", "why"), rows, notes)


def result_html(result: Result) -> str:
    """Return a table of the lines of the finding that decides."""
    title = f"{result.claim}: {result.origin.title}"
    return _lines(title, result.verdict, result.deciding.finding, [reason(result)])


def finding_html(finding: Finding) -> str:
    """Return a table of hypotheses and conclusions with the measured values."""
    return _lines("Finding", finding.verdict, finding, [])


def _lines(title: str, verdict: Verdict, finding: Finding, notes: list[str]) -> str:
    rows: list[tuple[Any, ...]] = []
    for hypothesis in finding.hypotheses:
        measured, required = told_apart(hypothesis.measured, hypothesis.required, hypothesis.log10)
        comparison = f"{measured} {hypothesis.relation} {required}"
        rows.append(("hypothesis", hypothesis.name, comparison, _KEPT[hypothesis.met]))
    for line in finding.conclusions:
        measured, bound = values(line)
        rows.append(("conclusion", line.name, f"{measured} {line.relation} {bound}", _KEPT[line.kept]))
    differs = [f"differs from the paper: {text}" for text in finding.differs]
    columns = ("line", "quantity", "measured and bound", "")
    return table_html(f"{title}: {verdict.value}", columns, rows, [*notes, *differs, finding.remark])
