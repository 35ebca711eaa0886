"""Intermittent demand: the mean of series with many zeros, by exponential smoothing of its parts."""

from collections.abc import Mapping

import numpy as np

from attangent.forecast.data.panel import Array, Integers, Panel
from attangent.forecast.models.base import PanelModel

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
        smoothed = np.stack([_smoothed(_sums(panel.values, level)) / level for level in LEVELS])
        interval = _nearest_level(panel)
        adida = np.take_along_axis(smoothed, interval[None, None, :], axis=0)[0]
        occurs = np.where(np.isfinite(panel.values), panel.values != 0, np.nan)
        tsb = _smoothed(occurs) * _smoothed(np.where(panel.values != 0, panel.values, np.nan))
        for k, rate in enumerate(RATES):
            means[f"intermittent-tsb-{rate:g}"] = tsb[k]
            means[f"intermittent-adida-{rate:g}"] = adida[k]
            means[f"intermittent-imapa-{rate:g}"] = smoothed[:, k].mean(axis=0)
        return {name: np.repeat(mean[:, None], horizon, axis=1) for name, mean in means.items()}


def _nearest_level(panel: Panel) -> Integers:
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


def _smoothed(values: Array) -> Array:
    """(R, N) per rate: l_t = l + max(rate, 1 / t) (y_t - l), a mean at first and then smoothing."""
    known = np.isfinite(values)
    filled = np.where(known, values, 0.0).T
    seen = np.maximum(np.cumsum(known, axis=1), 1).T
    level = np.zeros((len(RATES), len(values)))
    rates = np.array(RATES)[:, None]
    for column, present, count in zip(filled, known.T, seen, strict=True):
        level += np.maximum(rates, 1 / count) * present * (column - level)
    return level
