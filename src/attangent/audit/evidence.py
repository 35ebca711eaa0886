"""The lines of a finding: hypotheses and conclusions, each a measured value against a stated one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from attangent._core.errors import AttangentError

Relation = Literal["<=", ">=", "=="]
Threshold = Literal["stated", "ours"]

CANNOT_FAIL = 6.0
"""A bound with more decades of slack than this cannot fail at the size that was run."""
ROUNDING = 1e-5
"""A line `<=` a bound up to this says that two things are equal but for round-off."""
SIZES_OF_A_TREND = 4


@dataclass(frozen=True)
class Hypothesis:
    """A condition of the statement: `measured` stands in `relation` to `required`.

    With `log10` both numbers are decimal logarithms, for constants that overflow. `part` names the part of
    the statement it belongs to; without one it belongs to all. `in_limit` says that the condition is met in
    the limit that the statement speaks of and that the finding's trends approach: it does not shield a
    statement about that limit.

    >>> Hypothesis("width m", ">=", 100, 4096).met
    True
    """

    name: str
    relation: Relation
    required: float
    measured: float
    log10: bool = False
    part: str = ""
    in_limit: bool = False

    def __post_init__(self) -> None:
        _check_line(self.name, self.relation)

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
class Trend:
    """A quantity at several sizes, as evidence for what a statement says of a limit."""

    sizes: tuple[float, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.sizes) != len(self.values) or len(set(self.sizes)) < SIZES_OF_A_TREND:
            raise AttangentError(
                f"a trend has {len(self.values)} values at {len(set(self.sizes))} sizes, "
                f"expected one at each of at least {SIZES_OF_A_TREND} sizes"
            )

    @property
    def exponent(self) -> float:
        """The slope of log value over log size; nan where a value or a size is not positive and finite."""
        if not all(0 < number < math.inf for number in (*self.sizes, *self.values)):
            return math.nan
        x, y = ([math.log(number) for number in part] for part in (self.sizes, self.values))
        middle = sum(x) / len(x)
        shifted = [place - middle for place in x]
        return sum(a * b for a, b in zip(shifted, y, strict=True)) / sum(a * a for a in shifted)


@dataclass(frozen=True)
class Conclusion:
    """A consequence that was measured: `measured` should stand in `relation` to `bound`.

    A line decides the verdict where the statement claims it with a threshold of its own. `claimed` is False
    for what the statement does not say: a correction of ours or a comparison. `threshold` is "ours" where the
    statement says it without a number and the number is our choice. Both are shown and decide nothing.

    `part` names the part of the statement that the line belongs to. `first_violation` is the first step at
    which a bound over time failed. `trend` holds the sizes and values whose exponent was measured.

    >>> Conclusion("loss / bound", "<=", 1.0, 0.93).kept
    True
    """

    name: str
    relation: Relation
    bound: float
    measured: float
    log10: bool = False
    claimed: bool = True
    first_violation: int | None = None
    threshold: Threshold = "stated"
    part: str = ""
    trend: Trend | None = None

    def __post_init__(self) -> None:
        _check_line(self.name, self.relation)
        if self.threshold not in get_args(Threshold):
            raise AttangentError(
                f"the threshold of {self.name!r} is {self.threshold!r}, expected stated or ours"
            )

    @classmethod
    def of_trend(
        cls,
        name: str,
        relation: Relation,
        exponent: float,
        sizes: Sequence[float],
        values: Sequence[float],
        *,
        claimed: bool = True,
        part: str = "",
    ) -> "Conclusion":
        """That `values` grow over at least four `sizes` with an exponent that stands in `relation` to this.

        >>> Conclusion.of_trend("error over m", "<=", -0.5, [8, 16, 32, 64], [1.0, 0.5, 0.25, 0.125]).kept
        True
        """
        trend = Trend(tuple(map(float, sizes)), tuple(map(float, values)))
        return cls(name, relation, exponent, trend.exponent, claimed=claimed, part=part, trend=trend)

    @property
    def kept(self) -> bool | None:
        """Whether it was measured to hold; None where the measurement is not a number."""
        return _stands(self.measured, self.relation, self.bound)

    @property
    def decides(self) -> bool:
        return self.claimed and self.threshold == "stated"

    @property
    def slack(self) -> float:
        """By how many powers of ten a bound is kept; nan where that says nothing.

        It says nothing of an equality, of a trend's exponent, and of numbers that are not positive.
        """
        rounding = not self.log10 and self.relation == "<=" and self.bound <= ROUNDING
        if not self.kept or self.relation == "==" or self.trend is not None or rounding:
            return math.nan
        sign = 1 if self.relation == "<=" else -1
        ends = (self.bound, self.measured)
        if not self.log10:
            if min(ends) <= 0:
                return math.nan
            ends = tuple(math.log10(end) for end in ends)
        decades = sign * (ends[0] - ends[1])
        return decades if math.isfinite(decades) else math.nan

    @property
    def cannot_fail(self) -> bool:
        """Whether the bound is so far off that no run of this size could break it."""
        return self.slack > CANNOT_FAIL


def _stands(measured: float, relation: Relation, bound: float) -> bool | None:
    if math.isnan(measured) or math.isnan(bound):
        return None
    if relation == "<=":
        return measured <= bound
    if relation == ">=":
        return measured >= bound
    return measured == bound


def _check_line(name: str, relation: str) -> None:
    if relation not in get_args(Relation):
        raise AttangentError(f"the relation of {name!r} is {relation!r}, expected <=, >= or ==")
