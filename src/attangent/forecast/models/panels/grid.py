"""The settings of exponential smoothing that are tried on every series, and how their weights are found."""

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LEVEL = (0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)
SEASON = (0.0, 0.05, 0.15, 0.4)
DAMPED = ((0.03, 0.9), (0.1, 0.9), (0.3, 0.9), (0.3, 0.8))
DRIFTS = (0.5, 0.75, 1.0)
"""Parts of the slope of a line through a series at which it goes on: Theta's half and more."""
PERSISTENT = ((0.03, 0.98), (0.1, 0.98), (0.3, 0.98))


@dataclass(frozen=True)
class Grid:
    """G settings: rates alpha of the level, beta of the trend, gamma of the season, damping phi.

    `drift` is above zero for Theta's settings, whose trend stays at this part of the slope of a line through
    the series; where phi is 0 there is no trend.
    """

    alpha: Array
    beta: Array
    phi: Array
    gamma: Array
    drift: Array

    def part(self, kept: NDArray[np.bool_]) -> "Grid":
        return Grid(self.alpha[kept], self.beta[kept], self.phi[kept], self.gamma[kept], self.drift[kept])


def settings(period: int, persistent_trends: bool) -> Grid:
    """All settings; trends that hardly die out are left out for logarithms, where they would explode."""
    trends = [(0.0, 0.0, 0.0), *((0.0, 1.0, f) for f in DRIFTS), *((b, p, 0.0) for b, p in DAMPED)]
    if persistent_trends:
        trends += [(b, p, 0.0) for b, p in PERSISTENT]
    rates = SEASON if period > 1 else (0.0,)
    rows = [(a, a * b, p, g * (1 - a), d) for a, (b, p, d), g in product(LEVEL, trends, rates)]
    alpha, beta, phi, gamma, drift = (np.array(column) for column in zip(*rows, strict=True))
    return Grid(alpha, beta, phi, gamma, drift)


def posterior(evidence: Array, rounds: int = 20, floor: float = 0.1) -> Array:
    """Weights (N, G) ~ prior_g exp(evidence_ng), with the prior that the series of the set agree on.

    The prior starts equal and is the mean of the weights after each round, mixed with `floor` of the equal
    one, so that settings no other series likes are not lost to one that does.
    """
    equal = np.full(evidence.shape[1], 1 / evidence.shape[1])
    prior = weights = equal
    for _ in range(rounds):
        weights = np.log(prior) + evidence
        weights = np.exp(weights - weights.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        prior = (1 - floor) * weights.mean(axis=0) + floor * equal
    return weights
