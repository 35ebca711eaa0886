"""Texts with a number to predict, in units in which the numbers of training have mean 0 and deviation 1."""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attangent._core.errors import AttangentError
from attangent.tuning.data.blanks import check_texts
from attangent.tuning.data.columns import Columns
from attangent.tuning.data.text import parsed_records


@dataclass(frozen=True)
class ValueUnits:
    """value = centre + scale * what the model gives.

    >>> ValueUnits.of([1.0, 3.0]).inside(3.0)
    1.0
    """

    centre: float = 0.0
    scale: float = 1.0

    @classmethod
    def of(cls, values: Iterable[float]) -> "ValueUnits":
        """The units of these values; refused where they are all the same."""
        found = list(values)
        scale = statistics.pstdev(found)
        if not scale > 0:
            raise AttangentError(f"every value is {found[0]:g}: there is nothing to learn")
        return cls(statistics.fmean(found), scale)

    def inside(self, value: float) -> float:
        return (value - self.centre) / self.scale

    def outside(self, given: float) -> float:
        return self.centre + self.scale * given


@dataclass(frozen=True)
class ValuedExample:
    """The text features of one example and its number; `label` as encoding calls what is learnt."""

    features: tuple[str, ...]
    label: float


@dataclass(frozen=True)
class ValueTask:
    """Examples with numbers."""

    examples: tuple[ValuedExample, ...]

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def values(self) -> list[float]:
        return [example.label for example in self.examples]

    def take(self, indices: Iterable[int]) -> "ValueTask":
        """These examples only, in this order."""
        return ValueTask(tuple(self.examples[i] for i in indices))

    def in_units(self, units: ValueUnits) -> "ValueTask":
        """The same with numbers as the model gives them."""
        return ValueTask(tuple(replace(one, label=units.inside(one.label)) for one in self.examples))


def read_values(path: Path, columns: Columns | None = None) -> ValueTask:
    """The examples of a file whose label column holds numbers; others are refused with their rows."""
    columns = columns or Columns()

    def parse(record: dict[str, Any]) -> ValuedExample:
        return ValuedExample(columns.features(record), _number(record.get(columns.label), columns.label))

    examples = parsed_records(path, parse, "at least one example")
    check_texts(path, [(number, one.features) for number, one in enumerate(examples, 1)])
    return ValueTask(tuple(examples))


def _number(given: Any, column: str) -> float:
    try:
        found = float(given)
    except (TypeError, ValueError):
        found = math.nan
    if not math.isfinite(found):
        raise AttangentError(f"the column {column!r} holds {given!r}, expected a number for regression")
    return found
