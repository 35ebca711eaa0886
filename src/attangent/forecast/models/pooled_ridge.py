"""Ridge regression on windows of all series of a panel: one linear map from the last values to the next."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from attangent.forecast.data.panel import Array, Integers, Logarithms, Mask, Panel
from attangent.forecast.models.base import PanelModel

Constants = Literal["one", "category"]
"""What is added to every forecast: an intercept, or an intercept per category of series."""

PENALTY = 0.01
"""Relative to the mean square of the inputs; choosing it by held-out values was no better."""
FEWEST_WINDOWS = 60
MOST_WINDOWS = 30_000
"""More windows than this are thinned evenly."""
PIECE_VALUES = 4_000_000
"""Number of values that windows are laid out in at a time."""


class PooledRidge(PanelModel):
    """(y - x_L) / s = W'(x - x_L) / s + b, s the seasonal scale of the series; ridge over all series.

    There is a member per look-back with one intercept b (and with one per category if series have
    categories), on the series and ("-log") on the logarithms of positive ones.
    """

    families = ("ridge",)

    def forecast(self, panel: Panel, horizon: int, earlier: Mapping[str, Array]) -> dict[str, Array]:
        """Return "ridge-1" to "ridge-3", "ridge-category-1" and so on; short series get Theta's forecast."""
        logs = Logarithms.of(panel)
        kinds: dict[str, Constants] = {"ridge": "one"}
        if panel.category is not None:
            kinds["ridge-category"] = "category"
        forecasts: dict[str, Array] = {}
        for ending, scaled in (("", panel), ("-log", logs.panel)):
            usable = logs.usable if ending else np.ones(len(panel), dtype=bool)
            fits = [WindowMoments.of(scaled, horizon, lookback, usable) for lookback in lookbacks(panel)]
            for kind, constants in kinds.items():
                # Each look-back falls back on the next shorter one, and the shortest on Theta.
                answer = earlier[f"theta{ending}"]
                for number, sums in enumerate(fits, start=1):
                    if sums.count >= FEWEST_WINDOWS:
                        values = forecasts_of(scaled, sums.lookback, sums.weights(PENALTY, constants))
                        values = logs.back(values, answer) if ending else values
                        long_enough = (panel.lengths >= sums.lookback) & usable
                        answer = np.where(long_enough[:, None], values, answer)
                    forecasts[f"{kind}-{number}{ending}"] = answer
        return forecasts


def lookbacks(panel: Panel) -> tuple[int, int, int]:
    """Return one, two and three seasons plus a value, more for long series; a few values without a season."""
    m = panel.period
    long = min(336, int(np.median(panel.lengths)) // 6)
    return (3, 5, max(7, long)) if m == 1 else (m + 1, 2 * m + 1, max(3 * m + 1, long))


@dataclass(frozen=True)
class WindowMoments:
    """Second moments X'X and X'Y over `count` scaled windows and their futures.

    Inputs are x - x_L, so their last column would be zero; it holds the constant 1 instead, and one column
    per category follows. Weights are (L + G, H) in the same order.
    """

    count: int
    lookback: int
    xx: Array
    xy: Array

    @classmethod
    def of(cls, panel: Panel, horizon: int, lookback: int, usable: Mask) -> "WindowMoments":
        """Sum over every window of every usable series."""
        width = lookback + horizon
        kinds = 0 if panel.category is None else int(panel.category.max()) + 1
        xx = np.zeros((lookback + kinds, lookback + kinds))
        xy = np.zeros((lookback + kinds, horizon))
        count = 0
        enough = np.flatnonzero(usable & (panel.lengths >= width))
        if len(enough) == 0:
            return cls(0, lookback, xx, xy)
        scale = panel.scale
        total = int((panel.lengths[enough] - width + 1).sum())
        stride = -(-total // MOST_WINDOWS)
        for rows in np.array_split(enough, max(1, total * width // PIECE_VALUES)):
            if len(rows) == 0:
                continue
            scaled = panel.values[rows] / scale[rows, None]
            # Thinning goes backwards in time, so that the latest window of every series is always used.
            windows = sliding_window_view(scaled, width, axis=1)[:, ::-1][:, ::stride]
            category = None if panel.category is None else np.repeat(panel.category[rows], windows.shape[1])
            windows = windows.reshape(-1, width)
            known = np.isfinite(windows[:, 0])
            windows = windows[known]
            category = None if category is None else category[known]
            last = windows[:, lookback - 1 : lookback]
            x = _with_constants(windows[:, :lookback] - last, category, kinds)
            y = windows[:, lookback:] - last
            xx = xx + x.T @ x
            xy = xy + x.T @ y
            count += len(x)
        return cls(count, lookback, xx, xy)

    def weights(self, penalty: float, constants: Constants) -> Array:
        """Solve for W (L + G, H); the penalty is relative to the mean square of the inputs."""
        used = np.ones(len(self.xx), dtype=bool)
        used[self.lookback - 1] = constants == "one"
        used[self.lookback :] = constants == "category"
        gram = self.xx[np.ix_(used, used)] / self.count
        # Windows of constant series are all zero; any positive ridge then gives zero weights.
        ridge = (penalty + 1e-9) * np.trace(gram) / len(gram) or 1.0
        weights = np.zeros(self.xy.shape)
        weights[used] = np.linalg.solve(gram + ridge * np.eye(len(gram)), self.xy[used] / self.count)
        return weights


def _with_constants(windows: Array, category: Integers | None, kinds: int) -> Array:
    """Set the last column of windows (n, L) to 1 and append the indicators of `kinds` categories."""
    windows[:, -1] = 1.0
    if category is None or kinds == 0:
        return windows
    return np.hstack([windows, np.eye(kinds)[category]])


def forecasts_of(panel: Panel, lookback: int, weights: Array) -> Array:
    """Forecast (N, H) from the last values; meaningless for series shorter than the look-back."""
    scale = panel.scale[:, None]
    windows = np.nan_to_num(panel.values[:, -lookback:])
    last = windows[:, -1:]
    inputs = _with_constants((windows - last) / scale, panel.category, len(weights) - lookback)
    return last + scale * (inputs @ weights)
