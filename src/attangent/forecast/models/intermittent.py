"""Intermittent demand: the mean of series with many zeros, by exponential smoothing of its parts."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from attangent.forecast.data.panel import Panel
from attangent.forecast.models.base import PanelModel

Array = NDArray[np.float64]

RATES = (0.02, 0.05, 0.1, 0.2)
LEVELS = (1, 2, 3, 4, 6, 12)
"""Numbers of steps that IMAPA sums; the mean interval between demands is ADIDA's."""


class Intermittent(PanelModel):
    """A flat forecast of the mean demand per step.

    "intermittent-tsb-*" is the probability of a demand times its size, both smoothed (Teunter, Syntetos and
    Babai); "intermittent-adida-*" smooths sums over the mean interval between demands, and
    "intermittent-imapa-*" averages that over several intervals.
    """

    families = ("intermittent",)
    zeros_only = True

    def forecast(self, panel: Panel, horizon: int, earlier: Mapping[str, Array]) -> dict[str, Array]:
        """Return a member per model and smoothing rate, constant over the steps."""
        means: dict[str, Array] = {}
        sums = {level: _sums(panel.values, level) for level in LEVELS}
        interval = _nearest_level(panel)
        for rate in RATES:
            smoothed = np.stack([_smoothed(sums[level], rate) / level for level in LEVELS])
            means[f"intermittent-tsb-{rate:g}"] = _tsb(panel.values, rate)
            means[f"intermittent-adida-{rate:g}"] = np.take_along_axis(smoothed, interval[None], axis=0)[0]
            means[f"intermittent-imapa-{rate:g}"] = smoothed.mean(axis=0)
        return {name: np.repeat(mean[:, None], horizon, axis=1) for name, mean in means.items()}


def _nearest_level(panel: Panel) -> NDArray[np.int64]:
    """(N,): index of the level that is nearest to the mean interval between demands."""
    demands = np.maximum((np.nan_to_num(panel.values) != 0).sum(axis=1), 1)
    interval = panel.lengths / demands
    return np.abs(interval[:, None] - np.array(LEVELS)).argmin(axis=1)


def _sums(values: Array, level: int) -> Array:
    """Sum `level` neighbouring values, from the end; NaN if one of them is unknown."""
    count = values.shape[1] // level
    if count == 0:
        return np.nansum(values, axis=1, keepdims=True) * level / values.shape[1]
    return values[:, values.shape[1] - count * level :].reshape(len(values), count, level).sum(axis=2)


def _smoothed(values: Array, rate: float) -> Array:
    """(N,): l_t = l + max(rate, 1 / t) (y_t - l): a mean at first, then exponential smoothing."""
    level = np.zeros(len(values))
    seen = np.zeros(len(values))
    for column in values.T:
        known = np.isfinite(column)
        seen += known
        step = np.maximum(rate, 1 / np.maximum(seen, 1))
        level = np.where(known, level + step * (np.nan_to_num(column) - level), level)
    return level


def _tsb(values: Array, rate: float) -> Array:
    """(N,): smoothed probability of a demand times the smoothed size of demands."""
    occurs = np.where(np.isfinite(values), (values != 0).astype(np.float64), np.nan)
    sizes = np.where(values != 0, values, np.nan)
    return _smoothed(occurs, rate) * _smoothed(sizes, rate)
