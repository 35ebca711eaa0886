"""The report of a run: one HTML file that needs nothing else."""

import base64
import hashlib
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from jinja2 import BaseLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from attangent._files import write_whole
from attangent.audit.finding import Figure, Verdict
from attangent.audit.report.figures import Key, draw, legend
from attangent.audit.report.markup import FILTERS
from attangent.audit.report.wording import KINDS, MEANINGS, RELATIONS, SIGNS, headline, reason
from attangent.audit.results import Result, Run
from attangent.audit.storing.record import Record

SUBJECTS = {
    "P1": "NTK-Attention: an infinitely long prefix in constant space",
    "P2": "The tangent kernel of two-layer softmax networks",
    "P3": "Two-stage learning: syntax before semantics",
    "P4": "In-context learning with representations",
    "P5": "Attention in time-series forecasting",
}


def write_report(run: Run, path: Path | None = None) -> Path:
    """Write the report of `run` to `path`, by default report.html in its folder, and give its place."""
    place = run.folder / "report.html" if path is None else Path(path)
    write_whole(place, render(run).encode(errors="replace"))
    return place


def render(run: Run) -> str:
    """The report of `run` as HTML; equal runs give equal pages."""
    loader = PackageLoader("attangent.audit.report")
    environment = _environment(loader)
    style, script = (Markup(loader.get_source(environment, name)[0]) for name in ("report.css", "report.js"))
    claims = _claims(run)
    return environment.get_template("report.html").render(
        run=run,
        claims=claims,
        papers=_papers(claims),
        totals={v.value: sum(claim.verdict == v for claim in claims) for v in Verdict},
        seconds=sum(claim.result.seconds for claim in claims),
        problems=[(_below(path, run.folder), reason) for path, reason in run.problems.items()],
        versions=_versions(run.records),
        style=style,
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


@dataclass(frozen=True)
class Picture:
    """A figure ready for the page; `svg` is None where none of its points can be drawn."""

    figure: Figure
    svg: Markup | None
    keys: list[Key]

    @property
    def has_bars(self) -> bool:
        return any(series.kind == "bars" for series in self.figure.series)


@dataclass(frozen=True)
class ClaimView:
    """What the page says of one claim. `shown` is the seed whose measurements stand in its tables."""

    result: Result
    shown: Record
    pictures: list[Picture]
    crashed: tuple[int, ...]

    @property
    def verdict(self) -> Verdict:
        return self.result.verdict

    @property
    def others(self) -> list[int]:
        """The seeds drawn faintly."""
        return [seed for seed in self.result.seeds if seed != self.shown.origin.seed]

    @property
    def headline(self) -> str:
        return headline(self.result)

    @property
    def reason(self) -> str:
        return reason(self.result)

    @property
    def command(self) -> str:
        origin = self.result.origin
        return shlex.join(["attangent", "audit", origin.claim, "--profile", origin.profile, "--force"])

    def kept_on(self, place: int) -> str:
        """On how many of the seeds the conclusion at this place was kept."""
        lists = [record.finding.conclusions for record in self.result.records]
        kept = [conclusions[place].kept is True for conclusions in lists if place < len(conclusions)]
        return f"{sum(kept)} of {len(kept)}"


def _claims(run: Run) -> list[ClaimView]:
    numbers = count()
    views = []
    for result in run.results():
        shown = result.deciding
        pictures = [
            _picture(result, shown, place, next(numbers)) for place in range(len(shown.finding.figures))
        ]
        crashed = tuple(failure["seed"] for failure in run.failures if failure["claim"] == result.claim)
        views.append(ClaimView(result, shown, pictures, crashed))
    return views


def _picture(result: Result, shown: Record, place: int, number: int) -> Picture:
    figure = shown.finding.figures[place]
    others = (record.finding.figures for record in result.records if record is not shown)
    same = [
        figures[place] for figures in others if place < len(figures) and figures[place].title == figure.title
    ]
    svg = draw([figure, *same], f"figure{number}")
    return Picture(figure, None if svg is None else Markup(svg), legend(figure))


def _papers(claims: list[ClaimView]) -> dict[str, list[ClaimView]]:
    papers: dict[str, list[ClaimView]] = {}
    for claim in claims:
        papers.setdefault(claim.result.origin.paper, []).append(claim)
    return papers


def _versions(records: Iterable[Record]) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for record in records:
        for name, version in record.versions.items():
            found.setdefault(name, set()).add(version)
    return {name: ", ".join(sorted(versions)) for name, versions in sorted(found.items())}


def _below(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else path.name


def _environment(loader: BaseLoader) -> Environment:
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(FILTERS)
    environment.globals.update(
        SIGNS=SIGNS, MEANINGS=MEANINGS, KINDS=KINDS, SUBJECTS=SUBJECTS, RELATIONS=RELATIONS
    )
    return environment
