"""Series too short to learn from: their level and spread follow what such short series did in the set."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from attangent.forecast.data.panel import Array, Integers, Mask, Panel

SHORT = 8
"""Series with fewer values are forecast from the longer series of their set, cut to the same length."""
FEWEST_WINDOWS = 30
MOST_WINDOWS = 6
"""Number of windows per longer series, as many whole seasons apart as the horizon needs."""
SCALE_COUNTS_FOR = 3.0
"""The usual step of the set, relative to the level, counts as much as this many steps of a series."""
COVERED_TIMES = 0.9
"""Intervals widen until 80 % of the errors are inside at this fraction of times.

Series of a set share what happens at a time, so 80 % on average would be far less at some. Chosen with the
other constants on training parts of the sets of docs/competitions.md.
"""
WIDEST = 2.5
"""Largest factor by which intervals widen because times differ."""
PENALTIES = (0.1, 1.0, 10.0, 100.0)
"""Ridge penalties relative to the number of windows."""


def short_forecasts(panel: Panel, horizon: int, probabilities: Array) -> Iterator[tuple[Mask, Array, Array]]:
    """Yield rows, forecasts (n, H) and quantiles (n, H, Q) of the short series of each length.

    Nothing is yielded if the panel has too few longer series to learn from.
    """
    for length in np.unique(panel.lengths[panel.lengths < SHORT]):
        rows = panel.lengths == length
        windows, sources = cut_windows(panel, int(length), horizon)
        if len(windows) >= FEWEST_WINDOWS:
            fit = ShortFit.of(windows, sources, int(length))
            yield rows, *fit.predict(panel.values[rows, -length:], probabilities)


def cut_windows(panel: Panel, length: int, horizon: int) -> tuple[Array, Integers]:
    """Return windows (R, length + horizon) of the longer series, and the row of the panel of each.

    They end whole seasons before the end of the series, so that the season is the one to forecast. Those
    nearest to the end come first.
    """
    width = length + horizon
    first = -(-horizon // panel.period) * panel.period - horizon
    windows = [np.empty((0, width))]
    sources = [np.empty(0, dtype=np.int64)]
    apart = -(-horizon // panel.period) * panel.period
    for back in range(first, first + MOST_WINDOWS * apart, apart):
        longer = np.flatnonzero(panel.lengths >= max(width + back, SHORT))
        if len(longer):
            stop = panel.values.shape[1] - back
            windows.append(panel.values[longer, stop - width : stop])
            sources.append(longer)
    return np.concatenate(windows), np.concatenate(sources)


@dataclass(frozen=True)
class ShortFit:
    """(y - x_L) / s = W'(x - x_L) / s + b over windows, with s the shrunk step of a window.

    Attributes:
        weights: (L, H), the last row is b; zero if repeating the last value was better on held-out windows.
        ratio: Usual step relative to the level.
        least: Scale of series of zeros: that of the steadiest tenth of the windows.
        errors: Scaled held-out errors (R, H).
        wider: Factor on the intervals.
    """

    weights: Array
    ratio: float
    least: float
    errors: Array
    wider: float

    @classmethod
    def of(cls, windows: Array, sources: Integers, length: int) -> "ShortFit":
        """Choose the penalty, or no weights; windows that end at one time are forecast from the others.

        The weights must be clearly better than repeating the last value, and gain at every time at least half
        of what they gain on average: series of one time share what happened then. With a single time, each
        half of the series is forecast from the other.
        """
        times = np.cumsum(np.diff(sources, prepend=-1) < 0).astype(np.int64)
        folds = times if times[-1] > 0 else sources % 2
        inputs = windows[:, :length]
        steps = np.abs(np.diff(inputs, axis=1)).mean(axis=1)
        level = np.abs(inputs).mean(axis=1)
        ratio = float(np.median(steps[level > 0] / level[level > 0])) if (level > 0).any() else 1.0
        scales = _scale(inputs, ratio, 0.0)
        least = float(np.quantile(scales[scales > 0], 0.1)) if (scales > 0).any() else 1e-9
        x = _inputs(inputs, ratio, least)
        y = (windows[:, length:] - inputs[:, -1:]) / _scale(inputs, ratio, least)[:, None]
        errors: dict[float | None, Array] = {None: y}
        for penalty in PENALTIES:
            left = y.copy()
            for fold in np.unique(folds):
                here = folds == fold
                left[here] -= x[here] @ _ridge(x[~here], y[~here], penalty)
            errors[penalty] = left
        best = min(errors, key=lambda penalty: float(np.abs(errors[penalty]).mean()))
        gain = (np.abs(y) - np.abs(errors[best])).mean(axis=1)
        worst = min(gain[folds == fold].mean() for fold in np.unique(folds))
        if worst <= 0.5 * max(gain.mean(), 0.0) or gain.mean() < 2 * gain.std() / np.sqrt(len(gain)):
            best = None
        weights = np.zeros((length, y.shape[1])) if best is None else _ridge(x, y, best)
        return cls(weights, ratio, least, errors[best], _widening(errors[best], folds))

    def predict(self, inputs: Array, probabilities: Array) -> tuple[Array, Array]:
        """Return forecasts (n, H) and quantiles (n, H, Q) of short series (n, L)."""
        scale = _scale(inputs, self.ratio, self.least)[:, None]
        middle = inputs[:, -1:] + scale * (_inputs(inputs, self.ratio, self.least) @ self.weights)
        count = len(self.errors)
        ranks = np.clip((probabilities * (count + 1) - 1) / max(count - 1, 1), 0.0, 1.0)
        spread = np.quantile(self.errors, ranks, axis=0).T  # (H, Q)
        return middle, middle[:, :, None] + self.wider * scale[:, :, None] * spread[None]


def _widening(errors: Array, folds: Integers) -> float:
    """Return the factor with which intervals from all other times cover 80 % of the errors at most times."""
    if len(np.unique(folds)) == 1:
        return 1.0
    factors = []
    for fold in np.unique(folds):
        low, middle, high = np.quantile(errors[folds != fold], (0.1, 0.5, 0.9), axis=0)
        rest = errors[folds == fold] - middle
        side = np.where(rest > 0, high - middle, middle - low)
        factors.append(np.quantile(np.abs(rest) / np.maximum(side, 1e-9), 0.8))
    return float(np.clip(np.quantile(factors, COVERED_TIMES), 1.0, WIDEST))


def _scale(inputs: Array, ratio: float, least: float) -> Array:
    """(n,) mean absolute step, shrunk towards the usual one for the level; `least` for series of zeros."""
    count = inputs.shape[1] - 1
    steps = np.abs(np.diff(inputs, axis=1)).mean(axis=1)
    usual = ratio * np.abs(inputs).mean(axis=1)
    scale = (count * steps + SCALE_COUNTS_FOR * usual) / (count + SCALE_COUNTS_FOR)
    return np.where(scale > 0, scale, least)


def _inputs(values: Array, ratio: float, least: float) -> Array:
    """(n, L): scaled distances from the last value, and a constant in its place."""
    x = (values - values[:, -1:]) / _scale(values, ratio, least)[:, None]
    x[:, -1] = 1.0
    return x


def _ridge(x: Array, y: Array, penalty: float) -> Array:
    return np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ y).astype(np.float64)
