"""The picture of a paper's statements: which rests on which, coloured by verdict."""

from dataclasses import dataclass
from itertools import pairwise

from attangent.audit.results import Result

WIDTH, HEIGHT, ACROSS, DOWN = 152, 26, 190, 38  # of a box, and from one box to the next


@dataclass(frozen=True)
class Box:
    """A statement in the picture; what it rests on stands to its left."""

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
class Dependence:
    """Boxes and the arrows between them, from what is used to what uses it."""

    boxes: tuple[Box, ...]
    arrows: tuple[str, ...]
    width: int
    height: int


def dependence(results: list[Result]) -> Dependence | None:
    """The picture of the results that rest on one another; None where none does."""
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
    return Dependence(tuple(boxes.values()), arrows, ACROSS * (len(columns) - 1) + WIDTH, height)


def _columns(uses: dict[str, list[str]]) -> list[list[str]]:
    """Each statement right of all it rests on, near their height; a circle is cut where it is met first."""
    depths: dict[str, int] = {}

    def depth(id: str, above: frozenset[str]) -> int:
        if id not in depths:
            below = [depth(used, above | {id}) for used in uses[id] if used not in above | {id}]
            depths[id] = 1 + max(below, default=-1)
        return depths[id]

    for id in uses:
        depth(id, frozenset())
    for id in sorted(uses, key=lambda id: -depths[id]):  # as near to what uses it as it can stand
        users = [depths[user] for user, used in uses.items() if id in used and depths[user] > depths[id]]
        depths[id] = min(users, default=depths[id] + 1) - 1
    columns: list[list[str]] = [[] for _ in range(1 + max(depths.values()))]
    for id in uses:
        columns[depths[id]].append(id)
    for left, column in pairwise(columns):
        places = {id: place for place, id in enumerate(left)}
        column.sort(key=lambda id: _middle([places[used] for used in uses[id] if used in places]))
    return columns


def _middle(places: list[int]) -> float:
    return sum(places) / len(places) if places else 0.0


def _arrow(start: Box, end: Box) -> str:
    """A curve from the right edge of one box to the left edge of another."""
    x1, y1, x2, y2 = start.x + WIDTH, start.y + HEIGHT // 2, end.x - 3, end.y + HEIGHT // 2
    bend = max(20, (x2 - x1) // 2)
    return f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"
