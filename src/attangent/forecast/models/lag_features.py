"""Features of a series at an origin: levels over several spans, and values one season and one year before.

Index letters: r windows (a series and an origin each), h steps ahead, k features. t is the number of the
column after the origin.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attangent.forecast.data.panel import Panel, seasonal_scale

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]

MOST_WINDOWS = 6_000
MOST_NUMBERS = 2_000_000
"""Numbers of windows and of their features that are laid out for training; more are thinned evenly."""
LARGEST = 50.0
"""Scaled features and targets are clipped at this size."""
ALL = 10**9
"""Longer than any series."""


@dataclass(frozen=True)
class Windows:
    """Features and targets, relative to the level and the scale of each window's series.

    Attributes:
        x: (R, H, K), NaN if a season before the origin is unknown.
        y: (R, H).
        last: (N, H, K), features of every series at its end.
        level: (N,), mean of the last season.
        scale: (N,), mean absolute seasonal step.
    """

    x: Array
    y: Array
    last: Array
    level: Array
    scale: Array

    @classmethod
    def of(cls, panel: Panel, horizon: int, usable: Mask) -> "Windows":
        """Lay out the windows of the usable series, thinned evenly over series and times."""
        past = Past.of(panel)
        scale = seasonal_scale(panel)
        ends = np.full(len(panel), panel.values.shape[1])
        last, level = past.features(np.arange(len(panel)), ends, horizon)
        most = min(MOST_WINDOWS, MOST_NUMBERS // (horizon * last.shape[2]) + 1)
        rows, origins = _origins(panel, horizon, usable, most)
        x, base = past.features(rows, origins, horizon)
        y = panel.values[rows[:, None], origins[:, None] + np.arange(horizon)] - base[:, None]
        return cls(_clipped(x, scale[rows]), _clipped(y, scale[rows]), _clipped(last, scale), level, scale)

    def unscaled(self, forecasts: Array) -> Array:
        """Return forecasts (N, H) of the targets in the units of the series."""
        return self.level[:, None] + self.scale[:, None] * forecasts


def shortest(period: int) -> int:
    """Return the fewest values before an origin: two seasons, and at least five."""
    return max(2 * period, 5)


def _clipped(values: Array, scale: Array) -> Array:
    return np.clip(values / scale.reshape(-1, *[1] * (values.ndim - 1)), -LARGEST, LARGEST)


def _origins(panel: Panel, horizon: int, usable: Mask, most: int) -> tuple[Integers, Integers]:
    """Return series and origin of at most about `most` windows; neighbouring series take different times."""
    end = panel.values.shape[1] - horizon
    counts = np.maximum(panel.lengths - horizon - shortest(panel.period) + 1, 0) * usable
    stride = max(1, -(-int(counts.sum()) // most))
    offset = np.arange(len(panel)) % stride
    per_row = np.maximum(-(-(counts - offset) // stride), 0)
    rows = np.repeat(np.arange(len(panel)), per_row)
    number = np.arange(len(rows)) - np.repeat(np.cumsum(per_row) - per_row, per_row)
    return rows, end - offset[rows] - stride * number


@dataclass(frozen=True)
class Past:
    """Sums over the past of a panel, from which means over any span follow.

    Attributes:
        panel: The series.
        start: (N,), first column of each series.
        sums: (N, T + 1), sums of all values before a column.
        phases: (N, T), sums of the values a whole number of seasons before a column, with its own.
    """

    panel: Panel
    start: Integers
    sums: Array
    phases: Array

    @classmethod
    def of(cls, panel: Panel) -> "Past":
        """Sum once over time."""
        values = np.nan_to_num(panel.values)
        sums = np.concatenate((np.zeros((len(values), 1)), np.cumsum(values, axis=1)), axis=1)
        phases = values.copy()
        for t in range(panel.period, values.shape[1]):
            phases[:, t] += phases[:, t - panel.period]
        return cls(panel, panel.values.shape[1] - panel.lengths, sums, phases)

    def features(self, rows: Integers, origins: Integers, horizon: int) -> tuple[Array, Array]:
        """Return features (R, H, K) less the level, and the level (R,): the mean of the last season."""
        m = self.panel.period
        level = self._mean(rows, origins - m, origins)
        spans = (2, 4, 8, 16) if m == 1 else (max(2, m // 3), 2 * m, 4 * m, 8 * m)
        recent = [self._at(rows, origins - back) for back in (1, 2)]
        recent += [self._mean(rows, origins - span, origins) for span in (*spans, ALL)]
        columns = [np.repeat((values - level)[:, None], horizon, axis=1) for values in recent]
        r = rows[:, None]
        t = origins[:, None]
        h = np.arange(1, horizon + 1)
        if m > 1:
            columns += self._of_season(r, t, h)
        if self._has_longer(horizon):
            columns += self._of_longer_season(r, t, h)
        return np.stack(columns, axis=2), level

    def _of_season(self, r: Integers, t: Integers, h: Integers) -> list[Array]:
        """Return how far the step's phase lay from the level, over the last 1, 2, 4 and all seasons."""
        m = self.panel.period
        column = t + h - 1 - -(-h // m) * m
        columns = []
        for seasons in (1, 2, 4, ALL):
            known = np.clip((column - self.start[r]) // m + 1, 0, seasons)
            before = column - known * m
            total = self.phases[r, np.maximum(column, 0)]
            total = total - np.where(before >= 0, self.phases[r, np.maximum(before, 0)], 0.0)
            mean = np.where(known > 0, total / np.maximum(known, 1), np.nan)
            columns.append(mean - self._mean(r, t - np.maximum(known, 1) * m, t))
        return columns

    def _has_longer(self, horizon: int) -> bool:
        needed = self.panel.longer + self.panel.period + horizon + 10
        return self.panel.longer > 0 and bool(np.median(self.panel.lengths) >= needed)

    def _of_longer_season(self, r: Integers, t: Integers, h: Integers) -> list[Array]:
        """Return the change over the same steps one longer season before: as it was, and smoothed twice."""
        m = self.panel.period
        back = -(-h // self.panel.longer) * self.panel.longer
        column = t + h - 1 - back
        then = self._mean(r, t - back - m, t - back)
        known = t - back - m >= self.start[r]
        columns = [self._at(r, column)]
        for reach in (max(m // 2, 1), 2 * m):
            stop = np.minimum(column + reach + 1, t)
            columns.append(self._mean(r, column - reach, stop))
        return [np.where(known, values - then, np.nan) for values in columns]

    def _mean(self, r: Integers, start: Integers, stop: Integers) -> Array:
        """Return the mean of the known values from a column to before another; NaN if there is none."""
        first = np.maximum(start, self.start[r])
        count = stop - first
        total = self.sums[r, np.maximum(stop, 0)] - self.sums[r, np.minimum(first, self.sums.shape[1] - 1)]
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)

    def _at(self, r: Integers, column: Integers) -> Array:
        values = self.panel.values[r, np.clip(column, 0, self.panel.values.shape[1] - 1)]
        return np.where(column >= self.start[r], values, np.nan)
