"""Weights of the single models in a combination: equal by family, moved by errors on the past."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attangent.forecast.pipeline.panels.backtest import Members, PanelTrial

Array = NDArray[np.float64]

FAMILIES = {"smoothing": 1.0, "theta": 1.0, "ridge": 1.0}
"""Weights of the families before anything is known."""
SHARPNESS = 4.0
"""A model with an error twice as large gets 2^-4 of the weight."""
SET_COUNTS_FOR = 3.0
"""The errors of the whole set count as much as so many origins of the series itself."""


def family(name: str) -> str:
    return name.split("-")[0]


def member_names(members: Members, families: Sequence[str]) -> list[str]:
    return [name for name in members.forecasts if family(name) in families]


@dataclass(frozen=True)
class Combination:
    """Weights (N, M) of the members of some families, for series longest first; rows sum to 1."""

    names: list[str]
    weights: Array

    @classmethod
    def of(cls, families: Sequence[str], members: Members, trials: Sequence[PanelTrial]) -> "Combination":
        """w ~ prior (E / min E)^-4, E the mean relative error of own origins and of the set's."""
        names = member_names(members, families)
        series = len(next(iter(members.forecasts.values())))
        counts = {name: sum(family(other) == family(name) for other in names) for name in names}
        prior = np.array([FAMILIES[family(name)] / counts[name] for name in names])
        error = _relative_errors(names, trials, series)
        weights = prior * (error / error.min(axis=1, keepdims=True)) ** -SHARPNESS
        return cls(names, weights / weights.sum(axis=1, keepdims=True))

    def apply(self, members: Members) -> Array:
        """The combined forecasts (n, H) of the first n series."""
        stacked = np.stack([members.forecasts[name] for name in self.names], axis=2)  # (n, H, M)
        return np.einsum("nhm,nm->nh", stacked, self.weights[: len(stacked)])


def _relative_errors(names: Sequence[str], trials: Sequence[PanelTrial], series: int) -> Array:
    """(N, M) errors relative to the mean over models: those of the set and of the series itself, averaged."""
    own, count = np.zeros((series, len(names))), np.zeros((series, 1))
    for trial in trials:
        errors = np.stack([trial.errors(trial.members.forecasts[name]) for name in names], axis=1)
        known = np.isfinite(errors).all(axis=1, keepdims=True)
        own[: len(errors)] += np.where(known, _relative(np.where(known, errors, 1.0)), 0.0)
        count[: len(errors)] += known
    if not count.any():
        return np.ones((series, len(names)))
    of_set = own.sum(axis=0) / count.sum()
    return (own + SET_COUNTS_FOR * of_set) / (count + SET_COUNTS_FOR)


def _relative(errors: Array) -> Array:
    """Each row over its mean; a row that every model gets right is all ones. No model counts as perfect."""
    mean = errors.mean(axis=1, keepdims=True)
    return np.where(mean > 0, np.maximum(errors / np.where(mean > 0, mean, 1.0), 0.05), 1.0)
