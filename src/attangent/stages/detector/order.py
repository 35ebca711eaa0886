"""The order in which groups fall, and how sure it is."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import erf, sqrt

from attangent.stages.detector.group import Group


@dataclass(frozen=True)
class Order:
    """Groups by where their fall begins.

    `certainty[i]` is the probability that group i falls before group i + 1, from the standard errors of their
    onsets taken as normal and independent: .5 where nothing tells them apart, as for two groups that both
    fall in the start-up.
    """

    names: tuple[str, ...]
    certainty: tuple[float, ...]

    def __str__(self) -> str:
        if not self.names:
            return "no group falls"
        later = [f" < {name} ({sure:.0%})" for name, sure in zip(self.names[1:], self.certainty, strict=True)]
        return self.names[0] + "".join(later)


def order_of(groups: Iterable[Group]) -> Order:
    """The order of the groups that fall."""
    begun = sorted(
        ((*group.begins, group.name) for group in groups if group.begins is not None),
        key=lambda begun: begun[0],
    )
    sure = [_before(first[:2], second[:2]) for first, second in pairwise(begun)]
    return Order(tuple(name for _, _, name in begun), tuple(sure))


def _before(first: tuple[float, float], second: tuple[float, float]) -> float:
    error = sqrt(first[1] ** 2 + second[1] ** 2)
    if error == 0:
        return 0.5 if first[0] == second[0] else 1.0
    return 0.5 * (1 + erf((second[0] - first[0]) / (error * sqrt(2))))
