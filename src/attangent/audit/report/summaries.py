"""One paper in ten lines: what falls and why, what is slight, what stands."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from attangent.audit.causes import (
    HEAVY,
    WEIGHTS,
    Cause,
    causes,
    fallen,
    in_words,
    main_results_stand,
    named,
    weight_of,
)
from attangent.audit.claims import NATURES
from attangent.audit.finding import Verdict
from attangent.audit.results import Result

_NAMED = 6
_STANDING = (
    ("Main results that hold", Verdict.HOLDS, True),
    (
        "Main results measured to hold, but outside their hypotheses or in another setting",
        Verdict.MEASURED,
        True,
    ),
    ("Also hold", Verdict.HOLDS, False),
    ("Also measured to hold, outside the hypotheses or in another setting", Verdict.MEASURED, False),
    ("Undecided at this size", Verdict.OPEN, None),
    ("Run in a smaller setting, which decides nothing about the paper", Verdict.SMALLER, None),
    (
        "Not reproduced outside the hypotheses or in another setting, which refutes nothing",
        Verdict.NOT_REPRODUCED,
        None,
    ),
    ("Crashed", Verdict.CRASHED, None),
)
"""What a sentence says, of which verdict, and whether of main results, of others, or of both."""


@dataclass(frozen=True)
class Sentence:
    """A sentence with the claims it names; `more` counts further claims."""

    text: str
    named: tuple[Result, ...]
    more: int = 0

    @classmethod
    def naming(cls, text: str, results: Iterable[Result]) -> "Sentence":
        """Return a sentence that names the weightiest of these results."""
        ordered = sorted(results, key=lambda result: NATURES.index(result.origin.nature))
        return cls(text, tuple(ordered[:_NAMED]), max(0, len(ordered) - _NAMED))

    def __str__(self) -> str:
        names = ", ".join(f"{result.origin.title} ({result.claim})" for result in self.named)
        return f"{self.text}: {names}{f' and {self.more} more' if self.more else ''}."


@dataclass(frozen=True)
class Summary:
    """A paper's summary: the count, the causes of grave failures, slight failures, and what stands."""

    count: str
    causes: tuple[Cause, ...]
    slight: tuple[Sentence, ...]
    stands: tuple[Sentence, ...]


def summarise(paper: str, results: list[Result], repairs: Mapping[str, Result]) -> Summary:
    """Summarise a paper.

    Args:
        paper: Its name.
        results: The results for the paper's own statements.
        repairs: The results for repaired statements, by the id of the claim they repair.
    """
    note = " No main result fails." if main_results_stand(results) else ""
    grave = tuple(cause for cause in causes(results) if cause.is_heavy)
    return Summary(
        f"{named(paper)}: of {len(results)} statements checked, {in_words(results)}.{note}",
        grave,
        tuple(_slight(results, grave)),
        tuple(_standing(results, repairs)),
    )


def _slight(results: list[Result], grave: Iterable[Cause]) -> Iterable[Sentence]:
    shown = {result.claim for cause in grave for result in cause.results}
    rest = [result for result in fallen(results) if result.claim not in shown]
    for weight, (_, several) in WEIGHTS.items():
        members = [result for result in rest if weight_of(result) == weight]
        if members and weight not in HEAVY:
            yield Sentence.naming(several.capitalize(), members)


def _standing(results: list[Result], repairs: Mapping[str, Result]) -> Iterable[Sentence]:
    for text, verdict, main in _STANDING:
        members = [
            result
            for result in results
            if result.verdict is verdict and main in (None, result.origin.nature == "main result")
        ]
        if members:
            yield Sentence.naming(text, members)
    repaired = [result for result in fallen(results) if _holds(repairs.get(result.claim))]
    if repaired:
        yield Sentence.naming("Repaired, and the repaired statement holds", repaired)


def _holds(repair: Result | None) -> bool:
    return repair is not None and repair.verdict in (Verdict.HOLDS, Verdict.MEASURED)
