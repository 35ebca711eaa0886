"""Verdicts in words, the same in every output, and the summary of a paper."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from attangent.audit.evidence import CANNOT_FAIL
from attangent.audit.finding import Conclusion, Finding, Hypothesis, Verdict
from attangent.audit.report.readable import power_of_ten, readable, told_apart
from attangent.audit.results import Result, totals
from attangent.audit.verdicts import SEEDS_OF_AN_ESTIMATE

RELATIONS = {"<=": "≤", ">=": "≥", "==": "="}
SIGNS = {
    Verdict.HOLDS: "✓",
    Verdict.MEASURED: "≈",
    Verdict.VIOLATED: "✗",
    Verdict.NOT_REPRODUCED: "≠",
    Verdict.SMALLER: "▫",
    Verdict.OPEN: "?",
    Verdict.CRASHED: "!",
}
MEANINGS = {
    Verdict.HOLDS: "The hypotheses are met, every conclusion holds, and at least one could have failed.",
    Verdict.MEASURED: "Every conclusion holds, but outside the hypotheses or in another setting.",
    Verdict.VIOLATED: "A conclusion fails although the hypotheses are met, or in the limit of the statement.",
    Verdict.NOT_REPRODUCED: "A conclusion fails, but outside the hypotheses or in another setting.",
    Verdict.SMALLER: "A large experiment, run in a much smaller setting: nothing about the paper is decided.",
    Verdict.OPEN: "The measurements at this size decide nothing.",
    Verdict.CRASHED: "The check raised an error, which says nothing about the claim.",
}
KINDS = {
    "theorem": "a statement with a proof",
    "identity": "an equation or a definition",
    "experiment": "a figure, a table or a remark on measurements",
    "misprint": "an obvious misprint",
    "ours": "our own statement",
}
_NAMED = 6
_WEIGHTIEST = ("theorem", "proposition", "corollary", "lemma")
"""How the names of statements begin, the weightiest first."""
_COUNTS = {
    Verdict.HOLDS: ("holds", "hold"),
    Verdict.MEASURED: (
        "holds outside its hypotheses or in another setting",
        "hold outside their hypotheses or in another setting",
    ),
    Verdict.VIOLATED: ("is violated", "are violated"),
    Verdict.NOT_REPRODUCED: ("was not reproduced", "were not reproduced"),
    Verdict.SMALLER: ("was run in a smaller setting", "were run in a smaller setting"),
    Verdict.OPEN: ("is open", "are open"),
    Verdict.CRASHED: ("crashed", "crashed"),
}
"""The verb for one statement, and for several."""


def headline(result: Result) -> str:
    """Return the verdict in words, and under which conditions it was reached."""
    verdict = result.verdict
    finding = result.deciding.finding
    if verdict is Verdict.VIOLATED:
        return f"Violated{_where_violated(result)}"
    if verdict is Verdict.SMALLER:
        seen = all(line.kept for line in finding.conclusions if line.decides)
        return f"{'Seen' if seen else 'Not seen'} in a smaller setting"
    if verdict is Verdict.NOT_REPRODUCED:
        return f"Not reproduced {'in another setting' if finding.differs else 'outside its hypotheses'}"
    return "Measured to hold" if verdict is Verdict.MEASURED else verdict.value.capitalize()


def _where_violated(result: Result) -> str:
    finding = result.deciding.finding
    line = finding.deciding
    if finding.refuted:
        return ", by an exact argument"
    if line is not None and line.trend and not finding.hypotheses_met:
        return " in the limit of the statement"
    if finding.hypotheses:
        return " with its hypotheses met"
    return " (it states no hypotheses)" if result.origin.unconditional else ""


def reason(result: Result) -> str:
    """Return one line on the evidence for the verdict."""
    finding = result.deciding.finding
    line = finding.deciding
    if finding.crash:
        return f"The check raised an error: {finding.crash}"
    if line is None:
        return "The statement gives no threshold for any of the measured quantities."
    if finding.proof is not None and finding.refuted:
        return finding.proof.steps[-1].text
    if line.kept is False:
        return _broken(line) + _few_seeds(result)
    if result.verdict is Verdict.OPEN:
        return _undecided(line) + _few_seeds(result)
    text = f"{_premises(result)}; {_kept(finding)}."
    return text[0].upper() + text[1:]


def _broken(line: Conclusion) -> str:
    measured, limit = values(line)
    step = "" if line.first_violation is None else f", first at step {line.first_violation}"
    over = f", the exponent over {len(line.trend.sizes)} sizes" if line.trend else ""
    return (
        f"“{line.name}” should be {RELATIONS[line.relation]} {limit}; measured {measured}{over}"
        f"{_interval(line)}{step}."
    )


def _interval(line: Conclusion) -> str:
    ends = line.confidence
    return f" (95 %: {readable(ends[0], 3)} to {readable(ends[1], 3)})" if ends else ""


def values(line: Conclusion) -> tuple[str, str]:
    """Return the measured value and its bound, with enough digits to tell them apart."""
    return told_apart(line.measured, line.bound, line.log10)


def _few_seeds(result: Result) -> str:
    if result.verdict is not Verdict.OPEN:
        return ""
    failed = sum(record.finding.verdict.failed for record in result.records)
    count = len(result.records)
    if not failed or count == failed >= SEEDS_OF_AN_ESTIMATE:
        return ""
    return f" This fails with {failed} of {count} seeds; an estimate refutes if at least three fail, and all."


def _undecided(line: Conclusion) -> str:
    if line.kept is None and line.confidence and not math.isnan(line.measured):
        measured, limit = values(line)
        estimate = f"“{line.name}” is {measured}{_interval(line)}"
        return f"Undecided: {estimate}, and should be {RELATIONS[line.relation]} {limit}."
    if line.kept is None:
        return f"“{line.name}” could not be measured."
    if line.slack > CANNOT_FAIL:
        return f"“{line.name}” holds by {readable(line.slack, 3)} decades: it cannot fail at this size."
    return f"“{line.name}” holds for every input: it cannot fail, so it is no evidence."


def _premises(result: Result) -> str:
    finding = result.deciding.finding
    unmet = sum(not hypothesis.met for hypothesis in finding.hypotheses)
    count = len(finding.hypotheses)
    if finding.smaller:
        return f"run in a smaller setting ({finding.smaller})"
    if finding.differs:
        return f"the setting differs from the paper's ({'; '.join(finding.differs)})"
    if not count:
        return f"the {'statement has' if result.origin.unconditional else 'check declares'} no hypotheses"
    if unmet:
        return f"{unmet} of {count} hypotheses {'was' if unmet == 1 else 'were'} not met"
    return "its hypothesis was met" if count == 1 else f"{_all(count)} hypotheses were met"


def _kept(finding: Finding) -> str:
    lines = [line for line in finding.conclusions if line.decides]
    trivial = sum(line.cannot_fail for line in lines)
    but = f", {trivial} of which cannot fail" if trivial else ""
    return f"{'its conclusion holds' if len(lines) == 1 else f'{_all(len(lines))} conclusions hold'}{but}"


def _all(count: int) -> str:
    return "both" if count == 2 else f"all {count}"


def missed(hypothesis: Hypothesis) -> str:
    """Return the factor by which a hypothesis is missed, or nothing if there is no such factor."""
    decades = hypothesis.missing_decades
    return f"missed by {power_of_ten(decades)}" if 0 < decades < float("inf") else ""


@dataclass(frozen=True)
class Sentence:
    """A sentence with the claims it names; `more` counts further claims."""

    text: str
    named: tuple[Result, ...] = ()
    more: int = 0

    @classmethod
    def naming(cls, text: str, results: Iterable[Result]) -> "Sentence":
        """Return a sentence that names the weightiest of these results."""
        ordered = sorted(results, key=_weight)
        return cls(text, tuple(ordered[:_NAMED]), max(0, len(ordered) - _NAMED))

    def __str__(self) -> str:
        if not self.named:
            return self.text
        names = ", ".join(f"{result.origin.place} ({result.origin.title})" for result in self.named)
        return f"{self.text}: {names}{f' and {self.more} more' if self.more else ''}."


def _weight(result: Result) -> tuple[bool, int]:
    """Sort statements with a proof before others, and theorems before lemmas."""
    first_word = result.claim.partition("/")[2].partition("-")[0]
    weight = _WEIGHTIEST.index(first_word) if first_word in _WEIGHTIEST else len(_WEIGHTIEST)
    return result.origin.kind != "theorem", weight


def summary(results: list[Result], repairs: dict[str, Result]) -> list[Sentence]:
    """Summarise a paper in at most six sentences.

    Args:
        results: The results for the paper's own statements.
        repairs: The results for repaired statements, by the id of the claim they repair.
    """
    groups = {verdict: [r for r in results if r.verdict is verdict] for verdict in Verdict}
    sentences = [Sentence(_counted(results))]
    if groups[Verdict.HOLDS]:
        sentences.append(Sentence.naming("Statements that hold", groups[Verdict.HOLDS]))
    if groups[Verdict.VIOLATED]:
        sentences.append(Sentence.naming("Statements that fail", groups[Verdict.VIOLATED]))
        sentences.append(_repaired(groups[Verdict.VIOLATED], repairs))
    if groups[Verdict.NOT_REPRODUCED]:
        text = "Not reproduced, which refutes nothing"
        sentences.append(Sentence.naming(text, groups[Verdict.NOT_REPRODUCED]))
    if groups[Verdict.SMALLER]:
        sentences.append(
            Sentence.naming("Run in a smaller setting, which decides nothing", groups[Verdict.SMALLER])
        )
    if groups[Verdict.OPEN]:
        sentences.append(Sentence.naming("Undecided at this size", groups[Verdict.OPEN]))
    if groups[Verdict.MEASURED]:
        text = "Holds, but not under all hypotheses or not in the paper's setting"
        sentences.append(Sentence.naming(text, groups[Verdict.MEASURED]))
    return sentences[:6]


def _counted(results: list[Result]) -> str:
    counts = totals(results)
    phrases = [
        f"{counts[verdict]} {singular if counts[verdict] == 1 else plural}"
        for verdict, (singular, plural) in _COUNTS.items()
        if counts[verdict]
    ]
    listed = f"{', '.join(phrases[:-1])} and {phrases[-1]}" if len(phrases) > 1 else "".join(phrases)
    statements = "statement" if len(results) == 1 else "statements"
    return f"We checked {len(results)} {statements} of this paper: {listed}."


def _repaired(violated: list[Result], repairs: dict[str, Result]) -> Sentence:
    repaired = [result for result in violated if _holds(repairs.get(result.claim))]
    if not repaired:
        return Sentence("None of these has a repaired form yet.")
    unrepaired = len(violated) - len(repaired)
    text = "Repaired, and the repaired statement holds"
    if unrepaired:
        text += f" ({unrepaired} {'other has' if unrepaired == 1 else 'others have'} no known repair)"
    return Sentence.naming(text, repaired)


def _holds(repair: Result | None) -> bool:
    return repair is not None and repair.verdict in (Verdict.HOLDS, Verdict.MEASURED)
