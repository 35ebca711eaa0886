"""Compare values with bounds along a run, and turn the comparison into lines of a finding."""

import math

import torch
from torch import Tensor

from attangent.audit import Conclusion, Figure, Series
from attangent.audit.evidence import Relation
from attangent.papers.common.figures import plot

LOG10_E = math.log10(math.e)
_SLACK = 1 + 1e-9
"""Round-off allowed for a bound that is attained."""


def log10(value: float) -> float:
    """Return the decimal logarithm, minus infinity for zero."""
    return math.log10(value) if value > 0 else -math.inf


def comparison(
    name: str, relation: Relation, bound: float, measured: float, *, log10: bool = False
) -> Conclusion:
    """Return a line that the statement does not claim: our correction, or a comparison."""
    return Conclusion(name, relation, bound, measured, log10=log10, claimed=False)


def first_above(values: Tensor, bounds: Tensor | float) -> int | None:
    """Return the first index at which a value exceeds its bound, or None."""
    above = (values > bounds).nonzero()
    return int(above[0]) if len(above) else None


def first_below(values: Tensor, bound: float) -> float:
    """Return the first index at which a value is at most `bound`, or infinity."""
    below = (values <= bound).nonzero()
    return float(below[0]) if len(below) else math.inf


def worst_ratio(values: Tensor, bounds: Tensor) -> float:
    """max value / bound; infinite if a value is positive and its bound is zero or not finite."""
    ratio = torch.where(bounds > 0, values / bounds, torch.where(values > 0, math.inf, 0.0))
    return math.inf if ratio.isnan().any() else ratio.max().item()


def falling(loss: Tensor, share: float) -> Tensor:
    """(1 - share)^t L(0) at every step t of `loss`."""
    return loss[0] * (1 - share) ** torch.arange(len(loss)).double()


def never_above(name: str, bound: float, values: Tensor, *, part: str = "") -> Conclusion:
    """Return the line that no value exceeds `bound`."""
    above = first_above(values, bound)
    return Conclusion(name, "<=", bound, values.max().item(), first_violation=above, part=part)


def stays_below(
    name: str, values: Tensor, bounds: Tensor, *, part: str = "", claimed: bool = True
) -> Conclusion:
    """Return the line that every value is at most its bound, up to round-off."""
    ratio = worst_ratio(values, bounds)
    above = first_above(values, bounds * _SLACK)
    return Conclusion(name, "<=", _SLACK, ratio, claimed=claimed, first_violation=above, part=part)


def bound_figure(title: str, y_label: str, values: Tensor, bounds: Tensor, names: tuple[str, str]) -> Figure:
    """Draw values along a run and their bounds; `names` are their two labels."""
    t = range(len(values))
    series = (Series.of(names[0], t, values), Series.of(names[1], t, bounds, "bound"))
    return plot(title, ("step", y_label), *series, log="y")
