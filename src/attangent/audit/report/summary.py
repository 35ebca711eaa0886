"""What is true in a paper, in three to six sentences made from its results."""

from collections.abc import Iterable
from dataclasses import dataclass

from attangent.audit.finding import Verdict
from attangent.audit.results import Result, totals

_NAMED = 6
_FIRST = ("theorem", "proposition", "corollary", "lemma")
"""How the names of statements begin, the weightiest first."""
_COUNTS = {
    Verdict.HOLDS: ("holds", "hold"),
    Verdict.MEASURED: (
        "was measured to hold outside its hypotheses or in another setting",
        "were measured to hold outside their hypotheses or in another setting",
    ),
    Verdict.VIOLATED: ("is violated", "are violated"),
    Verdict.NOT_REPRODUCED: ("was not reproduced", "were not reproduced"),
    Verdict.OPEN: ("is open", "are open"),
    Verdict.CRASHED: ("crashed", "crashed"),
}
"""What is said of one statement, and of several."""


@dataclass(frozen=True)
class Sentence:
    """A sentence with the claims it names; `more` counts those that it does not name."""

    text: str
    named: tuple[Result, ...] = ()
    more: int = 0

    @classmethod
    def naming(cls, text: str, results: Iterable[Result]) -> "Sentence":
        found = sorted(results, key=_weight)
        return cls(text, tuple(found[:_NAMED]), max(0, len(found) - _NAMED))

    def __str__(self) -> str:
        if not self.named:
            return self.text
        names = ", ".join(f"{result.origin.place} ({result.origin.title})" for result in self.named)
        return f"{self.text}: {names}{f' and {self.more} more' if self.more else ''}."


def _weight(result: Result) -> tuple[bool, int]:
    """Sorts statements with a proof before others, and theorems before lemmas."""
    begins = result.claim.partition("/")[2].partition("-")[0]
    return result.origin.kind != "theorem", _FIRST.index(begins) if begins in _FIRST else len(_FIRST)


def summary(results: list[Result], repairs: dict[str, Result]) -> list[Sentence]:
    """The sentences on a paper from results of its own statements; `repairs` are by the id they repair."""
    groups = {verdict: [r for r in results if r.verdict is verdict] for verdict in Verdict}
    sentences = [Sentence(_counted(results))]
    if groups[Verdict.HOLDS]:
        sentences.append(Sentence.naming("What stands", groups[Verdict.HOLDS]))
    if groups[Verdict.VIOLATED]:
        sentences.append(Sentence.naming("What fails", groups[Verdict.VIOLATED]))
        sentences.append(_repaired(groups[Verdict.VIOLATED], repairs))
    if groups[Verdict.NOT_REPRODUCED]:
        text = "Not reproduced, which refutes nothing"
        sentences.append(Sentence.naming(text, groups[Verdict.NOT_REPRODUCED]))
    if groups[Verdict.OPEN] and len(sentences) < 6:
        sentences.append(Sentence.naming("Undecided at this size", groups[Verdict.OPEN]))
    if groups[Verdict.MEASURED] and len(sentences) < 6:
        text = "Measured to hold, but not under all hypotheses or not in the paper's setting"
        sentences.append(Sentence.naming(text, groups[Verdict.MEASURED]))
    return sentences[:6]


def _counted(results: list[Result]) -> str:
    counts = totals(results)
    parts = [
        f"{counts[verdict]} {one if counts[verdict] == 1 else several}"
        for verdict, (one, several) in _COUNTS.items()
        if counts[verdict]
    ]
    listed = f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)
    statements = "statement" if len(results) == 1 else "statements"
    return f"Of {len(results)} {statements} of this paper that were checked, {listed}."


def _repaired(violated: list[Result], repairs: dict[str, Result]) -> Sentence:
    done = [result for result in violated if _holds(repairs.get(result.claim))]
    if not done:
        return Sentence("None of these has a repaired form here yet.")
    left = len(violated) - len(done)
    text = "Repaired, with a check of the repaired form that holds"
    text += f" (for {left} others no repair is known)" if left else ""
    return Sentence.naming(text, done)


def _holds(repair: Result | None) -> bool:
    return repair is not None and repair.verdict in (Verdict.HOLDS, Verdict.MEASURED)
