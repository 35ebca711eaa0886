"""The findings of a run as a Markdown page, for the documentation."""

import os
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from attangent._core.files import write_whole
from attangent.audit.causes import by_paper
from attangent.audit.claims import NATURES
from attangent.audit.finding import Conclusion, Verdict
from attangent.audit.plugins import cited
from attangent.audit.report.figures import FigureFile
from attangent.audit.report.phrases import FILTERS, MEANINGS, readable, values
from attangent.audit.report.summaries import summarise
from attangent.audit.results import Result, Run, totals


@dataclass(frozen=True)
class ResultPair:
    """The results for one claim in two runs."""

    here: Result
    there: Result

    @property
    def differs(self) -> bool:
        return self.here.verdict is not self.there.verdict or bool(self.parts)

    @property
    def parts(self) -> list[str]:
        """The parts on which both runs have a verdict, and not the same."""
        there = self.there.parts
        return [name for name, verdict in self.here.parts.items() if name in there and there[name] != verdict]


@dataclass(frozen=True)
class RunDiff:
    """The claims that two runs share, the claims that only one of them has, and the runs' names."""

    names: tuple[str, str]
    pairs: tuple[ResultPair, ...]
    only_here: tuple[str, ...]
    only_there: tuple[str, ...]

    @property
    def differing(self) -> list[ResultPair]:
        return [pair for pair in self.pairs if pair.differs]


def compare_runs(here: Run, there: Run) -> RunDiff:
    """Compare the claims of `here` with those of `there`."""
    mine, theirs = ({result.claim: result for result in run.results()} for run in (here, there))
    return RunDiff(
        (run_name(here), run_name(there)),
        tuple(ResultPair(result, theirs[claim]) for claim, result in mine.items() if claim in theirs),
        tuple(claim for claim in mine if claim not in theirs),
        tuple(claim for claim in theirs if claim not in mine),
    )


def run_name(run: Run) -> str:
    """Return the profile and the range of the seeds: `full, seeds 1000 to 1002`."""
    seeds = sorted({record.origin.seed for record in run.records})
    if not seeds:
        return f"{run.profile}, no seeds"
    span = f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}"
    return f"{run.profile}, {span}"


def write_markdown(
    run: Run, path: Path, against: Run | None = None, figures: Sequence[FigureFile] = ()
) -> Path:
    """Write the page of `run` to `path`, with relative links to these figures, and return the path."""
    links = [(figure, os.path.relpath(figure.path.resolve(), path.parent.resolve())) for figure in figures]
    write_whole(path, render_markdown(run, against, links).encode(errors="replace"))
    return path


def render_markdown(
    run: Run, against: Run | None = None, figures: Sequence[tuple[FigureFile, str]] = ()
) -> str:
    """Return the page: a table of all claims, the differences from `against`, and every failed claim."""
    results = run.results()
    papers = [result for result in results if not result.is_ours]
    ours = [result for result in results if result.is_ours]
    counts = totals(papers)
    by_nature = {nature: totals(r for r in papers if r.origin.nature == nature) for nature in NATURES}
    repairs = {r.origin.repairs: r for r in ours if r.origin.repairs}
    names = dict.fromkeys(result.origin.paper for result in results)
    return _template().render(
        run=run,
        papers=papers,
        ours=ours,
        totals=counts,
        verdicts=[verdict for verdict in Verdict if counts[verdict]],
        by_nature={nature: row for nature, row in by_nature.items() if any(row.values())} | {"all": counts},
        summaries=[summarise(name, members, repairs) for name, members in by_paper(papers).items()],
        cautions=[result for result in papers if not result.verdict.failed and _caution(result)],
        diff=compare_runs(run, against) if against else None,
        repairs=defaultdict(lambda: None, repairs),
        citations={name: paper for name in names if (paper := cited(name)) is not None},
        figures=figures,
        MEANINGS=MEANINGS,
    )


def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("attangent.audit.report"),
        autoescape=False,  # `plain` escapes for Markdown, in which HTML's entities would show
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        **FILTERS,
        "caution": _caution,
        "bibtex": lambda text: re.sub("[{}`]", "", text),
        "cell": lambda text: _plain(text).replace("|", "\\|"),
        "deciding": _deciding,
        "numbers": _numbers,
        "plain": _plain,
        "readable": readable,
        "verdicts": _verdicts,
    }
    return environment.get_template("report.md")


def _caution(result: Result) -> str:
    """Return what limits a verdict that is not a failure: our additions, differences, and the remark."""
    finding = result.deciding.finding
    added = [f"we added: {text}" for text in result.origin.ours]
    smaller = [f"smaller setting: {finding.smaller}"] if finding.smaller else []
    differs = [f"differs from the paper: {text}" for text in finding.differs]
    notes = "; ".join([*added, *smaller, *differs])
    return " ".join(
        text for text in (f"{notes[:1].upper()}{notes[1:]}." if notes else "", finding.remark) if text
    )


def _verdicts(result: Result, parts: list[str]) -> str:
    """Return the verdict, with those on these parts and, if they differ, those of the seeds."""
    named = [f"{part}: {result.parts[part]}" for part in parts]
    seeds = [f"seed {record.origin.seed}: {record.finding.verdict}" for record in result.records]
    mixed = seeds if len({record.finding.verdict for record in result.records}) > 1 else []
    details = "; ".join([*named, *mixed])
    return f"{result.verdict.value} ({details})" if details else result.verdict.value


def _deciding(result: Result) -> str:
    line = result.deciding.finding.deciding
    if line is None:
        return result.deciding.finding.crash
    measured, bound = _numbers(line)
    return f"{line.name}: {measured}, should be {bound}"


def _numbers(line: Conclusion) -> tuple[str, str]:
    measured, bound = values(line)
    return measured, f"{line.relation} {bound}"


def _plain(text: str) -> str:
    """Escape every character that Markdown or HTML would interpret."""
    for sign in "\\`*_<>[]#&":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())
