"""Values measured at several sizes: relative to their bounds, by name, and the line that they do not grow."""

from collections.abc import Iterable, Sequence
from typing import Any

from attangent.audit import Conclusion


def ratios(values: Iterable[float], bounds: Iterable[float]) -> list[float]:
    """Return each value divided by its bound."""
    return [value / bound for value, bound in zip(values, bounds, strict=True)]


def by_size(name: str, sizes: Iterable[Any], values: Iterable[float]) -> dict[str, float]:
    """Return the values by name; each size takes the place of {} in `name`."""
    return {name.format(size): value for size, value in zip(sizes, values, strict=True)}


def no_growth(
    name: str, sizes: Sequence[float], values: Sequence[float], *, part: str = "", claimed: bool = True
) -> Conclusion:
    """Return the line that the values do not grow with the sizes: their exponent is at most 0."""
    return Conclusion.of_trend(name, "<=", 0.0, sizes, values, part=part, claimed=claimed)
