"""Verdicts in words, the same in every output."""

from attangent.audit.finding import Conclusion, Finding, Hypothesis, Verdict
from attangent.audit.report.readable import power_of_ten, readable, told_apart
from attangent.audit.results import Result

RELATIONS = {"<=": "≤", ">=": "≥", "==": "="}
SIGNS = {
    Verdict.HOLDS: "✓",
    Verdict.MEASURED: "≈",
    Verdict.VIOLATED: "✗",
    Verdict.NOT_REPRODUCED: "≠",
    Verdict.OPEN: "?",
    Verdict.CRASHED: "!",
}
MEANINGS = {
    Verdict.HOLDS: "Hypotheses met, every line measured to hold, and it could have failed.",
    Verdict.MEASURED: "Measured to hold, but outside the hypotheses or in another setting.",
    Verdict.VIOLATED: "A line fails with the hypotheses met, or in the limit that the statement speaks of.",
    Verdict.NOT_REPRODUCED: "A line fails, but outside the hypotheses or in another setting.",
    Verdict.OPEN: "Nothing could be decided at this size.",
    Verdict.CRASHED: "The check raised, which says nothing about the claim.",
}
KINDS = {
    "theorem": "a statement with a proof",
    "identity": "an equation or a definition",
    "experiment": "a figure, a table or a remark on measurements",
    "misprint": "an obvious slip of the pen",
    "ours": "a statement of ours",
}


def headline(result: Result) -> str:
    """The verdict in words, with where it was found."""
    verdict, finding = result.verdict, result.deciding.finding
    if verdict is Verdict.VIOLATED:
        return f"Violated {_where_violated(finding)}"
    if verdict is Verdict.NOT_REPRODUCED:
        return f"Not reproduced {'in another setting' if finding.differs else 'outside its hypotheses'}"
    return "Measured to hold" if verdict is Verdict.MEASURED else verdict.value.capitalize()


def _where_violated(finding: Finding) -> str:
    line = finding.deciding
    if line is not None and line.trend and not finding.hypotheses_met:
        return "in the limit it speaks of"
    return "with its hypotheses met" if finding.hypotheses else "(it states no hypotheses)"


def reason(result: Result) -> str:
    """One line on what the verdict rests on."""
    finding, verdict = result.deciding.finding, result.verdict
    line = finding.deciding
    if finding.crash:
        return f"The check raised: {finding.crash}"
    if line is None:
        return "No line has a threshold of the statement's own."
    if verdict.failed or line.kept is False:
        return _broken(line) + _few_seeds(result)
    if verdict is Verdict.OPEN:
        return _undecided(line)
    return f"{_premises(finding)}; {_kept(finding)}."


def _broken(line: Conclusion) -> str:
    measured, limit = values(line)
    when = "" if line.first_violation is None else f", first at step {line.first_violation}"
    bound = f"{RELATIONS[line.relation]} {limit}"
    over = f", the exponent over {len(line.trend.sizes)} sizes" if line.trend else ""
    return f"“{line.name}” should be {bound}; measured {measured}{over}{when}."


def values(line: Conclusion) -> tuple[str, str]:
    """What was measured and its bound, with as many digits as tell them apart."""
    return told_apart(line.measured, line.bound, line.log10)


def _few_seeds(result: Result) -> str:
    if result.verdict is not Verdict.OPEN:
        return ""
    failed = sum(record.finding.verdict is Verdict.VIOLATED for record in result.records)
    return f" Seen with {failed} of {len(result.records)} seeds: a limit takes at least three, and all."


def _undecided(line: Conclusion) -> str:
    if line.kept is None:
        return f"“{line.name}” could not be measured."
    return f"“{line.name}” is kept by {readable(line.slack, 3)} decades: it cannot fail at this size."


def _premises(finding: Finding) -> str:
    missed = sum(not hypothesis.met for hypothesis in finding.hypotheses)
    count = len(finding.hypotheses)
    if finding.differs:
        return f"the setting differs from the paper's ({'; '.join(finding.differs)})"
    if not count:
        return "no hypotheses are stated"
    if missed:
        return f"{missed} of {count} hypotheses {'was' if missed == 1 else 'were'} not met"
    return "its hypothesis was met" if count == 1 else f"{_all(count)} hypotheses were met"


def _kept(finding: Finding) -> str:
    lines = [line for line in finding.conclusions if line.decides]
    empty = sum(line.cannot_fail for line in lines)
    but = f", {empty} of which cannot fail at this size" if empty else ""
    what = "its conclusion was" if len(lines) == 1 else f"{_all(len(lines))} conclusions were"
    return f"{what} measured to hold{but}"


def _all(count: int) -> str:
    return "both" if count == 2 else f"all {count}"


def missed(hypothesis: Hypothesis) -> str:
    """By which factor a hypothesis is missed; empty where there is no such factor."""
    decades = hypothesis.missing_decades
    return f"missed by {power_of_ten(decades)}" if 0 < decades < float("inf") else ""
