"""Many series at once: one matrix, all series ending in its last column, the longest in its first row."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attangent._core.checks import check_size
from attangent._core.errors import AttangentError

Array = NDArray[np.float64]

SHORTEST = 3
"""A series of fewer values is not forecast."""
LARGEST = 1e100
"""Squares of larger values, summed and multiplied, are no longer numbers."""


@dataclass(frozen=True)
class Panel:
    """`values` (N, T): row i holds `lengths[i]` values at its end and NaN before them; lengths never grow.

    Index letters of panels: n series, t times, h steps ahead, m the `period`, the number of steps after which
    the calendar repeats (1 where it does not). `category` (N,) numbers the kind of each series, from zero.
    """

    values: Array
    lengths: NDArray[np.int64]
    period: int
    category: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, series: Sequence[Array], period: int, category: NDArray[np.int64] | None = None) -> "Panel":
        """A panel of series given longest first; each has at least three finite values."""
        check_size("period", period)
        lengths = np.array([len(one) for one in series], dtype=np.int64)
        if len(lengths) == 0 or lengths.min() < SHORTEST or (np.diff(lengths) > 0).any():
            raise AttangentError(f"expected series of at least {SHORTEST} values, the longest first")
        values = np.full((len(series), lengths[0]), np.nan)
        for row, one in zip(values, series, strict=True):
            row[len(row) - len(one) :] = one
        if np.isfinite(values).sum() != lengths.sum():
            raise AttangentError("expected finite values: fill or drop missing ones first")
        if np.nanmax(np.abs(values)) > LARGEST:
            raise AttangentError(
                f"a value is {np.nanmax(np.abs(values)):g}, expected at most {LARGEST:g}: give the series in "
                "larger units"
            )
        if category is not None and len(category) != len(series):
            raise AttangentError(f"{len(category)} categories were given for {len(series)} series")
        return cls(values, lengths, period, category)

    def __len__(self) -> int:
        return len(self.lengths)

    def before(self, back: int) -> "Panel":
        """The panel without the last `back` values, of the series that keep at least three; may be empty."""
        kept = int((self.lengths - back >= SHORTEST).sum())
        values = self.values[:kept, : self.values.shape[1] - back]
        return Panel(values, self.lengths[:kept] - back, self.period, self._kinds(slice(kept)))

    def latest(self, most: int) -> "Panel":
        """The last `most` values of each series."""
        return Panel(self.values[:, -most:], np.minimum(self.lengths, most), self.period, self.category)

    def rows(self, start: int, stop: int) -> "Panel":
        """Some of the series, without columns that are empty for all of them."""
        lengths = self.lengths[start:stop]
        values = self.values[start:stop, self.values.shape[1] - lengths[0] :]
        return Panel(values, lengths, self.period, self._kinds(slice(start, stop)))

    def with_values(self, values: Array) -> "Panel":
        return Panel(values, self.lengths, self.period, self.category)

    def _kinds(self, kept: slice) -> NDArray[np.int64] | None:
        return None if self.category is None else self.category[kept]


def seasonal_scale(panel: Panel) -> Array:
    """s_n = mean_t |y_t - y_{t-m}|, the error that MASE divides by; one step where a series has no season.

    Never zero: a series that repeats exactly gets its mean size, one of zeros 1.
    """
    size = np.nanmean(np.abs(panel.values), axis=1)
    one = _mean_step(panel.values, 1)
    scale = _mean_step(panel.values, panel.period) if panel.period > 1 else one
    scale = np.where(panel.lengths > panel.period, scale, one)
    floor = 1e-9 * size
    scale = np.where(scale > floor, scale, one)
    return np.where(scale > floor, scale, np.where(size > 0, size, 1.0))


def _mean_step(values: Array, lag: int) -> Array:
    if values.shape[1] <= lag:
        return np.zeros(len(values))
    steps = np.abs(values[:, lag:] - values[:, :-lag])
    known = np.isfinite(steps)
    return np.where(known, steps, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
