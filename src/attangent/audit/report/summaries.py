"""One paper at a glance: what falls and why in ten lines, and the graph of its statements."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

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
    statements = "statement" if len(results) == 1 else "statements"
    return Summary(
        f"{named(paper)}: of {len(results)} {statements} checked, {in_words(results)}.{note}",
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


# The size of a box, and the distance from one box to the next.
WIDTH = 152
HEIGHT = 26
ACROSS = 190
DOWN = 38


@dataclass(frozen=True)
class Box:
    """A statement in the graph; the statements that its proof uses stand to its left."""

    result: Result
    x: int
    y: int
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def label(self) -> str:
        name = self.result.claim.partition("/")[2]
        return name if len(name) <= 19 else f"{name[:18]}…"


@dataclass(frozen=True)
class ProofGraph:
    """Boxes and the arrows between them, each from a statement to one whose proof uses it."""

    boxes: tuple[Box, ...]
    arrows: tuple[str, ...]
    width: int
    height: int


def proof_graph(results: list[Result]) -> ProofGraph | None:
    """Return the graph of the statements that use one another, or None if there are none."""
    known = {result.claim: result for result in results}
    uses = {
        id: [used for used in r.origin.rests_on if used in known and used != id] for id, r in known.items()
    }
    joined = {id for id, used in uses.items() if used} | {id for used in uses.values() for id in used}
    if not joined:
        return None
    columns = _columns({id: uses[id] for id in known if id in joined})
    boxes = {
        id: Box(known[id], ACROSS * x, DOWN * y)
        for x, column in enumerate(columns)
        for y, id in enumerate(column)
    }
    arrows = tuple(_arrow(boxes[used], boxes[id]) for id in boxes for used in uses[id])
    height = DOWN * max(map(len, columns)) - (DOWN - HEIGHT)
    return ProofGraph(tuple(boxes.values()), arrows, ACROSS * (len(columns) - 1) + WIDTH, height)


def _columns(uses: dict[str, list[str]]) -> list[list[str]]:
    """Put each statement to the right of all that its proof uses; a cycle is cut at its first statement."""
    depths: dict[str, int] = {}

    def depth(id: str, above: frozenset[str]) -> int:
        if id not in depths:
            below = [depth(used, above | {id}) for used in uses[id] if used not in above | {id}]
            depths[id] = 1 + max(below, default=-1)
        return depths[id]

    for id in uses:
        depth(id, frozenset())
    for id in sorted(uses, key=lambda id: -depths[id]):  # as close to its users as possible
        users = [depths[user] for user, used in uses.items() if id in used and depths[user] > depths[id]]
        depths[id] = min(users, default=depths[id] + 1) - 1
    columns: list[list[str]] = [[] for _ in range(1 + max(depths.values()))]
    for id in uses:
        columns[depths[id]].append(id)
    for left, column in pairwise(columns):
        rows = {id: row for row, id in enumerate(left)}
        column.sort(key=lambda id: _mean([rows[used] for used in uses[id] if used in rows]))
    return columns


def _mean(rows: list[int]) -> float:
    return sum(rows) / len(rows) if rows else 0.0


def _arrow(start: Box, end: Box) -> str:
    """Return a curve from the right edge of one box to the left edge of another."""
    x1 = start.x + WIDTH
    y1 = start.y + HEIGHT // 2
    x2 = end.x - 3
    y2 = end.y + HEIGHT // 2
    bend = max(20, (x2 - x1) // 2)
    return f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"
