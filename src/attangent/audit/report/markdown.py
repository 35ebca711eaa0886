"""The findings of a run as a Markdown page, for the documentation."""

from pathlib import Path

from attangent._files import write_whole
from attangent.audit.finding import Conclusion, Verdict
from attangent.audit.report.readable import power_of_ten, readable
from attangent.audit.results import Result, Run

_MEANINGS = {
    "holds": "its hypotheses were met and its conclusions measured to hold",
    "measured": "its hypotheses were out of reach, yet its conclusions were measured to hold",
    "violated": "a conclusion was measured to fail",
    "open": "nothing could be decided at this size",
}


def write_markdown(run: Run, path: Path) -> Path:
    """Write the page of `run` to `path` and give its place."""
    write_whole(path, render_markdown(run).encode(errors="replace"))
    return path


def render_markdown(run: Run) -> str:
    """A table of all claims and, for each violated one, what was measured against what."""
    results = run.results()
    totals = {verdict: sum(result.verdict == verdict for result in results) for verdict in Verdict}
    lines = [
        f"# What the {run.profile} audit found",
        "",
        f"Written by `attangent audit --profile {run.profile} --out RUN` and "
        "`attangent report RUN --out PAGE.md`. Values are of the seed that decides the verdict.",
        "",
        *(f"- **{totals[verdict]} {verdict}**: {_MEANINGS[verdict]}" for verdict in Verdict),
        "",
        "| claim | verdict | what was measured | value | bound |",
        "|---|---|---|---|---|",
        *(_row(result) for result in results),
    ]
    violated = [result for result in results if result.verdict == Verdict.VIOLATED]
    return "\n".join([*lines, *(line for result in violated for line in _violation(result))]) + "\n"


def _row(result: Result) -> str:
    conclusion = result.deciding.finding.deciding
    value, bound = _numbers(conclusion)
    cells = (result.claim, result.verdict.value, conclusion.name, value, f"{conclusion.relation} {bound}")
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _violation(result: Result) -> list[str]:
    finding = result.deciding.finding
    met = "with its hypotheses met" if finding.hypotheses_met else "outside its stated hypotheses"
    lines = [
        "",
        f"## {result.claim}: {result.origin.title}",
        "",
        f"{result.origin.place}. Violated {met}.",
        "",
    ]
    for conclusion in finding.conclusions:
        value, bound = _numbers(conclusion)
        whose = "" if conclusion.claimed else " (ours)"
        state = {True: "kept", False: "**not kept**", None: "not decided"}[conclusion.kept]
        lines.append(
            f"- {_plain(conclusion.name)}{whose}: {value}, should be {conclusion.relation} {bound}: {state}"
        )
    return [*lines, *(["", _plain(finding.remark)] if finding.remark else [])]


def _numbers(conclusion: Conclusion) -> tuple[str, str]:
    number = power_of_ten if conclusion.log10 else readable
    return number(conclusion.measured), number(conclusion.bound)


def _cell(text: str) -> str:
    return _plain(text).replace("|", "\\|")


def _plain(text: str) -> str:
    """`text` with no sign that Markdown or HTML would read as its own."""
    for sign in "\\`*_<>[]":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("\n", " ")
