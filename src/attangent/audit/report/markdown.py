"""The findings of a run as a Markdown page, for the documentation."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from attangent._core.files import write_whole
from attangent.audit.finding import Conclusion, Verdict
from attangent.audit.plugins import Paper, cited
from attangent.audit.report.phrases import KINDS, MEANINGS, headline, reason, values
from attangent.audit.report.pictures import PictureFile
from attangent.audit.report.readable import readable
from attangent.audit.report.run_diff import Beside, Pair, beside
from attangent.audit.results import Result, Run, totals


def write_markdown(
    run: Run, path: Path, against: Run | None = None, pictures: Sequence[PictureFile] = ()
) -> Path:
    """Write the page of `run` to `path` and give its place. It shows these pictures, by relative links."""
    gallery = "\n".join(_gallery(pictures, path.parent))
    write_whole(path, (render_markdown(run, against) + gallery).encode(errors="replace"))
    return path


def _gallery(pictures: Sequence[PictureFile], folder: Path) -> list[str]:
    """The figures of the experiments, by claim."""
    lines = ["", "## Figures of the experiments", ""] if pictures else []
    for picture in pictures:
        link = os.path.relpath(picture.path.resolve(), folder.resolve())
        lines += [f"**{picture.claim}**: {_plain(picture.title)}", "", f"![{picture.claim}]({link})", ""]
    return lines


def render_markdown(run: Run, against: Run | None = None) -> str:
    """A table of all claims, where they come out differently in the run `against`, where one is given, and,
    for each that failed, what was measured against what."""
    results = run.results()
    papers = [result for result in results if not result.is_ours]
    counts = totals(papers)
    lines = [
        f"# What the {run.profile} audit found",
        "",
        f"Written by `attangent audit --profile {run.profile} --out RUN` and "
        "`attangent report RUN --out PAGE.md`. Values are of the seed that decides the verdict.",
        "",
        *(
            f"- **{counts[verdict]} {verdict}**: {MEANINGS[verdict]}"
            for verdict in Verdict
            if counts[verdict]
        ),
        "",
        *_by_kind(papers),
        "",
        *_table(papers),
    ]
    ours = [result for result in results if result.is_ours]
    if ours:
        lines += ["", "## Statements of ours", "", *_table(ours)]
    lines += _differences(beside(run, against)) if against else []
    repairs = {result.origin.repairs: result for result in ours if result.origin.repairs}
    failed = [result for result in papers if result.verdict.failed]
    lines += [line for result in failed for line in _failure(result, repairs.get(result.claim))]
    return "\n".join([*lines, *_citations(results)]) + "\n"


def _differences(runs: Beside) -> list[str]:
    """The claims on which two runs differ, with what decides in each."""
    here, there = runs.names
    differing = runs.differing
    same = len(runs.pairs) - len(differing)
    lines = [
        "",
        f"## Beside another run ({there})",
        "",
        f"{len(runs.pairs)} claims are in both runs; {same} of them have the same verdict, and the same for "
        "each part.",
    ]
    lines += [f"Only in this run: {', '.join(runs.only_here)}."] if runs.only_here else []
    lines += [f"Only in the other: {', '.join(runs.only_there)}."] if runs.only_there else []
    head = ["", f"| claim | {here} | {there} | decides here | decides there |", "|---|---|---|---|---|"]
    return lines + ([*head, *(_pair_row(pair) for pair in differing)] if differing else [])


def _pair_row(pair: Pair) -> str:
    cells = (
        pair.here.claim,
        *(_verdicts(result, pair.parts) for result in (pair.here, pair.there)),
        *(_what_decides(result) for result in (pair.here, pair.there)),
    )
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _verdicts(result: Result, parts: list[str]) -> str:
    """The verdict, with those of these parts and of the seeds where they are not of one mind."""
    named = [f"{part}: {result.parts[part]}" for part in parts]
    seeds = [f"seed {record.origin.seed}: {record.finding.verdict}" for record in result.records]
    mixed = seeds if len({record.finding.verdict for record in result.records}) > 1 else []
    more = "; ".join([*named, *mixed])
    return f"{result.verdict.value} ({more})" if more else result.verdict.value


def _what_decides(result: Result) -> str:
    line = result.deciding.finding.deciding
    if line is None:
        return result.deciding.finding.crash
    measured, bound = _numbers(line)
    return f"{line.name}: {measured}, should be {bound}"


def _citations(results: list[Result]) -> list[str]:
    """The papers as BibTeX entries, so that the page can be cited with them."""
    known = ((name, cited(name)) for name in dict.fromkeys(result.origin.paper for result in results))
    entries = [_bibtex(name, paper) for name, paper in known if paper is not None]
    return ["", "## The papers", "", "```bibtex", *entries, "```"] if entries else []


def _bibtex(name: str, paper: Paper) -> str:
    fields = {
        "title": paper.title,
        "author": " and ".join(paper.authors.split(", ")),
        "year": paper.year,
        "url": paper.link,
        "note": paper.note,
    }
    rows = [f"  {field} = {{{re.sub('[{}`]', '', value)}}}," for field, value in fields.items() if value]
    return "\n".join([f"@misc{{{name},", *rows, "}"])


def _by_kind(results: list[Result]) -> list[str]:
    """How many statements of each kind have each verdict."""
    shown = [verdict for verdict in Verdict if any(result.verdict is verdict for result in results)]
    kinds = {kind: [r for r in results if r.origin.kind == kind] for kind in KINDS}
    rows = [(kind, found) for kind, found in kinds.items() if found]
    counts = [
        (kind, [totals(found)[verdict] for verdict in shown]) for kind, found in (*rows, ("all", results))
    ]
    head = [f"| kind | {' | '.join(shown)} |", f"|---|{'---|' * len(shown)}"]
    return [*head, *(f"| {kind} | {' | '.join(map(str, numbers))} |" for kind, numbers in counts)]


def _table(results: list[Result]) -> list[str]:
    head = ["| claim | kind | verdict | what was measured | value | bound |", "|---|---|---|---|---|---|"]
    return [*head, *(_row(result) for result in results)]


def _row(result: Result) -> str:
    finding = result.deciding.finding
    line = finding.deciding
    shown = (finding.crash, "", "") if line is None else (line.name, *_numbers(line))
    cells = (result.claim, result.origin.kind, result.verdict.value, *shown)
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _failure(result: Result, repair: Result | None) -> list[str]:
    finding, origin = result.deciding.finding, result.origin
    lines = [
        "",
        f"## {result.claim}: {_plain(origin.title)}",
        "",
        f"{_plain(origin.place)}. {headline(result)}.",
        "",
        *([f"> {_plain(origin.quote)}", ""] if origin.quote else []),
        *(f"- Part {_plain(part)}: {verdict}" for part, verdict in result.parts.items()),
        *(_bullet(line) for line in finding.conclusions),
        *(f"- Differs from the paper: {_plain(difference)}" for difference in finding.differs),
    ]
    lines += ["", _plain(finding.remark)] if finding.remark else []
    return [*lines, *_repair(repair, result.verdict)]


def _repair(repair: Result | None, verdict: Verdict) -> list[str]:
    if repair is None:
        return ["", "No repair is known."] if verdict is Verdict.VIOLATED else []
    origin = repair.origin
    return [
        "",
        f"**As repaired** ({origin.claim}, {repair.verdict}): {_plain(origin.statement)}",
        "",
        f"{_plain(origin.derivation)} {_plain(reason(repair))}",
    ]


def _bullet(line: Conclusion) -> str:
    value, bound = _numbers(line)
    whose = "" if line.claimed else " (ours)"
    whose = " (threshold ours)" if line.claimed and line.threshold == "ours" else whose
    state = {True: "kept", False: "**not kept**", None: "not decided"}[line.kept]
    empty = f", by {readable(line.slack, 3)} decades: cannot fail at this size" if line.cannot_fail else ""
    return f"- {_plain(line.name)}{whose}: {value}, should be {bound}: {state}{empty}"


def _numbers(line: Conclusion) -> tuple[str, str]:
    measured, bound = values(line)
    return measured, f"{line.relation} {bound}"


def _cell(text: str) -> str:
    return _plain(text).replace("|", "\\|")


def _plain(text: str) -> str:
    """`text` with no sign that Markdown or HTML would read as its own."""
    for sign in "\\`*_<>[]#&":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())
