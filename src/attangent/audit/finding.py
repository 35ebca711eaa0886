"""What a check measured: hypotheses, conclusions, numbers, figures, and the verdict they add up to."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from attangent._errors import AttangentError

Relation = Literal["<=", ">=", "=="]


class Verdict(StrEnum):
    """What a measurement says of a statement."""

    HOLDS = "holds"
    """The hypotheses were met and the conclusion was measured to hold."""
    MEASURED = "measured"
    """The hypotheses were out of reach, yet the conclusion was measured to hold."""
    VIOLATED = "violated"
    """A conclusion was measured to fail."""
    OPEN = "open"
    """Nothing could be decided at this size."""

    @classmethod
    def combine(cls, verdicts: Iterable["Verdict"]) -> "Verdict":
        """The verdict over several seeds: one counter-example decides, then one undecided seed."""
        found = set(verdicts)
        order = (cls.VIOLATED, cls.OPEN, cls.MEASURED, cls.HOLDS)
        return next((verdict for verdict in order if verdict in found), cls.OPEN)


@dataclass(frozen=True)
class Hypothesis:
    """A condition of the statement: `measured` stands in `relation` to `required`.

    With `log10` both numbers are decimal logarithms, for constants that overflow.
    """

    name: str
    relation: Relation
    required: float
    measured: float
    log10: bool = False

    @property
    def met(self) -> bool:
        return _stands(self.measured, self.relation, self.required) is True

    @property
    def missing_decades(self) -> float:
        """By how many powers of ten the hypothesis is missed; 0 where it is met."""
        if self.met:
            return 0.0
        if self.log10:
            return abs(self.required - self.measured)
        if min(self.required, self.measured) <= 0:
            return math.nan
        return abs(math.log10(self.required) - math.log10(self.measured))


@dataclass(frozen=True)
class Conclusion:
    """A consequence that was measured: `measured` should stand in `relation` to `bound`.

    `claimed` is False for what the statement does not say: a correction of ours or a comparison. Such a line
    is shown but does not decide the verdict. `first_violation` is the first step at which a bound over time
    failed.
    """

    name: str
    relation: Relation
    bound: float
    measured: float
    log10: bool = False
    claimed: bool = True
    first_violation: int | None = None

    @property
    def kept(self) -> bool | None:
        """Whether it was measured to hold; None where the measurement is not a number."""
        return _stands(self.measured, self.relation, self.bound)


def _stands(measured: float, relation: Relation, bound: float) -> bool | None:
    if math.isnan(measured) or math.isnan(bound):
        return None
    if relation == "<=":
        return measured <= bound
    if relation == ">=":
        return measured >= bound
    return measured == bound


@dataclass(frozen=True)
class Series:
    """One curve of a figure. `bound` is drawn dashed, `points` without a line, `bars` side by side."""

    label: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    kind: Literal["line", "bound", "points", "bars"] = "line"

    @classmethod
    def of(
        cls, label: str, x: Any, y: Any, kind: Literal["line", "bound", "points", "bars"] = "line"
    ) -> "Series":
        """A series from anything array-like."""
        series = cls(label, np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64), kind)
        if series.x.ndim != 1 or series.x.shape != series.y.shape:
            raise AttangentError(
                f"series {label!r} has x of shape {series.x.shape} and y of shape {series.y.shape}, "
                "expected two vectors of equal length"
            )
        return series


@dataclass(frozen=True)
class Figure:
    """A picture of the measurement: axes and series."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False
    ticks: tuple[str, ...] = ()
    """Names of the positions 0, 1, ... on the x axis, for bars."""


@dataclass(frozen=True)
class Finding:
    """What one check measured with one seed. The runner adds where it comes from (see `store.Record`)."""

    conclusions: tuple[Conclusion, ...]
    hypotheses: tuple[Hypothesis, ...] = ()
    numbers: dict[str, float] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
    remark: str = ""
    """One or two sentences on what the measurement shows, where the numbers need them."""
    lacks: str = ""
    """The extra of attangent whose packages were not installed, where that is why nothing was measured."""

    def __post_init__(self) -> None:
        if not any(conclusion.claimed for conclusion in self.conclusions):
            raise AttangentError("a finding needs at least one conclusion that the statement claims")

    @property
    def hypotheses_met(self) -> bool:
        return all(hypothesis.met for hypothesis in self.hypotheses)

    @property
    def verdict(self) -> Verdict:
        kept = [conclusion.kept for conclusion in self.conclusions if conclusion.claimed]
        if False in kept:
            return Verdict.VIOLATED
        if None in kept:
            return Verdict.OPEN
        return Verdict.HOLDS if self.hypotheses_met else Verdict.MEASURED

    @property
    def deciding(self) -> Conclusion:
        """The line that the verdict rests on: the first that failed, else the first undecided or first."""
        claimed = [conclusion for conclusion in self.conclusions if conclusion.claimed]
        return next((c for state in (False, None) for c in claimed if c.kept is state), claimed[0])
