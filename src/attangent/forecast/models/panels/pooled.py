"""Ridge regression on windows of all series of a set: one linear map, as P5 has it for one series."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from attangent.forecast.data.panel import Panel, seasonal_scale
from attangent.forecast.models.panels.transform import Logarithms

Array = NDArray[np.float64]
Constants = Literal["none", "one", "category"]
"""What is added whatever the window: nothing, an intercept, or one for each category of series."""

PENALTIES = (1e-3, 1e-2, 0.03, 0.1, 0.3)
USUAL = 0.03
"""The penalty where there is nothing to choose it on."""
FEWEST = 60
"""Fewer windows than this are not fitted to."""
MOST = 200_000
"""More windows than this are thinned evenly."""


@dataclass(frozen=True)
class PooledRidge:
    """(y - x_L) / s = W'(x - x_L) / s + b, s the seasonal scale of the series; ridge over all series.

    b is zero, the same for all series, or that of the series' category. The penalty is relative to the mean
    square of the inputs.
    """

    lookback: int
    weights: Array
    """(L + G, H): x_L - x_L carries nothing, so row L holds the common intercept; then a row per category."""

    def predict(self, panel: Panel) -> Array:
        """(N, H) from the last values of each series; only of use where these are `lookback` or more."""
        scale = seasonal_scale(panel)[:, None]
        windows = np.nan_to_num(panel.values[:, -self.lookback :])
        last = windows[:, -1:]
        kinds = len(self.weights) - self.lookback
        inputs = _with_constants((windows - last) / scale, panel.category, kinds)
        return last + scale * (inputs @ self.weights)


def _with_constants(windows: Array, category: NDArray[np.int64] | None, kinds: int) -> Array:
    """Windows (n, L) with 1 in the last column and, of `kinds` more, in that of the category."""
    windows[:, -1] = 1.0
    if category is None or kinds == 0:
        return windows
    return np.hstack([windows, np.eye(kinds)[category]])


@dataclass(frozen=True)
class _Sums:
    """Second moments of scaled windows and their futures: X'X and X'Y over `count` windows."""

    count: int
    lookback: int
    xx: Array
    xy: Array

    def solve(self, penalty: float, constants: Constants) -> Array:
        used = np.ones(len(self.xx), dtype=bool)
        used[self.lookback - 1] = constants == "one"
        used[self.lookback :] = constants == "category"
        gram = self.xx[np.ix_(used, used)] / self.count
        ridge = (penalty + 1e-9) * np.trace(gram) / len(gram)
        weights = np.zeros(self.xy.shape)
        weights[used] = np.linalg.solve(gram + ridge * np.eye(len(gram)), self.xy[used] / self.count)
        return weights


def pooled_ridges(panel: Panel, horizon: int, otherwise: Mapping[str, Array]) -> dict[str, Array]:
    """Forecasts (N, H) of ridges of three look-backs, with and without intercept, on series and logarithms.

    Where series have categories, also with an intercept for each of these.
    `otherwise` holds "theta" and "theta-log", which answer for series that are shorter than a look-back.
    """
    logs = Logarithms.of(panel)
    found: dict[str, Array] = {}
    for ending, scaled in (("", panel), ("-log", logs.panel)):
        usable = logs.usable if ending else np.ones(len(panel), dtype=bool)
        for kind, constants in _kinds(panel).items():
            answer = otherwise[f"theta{ending}"]
            for place, lookback in enumerate(lookbacks(panel)):
                model = fit_pooled(scaled, horizon, lookback, constants, usable)
                if model is not None:
                    forecasts = model.predict(scaled)
                    if ending:
                        forecasts = logs.back(forecasts, answer)
                    long_enough = (panel.lengths >= lookback) & usable
                    answer = np.where(long_enough[:, None], forecasts, answer)
                found[f"{kind}-{place + 1}{ending}"] = answer
    return found


def _kinds(panel: Panel) -> dict[str, Constants]:
    kinds: dict[str, Constants] = {"ridge": "none", "ridge-intercept": "one"}
    return kinds if panel.category is None else {**kinds, "ridge-category": "category"}


def lookbacks(panel: Panel) -> tuple[int, int, int]:
    """One, two and three seasons and a value, more where series are long; a few where there is no season."""
    m, long = panel.period, min(336, int(np.median(panel.lengths)) // 6)
    return (3, 5, max(7, long)) if m == 1 else (m + 1, 2 * m + 1, max(3 * m + 1, long))


def fit_pooled(
    panel: Panel, horizon: int, lookback: int, constants: Constants, usable: NDArray[np.bool_]
) -> PooledRidge | None:
    """The ridge, with the penalty that was best for the last `horizon` values; None for too few windows."""
    sums = _sums(panel, horizon, lookback, usable)
    if sums.count < FEWEST:
        return None
    penalty = _choose_penalty(panel, horizon, lookback, constants, usable)
    return PooledRidge(lookback, sums.solve(penalty, constants))


def _choose_penalty(
    panel: Panel, horizon: int, lookback: int, constants: Constants, usable: NDArray[np.bool_]
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
        forecasts = PooledRidge(lookback, sums.solve(penalty, constants)).predict(scored)
        return float((np.abs(forecasts - actual) / scale)[usable[:kept]].mean())

    return min(PENALTIES, key=error)


def _sums(panel: Panel, horizon: int, lookback: int, usable: NDArray[np.bool_]) -> _Sums:
    """Sums over every window of every usable series."""
    width, kinds = lookback + horizon, 0 if panel.category is None else int(panel.category.max()) + 1
    size = lookback + kinds
    xx, xy, count = np.zeros((size, size)), np.zeros((size, horizon)), 0
    enough = np.flatnonzero(usable & (panel.lengths >= width))
    if len(enough) == 0:
        return _Sums(0, lookback, xx, xy)
    scale = seasonal_scale(panel)
    total = int((panel.lengths[enough] - width + 1).sum())
    stride = -(-total // MOST)
    for rows in np.array_split(enough, max(1, total * width // 4_000_000)):
        if len(rows) == 0:
            continue
        scaled = panel.values[rows] / scale[rows, None]
        windows = sliding_window_view(scaled, width, axis=1)[:, ::-1][:, ::stride]  # the latest is kept
        category = None if panel.category is None else np.repeat(panel.category[rows], windows.shape[1])
        windows = windows.reshape(-1, width)
        known = np.isfinite(windows[:, 0])
        windows, category = windows[known], None if category is None else category[known]
        last = windows[:, lookback - 1 : lookback]
        x = _with_constants(windows[:, :lookback] - last, category, kinds)
        y = windows[:, lookback:] - last
        xx, xy, count = xx + x.T @ x, xy + x.T @ y, count + len(x)
    return _Sums(count, lookback, xx, xy)
