"""The lines of a finding: hypotheses and conclusions, each compares a measured value with a stated one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from attangent._core.errors import AttangentError

Relation = Literal["<=", ">=", "=="]
Threshold = Literal["stated", "ours"]

CANNOT_FAIL = 6.0
"""A bound with more decades of slack than this cannot fail at the size of the run."""
ROUNDING = 1e-5
"""A line `<=` a bound up to this says that two quantities are equal up to round-off."""
SIZES_OF_A_TREND = 4


@dataclass(frozen=True)
class Hypothesis:
    """A condition of the statement: `measured` must be in `relation` to `required`.

    Args:
        name: The measured quantity.
        relation: "<=", ">=" or "==".
        required: The value that the statement requires.
        measured: The value of the run.
        log10: Whether both numbers are decimal logarithms, for constants that overflow.
        part: The part of the statement that it belongs to; by default all parts.
        in_limit: Whether the condition is met in the limit that the statement is about and that the
            finding's trends approach. Then it does not shield a statement about that limit.

    Example:
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
        """Whether the run meets the condition."""
        return _compare(self.measured, self.relation, self.required) is True

    @property
    def missing_decades(self) -> float:
        """The number of decades by which the hypothesis is missed; 0 if it is met."""
        if self.met:
            return 0.0
        if self.log10:
            return abs(self.required - self.measured)
        if min(self.required, self.measured) <= 0:
            return math.nan
        return abs(math.log10(self.required) - math.log10(self.measured))


@dataclass(frozen=True)
class Trend:
    """A quantity at several sizes, as evidence for a statement about a limit.

    Args:
        sizes: At least four sizes.
        values: The value at each size.

    Example:
        >>> round(Trend((8, 16, 32, 64), (1.0, 0.5, 0.25, 0.125)).exponent, 6)
        -1.0
    """

    sizes: tuple[float, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.sizes) != len(self.values) or len(set(self.sizes)) < SIZES_OF_A_TREND:
            raise AttangentError(
                f"a trend needs one value per size and at least {SIZES_OF_A_TREND} sizes "
                f"(got {len(self.values)} values at {len(set(self.sizes))} sizes)"
            )

    @property
    def exponent(self) -> float:
        """The slope of log value over log size; nan if a value or a size is not positive and finite."""
        if not all(0 < number < math.inf for number in (*self.sizes, *self.values)):
            return math.nan
        x, y = ([math.log(number) for number in numbers] for numbers in (self.sizes, self.values))
        mean = sum(x) / len(x)
        shifted = [log_size - mean for log_size in x]
        return sum(a * b for a, b in zip(shifted, y, strict=True)) / sum(a * a for a in shifted)


@dataclass(frozen=True)
class Conclusion:
    """A measured consequence of the statement: `measured` should be in `relation` to `bound`.

    A line decides the verdict if the statement claims it and gives the threshold.

    Args:
        name: The measured quantity.
        relation: "<=", ">=" or "==".
        bound: The value that the statement gives.
        measured: The value of the run.
        log10: Whether both numbers are decimal logarithms, for constants that overflow.
        claimed: False if the statement does not say this: our correction, or a comparison.
        first_violation: The first step at which a bound over time failed.
        threshold: "ours" if the statement gives no number and we chose one. Such a line decides nothing.
        part: The part of the statement that the line belongs to.
        trend: The sizes and values whose exponent was measured.

    Example:
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
                f"the threshold of {self.name!r} must be stated or ours (got {self.threshold!r})"
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
        """Return the line that the exponent of `values` over `sizes` is in `relation` to `exponent`.

        Args:
            name: The measured quantity.
            relation: "<=", ">=" or "==".
            exponent: The exponent that the statement gives.
            sizes: At least four sizes.
            values: The value at each size.
            claimed: False for what the statement does not say.
            part: The part of the statement that the line belongs to.

        Returns:
            The line, with the fitted exponent as measured value.

        Example:
            >>> Conclusion.of_trend("error over m", "<=", -0.5, [8, 16, 32, 64], [1.0, 0.5, 0.25, 0.125]).kept
            True
        """
        trend = Trend(tuple(map(float, sizes)), tuple(map(float, values)))
        return cls(name, relation, exponent, trend.exponent, claimed=claimed, part=part, trend=trend)

    @property
    def kept(self) -> bool | None:
        """Whether the measured value keeps the bound; None if it is not a number."""
        return _compare(self.measured, self.relation, self.bound)

    @property
    def decides(self) -> bool:
        """Whether the verdict depends on this line."""
        return self.claimed and self.threshold == "stated"

    @property
    def slack(self) -> float:
        """The number of decades by which a bound is kept.

        It is nan for an equality, for a trend's exponent, and for numbers that are not positive.
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
        """Whether the bound is so loose that no run of this size could break it."""
        return self.slack > CANNOT_FAIL


def _compare(measured: float, relation: Relation, bound: float) -> bool | None:
    if math.isnan(measured) or math.isnan(bound):
        return None
    if relation == "<=":
        return measured <= bound
    if relation == ">=":
        return measured >= bound
    return measured == bound


def _check_line(name: str, relation: str) -> None:
    if relation not in get_args(Relation):
        raise AttangentError(f"the relation of {name!r} must be <=, >= or == (got {relation!r})")
