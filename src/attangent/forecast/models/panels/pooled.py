"""Ridge regression on windows of all series of a set: one linear map, as P5 has it for one series."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from attangent.forecast.data.panel import Panel, seasonal_scale
from attangent.forecast.models.panels.transform import Logarithms

Array = NDArray[np.float64]

PENALTIES = (1e-3, 1e-2, 0.03, 0.1, 0.3)
USUAL = 0.03
"""The penalty where there is nothing to choose it on."""
FEWEST = 60
"""Fewer windows than this are not fitted to."""
MOST = 200_000
"""More windows than this are thinned evenly."""


@dataclass(frozen=True)
class PooledRidge:
    """(y - x_L) / s = W'(x - x_L) / s [+ b], s the seasonal scale of the series; W by ridge over all series.

    The penalty is relative to the mean square of the inputs.
    """

    lookback: int
    weights: Array
    """(L, H); the last row is the intercept b, zero where there is none: x_L - x_L carries nothing."""

    def predict(self, panel: Panel) -> Array:
        """(N, H) from the last values of each series; only of use where these are `lookback` or more."""
        scale = seasonal_scale(panel)[:, None]
        windows = np.nan_to_num(panel.values[:, -self.lookback :])
        last = windows[:, -1:]
        inputs = (windows - last) / scale
        inputs[:, -1] = 1.0
        return last + scale * (inputs @ self.weights)


@dataclass(frozen=True)
class _Sums:
    """Second moments of scaled windows and their futures: X'X and X'Y over `count` windows."""

    count: int
    xx: Array
    xy: Array

    def solve(self, penalty: float, intercept: bool) -> Array:
        size = len(self.xx) if intercept else len(self.xx) - 1
        gram = self.xx[:size, :size] / self.count
        ridge = (penalty + 1e-9) * np.trace(gram) / size
        weights = np.linalg.solve(gram + ridge * np.eye(size), self.xy[:size] / self.count)
        return np.vstack([weights, np.zeros((len(self.xx) - size, weights.shape[1]))])


def pooled_ridges(panel: Panel, horizon: int, otherwise: Mapping[str, Array]) -> dict[str, Array]:
    """Forecasts (N, H) of ridges of three look-backs, with and without intercept, on series and logarithms.

    `otherwise` holds "theta" and "theta-log", which answer for series that are shorter than a look-back.
    """
    logs = Logarithms.of(panel)
    found: dict[str, Array] = {}
    for ending, scaled in (("", panel), ("-log", logs.panel)):
        usable = logs.usable if ending else np.ones(len(panel), dtype=bool)
        for kind, intercept in (("ridge", False), ("ridge-intercept", True)):
            answer = otherwise[f"theta{ending}"]
            for place, lookback in enumerate(lookbacks(panel)):
                model = fit_pooled(scaled, horizon, lookback, intercept, usable)
                if model is not None:
                    forecasts = model.predict(scaled)
                    if ending:
                        forecasts = logs.back(forecasts, answer)
                    long_enough = (panel.lengths >= lookback) & usable
                    answer = np.where(long_enough[:, None], forecasts, answer)
                found[f"{kind}-{place + 1}{ending}"] = answer
    return found


def lookbacks(panel: Panel) -> tuple[int, int, int]:
    """One, two and three seasons and a value, more where series are long; a few where there is no season."""
    m, long = panel.period, min(336, int(np.median(panel.lengths)) // 6)
    return (3, 5, max(7, long)) if m == 1 else (m + 1, 2 * m + 1, max(3 * m + 1, long))


def fit_pooled(
    panel: Panel, horizon: int, lookback: int, intercept: bool, usable: NDArray[np.bool_]
) -> PooledRidge | None:
    """The ridge, with the penalty that was best for the last `horizon` values; None for too few windows."""
    sums = _sums(panel, horizon, lookback, usable)
    if sums.count < FEWEST:
        return None
    penalty = _choose_penalty(panel, horizon, lookback, intercept, usable)
    return PooledRidge(lookback, sums.solve(penalty, intercept))


def _choose_penalty(
    panel: Panel, horizon: int, lookback: int, intercept: bool, usable: NDArray[np.bool_]
) -> float:
    earlier = panel.before(horizon)
    kept = int((earlier.lengths >= lookback).sum())
    sums = _sums(earlier, horizon, lookback, usable[: len(earlier)])
    if sums.count < FEWEST or not usable[:kept].any():
        return USUAL
    scored = earlier.rows(0, kept)
    actual = panel.values[:kept, panel.values.shape[1] - horizon :]
    scale = seasonal_scale(scored)[:, None]

    def error(penalty: float) -> float:
        forecasts = PooledRidge(lookback, sums.solve(penalty, intercept)).predict(scored)
        return float((np.abs(forecasts - actual) / scale)[usable[:kept]].mean())

    return min(PENALTIES, key=error)


def _sums(panel: Panel, horizon: int, lookback: int, usable: NDArray[np.bool_]) -> _Sums:
    """Sums over every window of every usable series; the last input of a window is 1, for the intercept."""
    width = lookback + horizon
    xx, xy, count = np.zeros((lookback, lookback)), np.zeros((lookback, horizon)), 0
    enough = np.flatnonzero(usable & (panel.lengths >= width))
    if len(enough) == 0:
        return _Sums(0, xx, xy)
    scale = seasonal_scale(panel)
    total = int((panel.lengths[enough] - width + 1).sum())
    stride = -(-total // MOST)
    for rows in np.array_split(enough, max(1, total * width // 4_000_000)):
        if len(rows) == 0:
            continue
        scaled = panel.values[rows] / scale[rows, None]
        windows = sliding_window_view(scaled, width, axis=1)[:, ::-1][:, ::stride]  # the latest is kept
        windows = windows.reshape(-1, width)
        windows = windows[np.isfinite(windows[:, 0])]
        last = windows[:, lookback - 1 : lookback]
        x, y = windows[:, :lookback] - last, windows[:, lookback:] - last
        x[:, -1] = 1.0
        xx, xy, count = xx + x.T @ x, xy + x.T @ y, count + len(x)
    return _Sums(count, xx, xy)
