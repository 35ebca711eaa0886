"""Models that see one series at a time: naive forecasts, exponential smoothing, Theta."""

import numpy as np
from numpy.typing import NDArray

from attangent.forecast.data.panel import Panel
from attangent.forecast.models.panels.grid import posterior, settings
from attangent.forecast.models.panels.smoothing import Smoothed, smooth
from attangent.forecast.models.panels.transform import Logarithms

Array = NDArray[np.float64]

TEMPER = 0.5
"""Errors several steps ahead overlap, so that they count for half of what independent ones would."""


def last_value(panel: Panel, horizon: int) -> Array:
    """The last value again and again, (N, H)."""
    return np.repeat(panel.values[:, -1:], horizon, axis=1)


def last_season(panel: Panel, horizon: int) -> Array:
    """The last season again and again; the last value where a series is shorter than a season."""
    m = min(panel.period, panel.values.shape[1])
    repeated = panel.values[:, panel.values.shape[1] - m :][:, np.arange(horizon) % m]
    return np.where((panel.lengths >= panel.period)[:, None], repeated, last_value(panel, horizon))


def smoothing_and_theta(panel: Panel, horizon: int) -> dict[str, Array]:
    """Forecasts (N, H) of "smoothing" and "theta", each on the series and ("-log") on their logarithms.

    Smoothing averages all settings of the grid by their squared errors at several steps ahead; Theta those
    with a drift, by their errors one step ahead (by errors further ahead it did no better on training parts).
    """
    found = _on(panel, horizon, persistent_trends=True)
    logs = Logarithms.of(panel)
    if logs.usable.any():
        for name, forecasts in _on(logs.panel, horizon, persistent_trends=False).items():
            found[f"{name}-log"] = logs.back(forecasts, found[name])
    else:
        found |= {f"{name}-log": forecasts for name, forecasts in found.items()}
    return found


def steps_ahead(period: int, horizon: int) -> tuple[int, ...]:
    """The steps at which smoothing is judged: 1 to about a season, none beyond the horizon."""
    wanted = (1, 2, 3) if period == 1 else (1, max(2, period // 4), max(3, period // 2), period)
    return tuple(sorted({min(step, horizon) for step in wanted} | {1}))


def _on(panel: Panel, horizon: int, persistent_trends: bool) -> dict[str, Array]:
    grid = settings(panel.period, persistent_trends)
    ahead = steps_ahead(panel.period, horizon)
    smoothed = smooth(panel, horizon, grid, ahead)
    floor = np.square(1e-6 * np.nanmax(np.abs(panel.values), axis=1))[:, None] + 1e-300
    several = TEMPER * np.mean([_evidence(smoothed, h, floor) for h in ahead], axis=0)
    drifts = grid.drift > 0
    return {
        "smoothing": _averaged(posterior(several), smoothed.forecasts),
        "theta": _averaged(
            posterior(_evidence(smoothed, 1, floor)[:, drifts]), smoothed.forecasts[:, drifts]
        ),
    }


def _evidence(smoothed: Smoothed, step: int, floor: Array) -> Array:
    """The logarithm of the likelihood, -n/2 log(mean squared error), (N, G)."""
    return -0.5 * smoothed.counts[step][:, None] * np.log(smoothed.errors[step] + floor)


def _averaged(weights: Array, forecasts: Array) -> Array:
    return np.einsum("ng,ngh->nh", weights, forecasts)
