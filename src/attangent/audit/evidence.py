"""The lines of a finding: hypotheses and conclusions, each compares a measured value with a stated one."""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

from attangent._core.errors import AttangentError

Relation = Literal["<=", ">=", "==", "<", ">"]
Threshold = Literal["stated", "ours"]

CANNOT_FAIL = 6.0
"""A bound with more decades of slack than this cannot fail at the size of the run."""
ROUNDING = 1e-5
"""A line `<=` a bound up to this says that two quantities are equal up to round-off."""
SIZES_OF_A_TREND = 4
CONFIDENCE = 0.95
RESOLUTION = 0.25
"""The widest interval of an exponent that supports a stated one: it is compatible with no other quarter."""
SEED_NOISE = 0.1
"""One seed shows a stated exponent if its fit is this close. The verdict takes the interval of all seeds."""
EXACT = 1e-9
"""Values this close to a power law, relatively, follow from an identity and not from a measurement."""
Interval = tuple[float, float]


@dataclass(frozen=True)
class Hypothesis:
    """A condition of the statement: `measured` must be in `relation` to `required`.

    Args:
        name: The measured quantity.
        relation: "<=", ">=", "==", "<" or ">".
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
        return _PowerLaw.of([(self.sizes, self.values)]).exponent

    @property
    def interval(self) -> Interval:
        """The 95 % interval of the exponent; nan if it cannot be fitted."""
        return pooled_interval([self])


Points = tuple[Sequence[float], Sequence[float]]
"""Sizes and values."""


@dataclass(frozen=True)
class _PowerLaw:
    """The least-squares fit of one exponent to several trends, each with its own factor."""

    exponent: float
    error: float
    freedom: int
    largest_residual: float

    @classmethod
    def of(cls, trends: Sequence[Points]) -> "_PowerLaw":
        points = [_centred(*trend) for trend in trends]
        x = [size for sizes, _ in points for size in sizes]
        y = [value for _, values in points for value in values]
        spread = sum(a * a for a in x)
        exponent = sum(a * b for a, b in zip(x, y, strict=True)) / spread
        residuals = [b - exponent * a for a, b in zip(x, y, strict=True)]
        freedom = max(len(x) - len(trends) - 1, 1)
        error = math.sqrt(sum(rest * rest for rest in residuals) / freedom / spread)
        return cls(exponent, error, freedom, max(map(abs, residuals)))


def _centred(*points: Sequence[float]) -> list[list[float]]:
    """Return logarithms less their mean; nan if a number is not positive and finite."""
    positive = all(0 < number < math.inf for numbers in points for number in numbers)
    logs = [[math.log(number) if positive else math.nan for number in numbers] for numbers in points]
    return [[number - sum(numbers) / len(numbers) for number in numbers] for numbers in logs]


def _larger(trend: Trend) -> Points:
    """Return the larger three quarters of the sizes, with their values."""
    pairs = sorted(zip(trend.sizes, trend.values, strict=True))[len(trend.sizes) // 4 :]
    return [size for size, _ in pairs], [value for _, value in pairs]


def is_identity(trends: Sequence[Trend]) -> bool:
    """Return whether all seeds show one power law up to rounding, which no measurement gives."""
    law = _PowerLaw.of([(trend.sizes, trend.values) for trend in trends])
    return len(trends) > 1 and law.largest_residual < EXACT


def pooled_interval(trends: Sequence[Trend]) -> Interval:
    """Return the 95 % interval of the exponent that these trends, one per seed, have in common.

    It is the least-squares interval, widened to the exponent that the larger sizes lead to: the fit to three
    quarters of the sizes, moved on by twice its distance to the fit to all of them. This covers corrections
    that fall as one over the size.
    """
    law = _PowerLaw.of([(trend.sizes, trend.values) for trend in trends])
    if math.isnan(law.exponent):
        return math.nan, math.nan
    reach = _student(law.freedom) * law.error
    larger = _PowerLaw.of([_larger(trend) for trend in trends])
    ahead = law.exponent + 3 * (larger.exponent - law.exponent)
    return min(law.exponent - reach, ahead), max(law.exponent + reach, ahead)


@dataclass(frozen=True)
class Conclusion:
    """A measured consequence of the statement: `measured` should be in `relation` to `bound`.

    A line decides the verdict if the statement claims it and gives the threshold.

    Args:
        name: The measured quantity.
        relation: "<=", ">=", "==", "<" or ">".
        bound: The value that the statement gives.
        measured: The value of the run.
        log10: Whether both numbers are decimal logarithms, for constants that overflow.
        claimed: False if the statement does not say this: our correction, or a comparison.
        first_violation: The first step at which a bound over time failed.
        threshold: "ours" if the statement gives no number and we chose one. Such a line decides nothing.
        part: The part of the statement that the line belongs to.
        trend: The sizes and values whose exponent was measured. The line fails if the bound is rejected at
            the level of 95 % over all seeds; it holds if the exponent is known well enough.
        interval: The 95 % interval of an estimated quantity. The line is undecided if it covers the bound.
            For a trend it is fitted; over several seeds, to all of them.
        identity: Whether the line is true for every input, so that it is no evidence. A trend that is the
            same exact power law on all seeds is recognised as one.

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
    interval: Interval | None = None
    identity: bool = False

    def __post_init__(self) -> None:
        _check_line(self.name, self.relation)
        if self.interval is not None and (
            len(self.interval) != 2 or (self.relation == "==" and not self.trend)
        ):
            raise AttangentError(f"the interval of {self.name!r} needs two ends and the relation <= or >=")
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
            relation: "<=", ">=" or "=="; "<" and ">" for a statement that gives no number, such as
                1/poly(d): below 0. It is undecided while the interval covers the exponent.
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
        """Whether the measured value keeps the bound; None if it is not a number or an interval covers it."""
        if self.trend is not None:
            return self._keeps_exponent()
        if self.interval is not None:
            return _on_interval(self.interval, self.relation, self.bound)
        return _compare(self.measured, self.relation, self.bound)

    def _keeps_exponent(self) -> bool | None:
        """Test the stated exponent over all seeds; without their interval, say what this seed shows."""
        leeway = {"<=": SEED_NOISE, ">=": -SEED_NOISE}.get(self.relation, 0.0)
        shown = _compare(self.measured, self.relation, self.bound + leeway)
        if self.interval is None:
            return shown
        kept = _tested(self.interval, self.relation, self.bound)
        return None if kept is False and shown else kept

    @property
    def confidence(self) -> Interval | None:
        """The 95 % interval of the measured value, if it is an estimate."""
        return self.interval or (self.trend.interval if self.trend else None)

    @property
    def is_estimate(self) -> bool:
        """Whether the measured value is an estimate: a failure then takes several seeds."""
        return self.trend is not None or self.interval is not None

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
        sign = 1 if self.relation in ("<=", "<") else -1
        ends = (self.bound, self.measured)
        if not self.log10:
            if min(ends) <= 0:
                return math.nan
            ends = tuple(math.log10(end) for end in ends)
        decades = sign * (ends[0] - ends[1])
        return decades if math.isfinite(decades) else math.nan

    @property
    def cannot_fail(self) -> bool:
        """Whether no run of this size could break the line: the bound is too loose, or it is an identity."""
        return self.slack > CANNOT_FAIL or (self.identity and self.kept is True)


_COMPARISONS = {"<=": operator.le, ">=": operator.ge, "==": operator.eq, "<": operator.lt, ">": operator.gt}


def _compare(measured: float, relation: Relation, bound: float) -> bool | None:
    if math.isnan(measured) or math.isnan(bound):
        return None
    return bool(_COMPARISONS[relation](measured, bound))  # numpy's truth values are not True or False


def _on_interval(interval: Interval, relation: Relation, bound: float) -> bool | None:
    """Return whether the whole interval keeps the bound; None if only a part of it does."""
    low, high = interval
    if relation == "==":
        return None if low <= bound <= high else False
    kept = {_compare(end, relation, bound) for end in interval}
    return kept.pop() if len(kept) == 1 else None


def _tested(interval: Interval, relation: Relation, bound: float) -> bool | None:
    """Test a stated exponent: False if it is rejected, None if the interval is too wide to tell."""
    low, high = interval
    if math.isnan(low) or math.isnan(bound):
        return None
    kept = _on_interval(interval, relation, bound)
    resolved = relation not in ("<", ">") and high - low <= RESOLUTION
    return True if kept is None and resolved else kept


@cache
def _student(freedom: int) -> float:
    """Return the two-sided quantile of Student's distribution at the level of 95 %."""
    from scipy.stats import t

    return float(t.ppf((1 + CONFIDENCE) / 2, freedom))


def _check_line(name: str, relation: str) -> None:
    if relation not in get_args(Relation):
        raise AttangentError(f"the relation of {name!r} must be <=, >=, ==, < or > (got {relation!r})")
