"""Many series at once: one matrix, all series ending in its last column, the longest in its first row."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attangent._core.checks import check_size
from attangent._core.errors import AttangentError

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]

SHORTEST = 3
"""Fewest values of a series that can be forecast."""
MANY_ZEROS = 0.4
"""Fraction of zeros from which a series that is never negative counts as intermittent."""
LARGEST = 1e100
"""Sums of squares of larger values overflow."""


@dataclass(frozen=True)
class Panel:
    """Series in the rows of one matrix, longest first.

    Index letters of panels: n series, t times, h steps ahead, m the period.

    Attributes:
        values: (N, T); row n holds `lengths[n]` values at its end and NaN before them.
        lengths: (N,), never increasing.
        period: Number of steps after which the calendar repeats; 1 if it does not.
        category: (N,) number of each series' kind, from zero.
        longer: Number of steps of a longer season, such as a year of days; 0 if there is none.
    """

    values: Array
    lengths: Integers
    period: int
    category: Integers | None = None
    longer: int = 0

    @classmethod
    def of(
        cls, series: Sequence[Array], period: int, category: Integers | None = None, longer: int = 0
    ) -> "Panel":
        """Build a panel from series that are ordered longest first and have at least three values each."""
        check_size("period", period)
        lengths = np.array([len(row) for row in series], dtype=np.int64)
        if len(lengths) == 0 or lengths.min() < SHORTEST or (np.diff(lengths) > 0).any():
            raise AttangentError(f"expected series of at least {SHORTEST} values, the longest first")
        values = np.full((len(series), lengths[0]), np.nan)
        for row, source in zip(values, series, strict=True):
            row[len(row) - len(source) :] = source
        if np.isfinite(values).sum() != lengths.sum():
            raise AttangentError("expected finite values; fill or drop missing ones first")
        if np.nanmax(np.abs(values)) > LARGEST:
            raise AttangentError(
                f"a value is {np.nanmax(np.abs(values)):g}, expected at most {LARGEST:g}; use larger units"
            )
        if category is not None and len(category) != len(series):
            raise AttangentError(f"{len(category)} categories were given for {len(series)} series")
        return cls(values, lengths, period, category, longer)

    def __len__(self) -> int:
        return len(self.lengths)

    def before(self, back: int) -> "Panel":
        """Drop the last `back` values, and series that would retain fewer than three; may be empty."""
        count = int((self.lengths - back >= SHORTEST).sum())
        values = self.values[:count, : self.values.shape[1] - back]
        category = None if self.category is None else self.category[:count]
        return replace(self, values=values, lengths=self.lengths[:count] - back, category=category)

    def latest(self, most: int) -> "Panel":
        """Return the last `most` values of each series."""
        return replace(self, values=self.values[:, -most:], lengths=np.minimum(self.lengths, most))

    def rows(self, start: int, stop: int) -> "Panel":
        """Return some of the series, without columns that are empty for all of them."""
        lengths = self.lengths[start:stop]
        values = self.values[start:stop, self.values.shape[1] - lengths[0] :]
        category = None if self.category is None else self.category[start:stop]
        return replace(self, values=values, lengths=lengths, category=category)

    def sample(self, most: int) -> "Panel":
        """Return up to `most` series, evenly spaced over all."""
        rows = np.unique(np.linspace(0, len(self) - 1, min(most, len(self))).astype(int))
        category = None if self.category is None else self.category[rows]
        return replace(self, values=self.values[rows], lengths=self.lengths[rows], category=category)

    @cached_property
    def scale(self) -> Array:
        """(N,): mean_t |y_t - y_{t-m}|, the error that MASE divides by; m = 1 for a series without a season.

        Never zero: a series that repeats exactly gets its mean absolute value, a series of zeros 1.
        """
        size = np.nanmean(np.abs(self.values), axis=1)
        step = _mean_step(self.values, 1)
        scale = _mean_step(self.values, self.period) if self.period > 1 else step
        scale = np.where(self.lengths > self.period, scale, step)
        floor = 1e-9 * size
        scale = np.where(scale > floor, scale, step)
        return np.where(scale > floor, scale, np.where(size > 0, size, 1.0))

    @cached_property
    def intermittent(self) -> Mask:
        """(N,): whether a series is never negative and at least 40 % zeros, but not zero throughout."""
        zeros = (self.values == 0).sum(axis=1) / self.lengths
        return (zeros >= MANY_ZEROS) & (np.nanmin(self.values, axis=1) >= 0) & (zeros < 1)

    def repeated(self, horizon: int) -> dict[str, Array]:
        """Repeat the last value ("persistence") and the last season ("seasonal"): baselines (N, H).

        Series shorter than a season repeat their last value.
        """
        last = np.repeat(self.values[:, -1:], horizon, axis=1)
        m = min(self.period, self.values.shape[1])
        season = self.values[:, self.values.shape[1] - m :][:, np.arange(horizon) % m]
        long_enough = (self.lengths >= self.period)[:, None]
        return {"persistence": last, "seasonal": np.where(long_enough, season, last)}

    def non_negative(self, values: Array) -> Array:
        """Clip forecasts (N, H, ...) at zero for series that never were below it."""
        low = np.nanmin(self.values, axis=1).reshape(-1, *[1] * (values.ndim - 1))
        return np.where(low >= 0, np.maximum(values, 0.0), values)


def _mean_step(values: Array, lag: int) -> Array:
    if values.shape[1] <= lag:
        return np.zeros(len(values))
    steps = np.abs(values[:, lag:] - values[:, :-lag])
    known = np.isfinite(steps)
    return np.where(known, steps, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)


@dataclass(frozen=True)
class Logarithms:
    """Logarithms of the positive series of a panel; other series hold zeros and are not `usable`.

    Forecasts are clipped to one range of the history above and below it before the exponential.
    """

    panel: Panel
    usable: Mask
    low: Array
    high: Array

    @classmethod
    def of(cls, panel: Panel) -> "Logarithms":
        """Take logarithms of the positive series."""
        usable = np.nanmin(panel.values, axis=1) > 0
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(usable[:, None], np.log(panel.values), panel.values * 0.0)
        low = np.nanmin(logs, axis=1)
        high = np.nanmax(logs, axis=1)
        return cls(replace(panel, values=logs), usable, 2 * low - high, 2 * high - low)

    def back(self, forecasts: Array, otherwise: Array) -> Array:
        """Convert forecasts (N, H) to the scale of the series; take `otherwise` for unusable series."""
        clipped = np.clip(forecasts, self.low[:, None], self.high[:, None])
        return np.where(self.usable[:, None], np.exp(clipped), otherwise)
