"""The graph of a paper's statements: an arrow leads from each statement to those whose proof uses it."""

from dataclasses import dataclass
from itertools import pairwise

from attangent.audit.results import Result

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
