"""The report of a run: one HTML file that needs nothing else."""

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from jinja2 import BaseLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from attangent._core.files import write_whole
from attangent.audit.report.markup import FILTERS
from attangent.audit.report.phrases import KINDS, MEANINGS, RELATIONS, SIGNS
from attangent.audit.report.views import claim_views, paper_views
from attangent.audit.results import Run, totals
from attangent.audit.storing.record import Record


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
    claims = claim_views(run)
    return environment.get_template("report.html").render(
        run=run,
        claims=claims,
        papers=paper_views(claims),
        totals=totals(claim.result for claim in claims if not claim.result.is_ours),
        ours=sum(claim.result.is_ours for claim in claims),
        kinds=Counter(claim.result.origin.kind for claim in claims),
        seconds=sum(claim.result.seconds for claim in claims),
        problems=[(_below(path, run.folder), reason) for path, reason in run.problems.items()],
        versions=_versions(run.records),
        style=style,
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


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
    environment.globals.update(SIGNS=SIGNS, MEANINGS=MEANINGS, KINDS=KINDS, RELATIONS=RELATIONS)
    return environment
