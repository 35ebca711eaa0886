"""Exponential smoothing of many series under many settings in one pass over time."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attangent.forecast.data.panel import Panel
from attangent.forecast.models.panels.grid import Grid
from attangent.forecast.models.panels.seasonality import seasonal_indices

Array = NDArray[np.float64]

LONGEST = 400
"""At most so many of the latest values of a series are gone through, or twelve seasons where that is more."""
PIECE = 256
"""Series that are gone through together: their states fit into the processor's cache."""


@dataclass(frozen=True)
class Smoothed:
    """Of every series and setting: mean squared errors by steps ahead, how many errors, and forecasts."""

    errors: dict[int, Array]
    """steps ahead -> (N, G)."""
    counts: dict[int, Array]
    """steps ahead -> (N,)."""
    forecasts: Array
    """(N, G, H)."""


def smooth(panel: Panel, horizon: int, grid: Grid, ahead: Sequence[int] = (1,)) -> Smoothed:
    """l_t = l' + alpha e, b_t = phi b + beta e, s_t = s + gamma e with l' = l + phi b, e = y_t - l' - s.

    A forecast h steps ahead is l + (phi + ... + phi^h) b + s. Errors are measured at the steps `ahead`, the
    first of which is 1; none is longer than the season where there is one.
    """
    panel = panel.latest(max(LONGEST, 12 * panel.period))
    parts = [
        _pass(panel.rows(start, start + PIECE), horizon, grid, ahead) for start in range(0, len(panel), PIECE)
    ]
    return Smoothed(
        {h: np.concatenate([part.errors[h] for part in parts]) for h in ahead},
        {h: np.concatenate([part.counts[h] for part in parts]) for h in ahead},
        np.concatenate([part.forecasts for part in parts]),
    )


def _pass(panel: Panel, horizon: int, grid: Grid, ahead: Sequence[int]) -> Smoothed:
    values, m, times = panel.values, panel.period, panel.values.shape[1]
    indices = seasonal_indices(panel)
    level, trend = _initial(panel, values - indices[:, np.arange(times) % m], grid)
    season = np.repeat(indices.T[:, :, None], len(grid.alpha), axis=2)  # (m, N, G)
    reach = np.cumsum(grid.phi ** np.arange(1, max(horizon, *ahead) + 1)[:, None], axis=0)  # (H, G)
    squares = {h: np.zeros_like(level) for h in ahead}
    past: deque[tuple[int, Array, Array]] = deque(maxlen=max(ahead))
    starts = times - panel.lengths
    for t in range(times):
        n = int(np.searchsorted(starts, t, side="right"))  # so many series have begun
        past.appendleft((n, level.copy(), trend.copy()))
        slot, target = season[t % m], values[:, t, None]
        for h in ahead[1:]:
            if len(past) >= h:
                k, old_level, old_trend = past[h - 1]
                far = target[:k] - old_level[:k] - old_trend[:k] * reach[h - 1] - slot[:k]
                squares[h][:k] += np.square(far)
        carried = level[:n] + grid.phi * trend[:n]
        error = target[:n] - carried - slot[:n]
        squares[1][:n] += np.square(error)
        level[:n] = carried + grid.alpha * error
        trend[:n] = grid.phi * trend[:n] + grid.beta * error
        slot[:n] += grid.gamma * error
    forecasts = level[:, :, None] + trend[:, :, None] * reach[:horizon].T
    forecasts += season[(times + np.arange(horizon)) % m].transpose(1, 2, 0)
    counts = {h: np.maximum(panel.lengths - h + 1, 1).astype(np.float64) for h in ahead}
    return Smoothed({h: squares[h] / counts[h][:, None] for h in ahead}, counts, forecasts)


def _initial(panel: Panel, adjusted: Array, grid: Grid) -> tuple[Array, Array]:
    """Level and trend (N, G) before the first value.

    Where there is a trend: a line through the first ten values. Else the mean of the first five; Theta's
    drift is a part of the slope of a line through the whole series.
    """
    early, slope = _line(panel, adjusted, 10)
    _, overall = _line(panel, adjusted, adjusted.shape[1])
    mean = _mean_of_first(panel, adjusted, 5)
    trending = (grid.phi > 0) & (grid.drift == 0)
    levels = np.where(trending, (early - slope)[:, None], mean[:, None])
    trends = np.where(trending, slope[:, None], grid.drift * overall[:, None])
    return levels, trends


def _first(panel: Panel, most: int) -> tuple[Array, NDArray[np.bool_]]:
    """Places (N, T) counted from the start of each series, and which are among its first `most`."""
    times = panel.values.shape[1]
    places = np.arange(times) - (times - panel.lengths)[:, None]
    return places.astype(np.float64), (places >= 0) & (places < most)


def _mean_of_first(panel: Panel, values: Array, most: int) -> Array:
    _, taken = _first(panel, most)
    return np.where(taken, values, 0.0).sum(axis=1) / taken.sum(axis=1)


def _line(panel: Panel, values: Array, most: int) -> tuple[Array, Array]:
    """Value at the first place and slope (N,) of the line through the first `most` values of each series."""
    places, taken = _first(panel, most)
    count = taken.sum(axis=1)
    x_mean = np.where(taken, places, 0.0).sum(axis=1) / count
    y_mean = np.where(taken, values, 0.0).sum(axis=1) / count
    x = np.where(taken, places - x_mean[:, None], 0.0)
    y = np.where(taken, values - y_mean[:, None], 0.0)
    slope = (x * y).sum(axis=1) / np.maximum(np.square(x).sum(axis=1), 1e-12)
    return y_mean - slope * x_mean, slope
