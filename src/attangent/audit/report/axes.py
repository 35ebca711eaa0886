"""Ranges and ticks of a figure's axes, and the points of a curve that make a visible difference."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attangent.audit.report.phrases import readable, scientific

Vector = NDArray[np.float64]

# Beyond these an axis with its margin overflows.
_LARGEST = 1e250
_SMALLEST = 1e-250
_SPOTS = 300


@dataclass(frozen=True)
class Axis:
    """The two ends of an axis, in the units of the data."""

    low: float
    high: float
    log: bool
    integer: bool = False
    """Whether all values on it are whole numbers."""

    @classmethod
    def of(cls, values: Iterable[Vector], log: bool) -> "Axis | None":
        """Return the range of all `values` with a margin, or None if none of them can be drawn."""
        drawn = np.concatenate([np.empty(0), *(masked(vector, log) for vector in values)])
        drawn = drawn[~np.isnan(drawn)]
        if not len(drawn):
            return None
        low = float(drawn.min())
        high = float(drawn.max())
        if log:
            low = math.log10(low)
            high = math.log10(high)
        margin = 0.04 * (high - low)
        if margin <= 1e-12 * max(abs(low), abs(high)):
            margin = 0.5 if log else 0.1 * abs(low) or 1.0
        if log:
            return cls(10 ** (low - margin), 10 ** (high + margin), True)
        return cls(low - margin, high + margin, False, integer=bool(np.all(drawn == np.round(drawn))))

    def for_bars(self) -> "Axis":
        """Extend the range to where bars start: 0, or half a decade below on a logarithmic axis."""
        if self.log:
            return Axis(self.low / 10**0.5, self.high, True)
        return Axis(min(self.low, 0.0), max(self.high, 0.0), False)

    @property
    def foot(self) -> float:
        """The value at which bars start."""
        return self.low if self.log else 0.0

    def share(self, values: Vector) -> Vector:
        """Return the positions of `values` between the ends, from 0 to 1."""
        if self.log:
            low = math.log10(self.low)
            return (np.log10(values) - low) / (math.log10(self.high) - low)
        return (values - self.low) / (self.high - self.low)

    def ticks(self) -> dict[float, str]:
        """Return a handful of round values with their labels."""
        ticks = _decades(math.log10(self.low), math.log10(self.high)) if self.log else []
        if len(ticks) < 2:
            return _even(self.low, self.high, self.integer)
        # Plain numbers if all of them are short, else powers of ten throughout.
        short = ticks[0] >= 1e-3 and ticks[-1] <= 1e4
        return {tick: readable(tick) if short else scientific(tick, 1) for tick in ticks}


def masked(values: Vector, log: bool) -> Vector:
    """Replace what cannot be drawn by nan, and values too small for a linear axis by 0."""
    fits = np.abs(values) <= _LARGEST
    if log:
        return np.where(fits & (values >= _SMALLEST), values, np.nan)
    return np.where(fits, np.where(np.abs(values) < _SMALLEST, 0.0, values), np.nan)


def _decades(low: float, high: float) -> list[float]:
    """Return powers of ten, with 2 and 5 between them on a short axis and every nth on a long one."""
    decades = range(math.floor(low), math.ceil(high) + 1)
    if high - low < 2:
        fine = [lead * 10.0**decade for decade in decades for lead in (1, 2, 5)]
        return [tick for tick in fine if 10**low <= tick <= 10**high]
    apart = math.ceil((high - low) / 7)
    return [10.0**decade for decade in decades if decade % apart == 0 and low <= decade <= high]


def _even(low: float, high: float, integer: bool) -> dict[float, str]:
    from matplotlib.ticker import MaxNLocator

    steps = [1, 2, 5, 10] if integer else [1, 2, 2.5, 5, 10]
    values = MaxNLocator(nbins=6, steps=steps, integer=integer).tick_values(low, high)
    step = values[1] - values[0]
    digits = max(4, math.ceil(math.log10(max(abs(low), abs(high)) / step)) + 2)
    # Round-off in the locator may leave 1e-17 where 0 is meant.
    ticks = [0.0 if abs(value) < step / 1e6 else float(value) for value in values if low <= value <= high]
    return {tick: readable(tick, digits) for tick in ticks}


def thin_curve(x: Vector, y: Vector, axis: Axis) -> tuple[Vector, Vector]:
    """Keep the first, lowest, highest and last point in each of a few hundred slices of `axis`.

    A long curve looks the same afterwards. A curve that runs backwards is returned unchanged.
    """
    defined = ~np.isnan(x)
    x = x[defined]
    y = y[defined]
    if len(x) <= 4 * _SPOTS or np.any(np.diff(x) < 0):
        return x, y
    retained = np.isnan(y)
    slices = np.floor(axis.share(x) * _SPOTS)
    for group in np.split(np.arange(len(x)), np.flatnonzero(np.diff(slices)) + 1):
        drawn = group[~np.isnan(y[group])]
        if len(drawn):
            retained[[drawn[0], drawn[-1], drawn[np.argmin(y[drawn])], drawn[np.argmax(y[drawn])]]] = True
    return x[retained], y[retained]


def thin_points(x: Vector, y: Vector, across: Axis, upward: Axis) -> tuple[Vector, Vector]:
    """Keep one of the points that would be drawn on the same spot."""
    defined = ~(np.isnan(x) | np.isnan(y))
    x = x[defined]
    y = y[defined]
    spots = np.round(np.stack([across.share(x), upward.share(y)]) * _SPOTS)
    retained = np.sort(np.unique(spots, axis=1, return_index=True)[1])
    return x[retained], y[retained]
