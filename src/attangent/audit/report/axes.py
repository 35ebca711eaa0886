"""The range of a figure's axis, its ticks, and those points of a curve that look different on it."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attangent.audit.report.readable import readable, scientific

Vector = NDArray[np.float64]

_LARGEST, _SMALLEST = 1e250, 1e-250  # beyond these an axis with its margin overflows
_SPOTS = 300


@dataclass(frozen=True)
class Axis:
    """The two ends of an axis, in the units of the data."""

    low: float
    high: float
    log: bool
    whole: bool = False
    """Only whole numbers lie on it."""

    @classmethod
    def of(cls, values: Iterable[Vector], log: bool) -> "Axis | None":
        """The range of all `values` with a margin; None where none can be drawn."""
        drawn = np.concatenate([np.empty(0), *(masked(part, log) for part in values)])
        if np.isnan(drawn).all():
            return None
        drawn = drawn[~np.isnan(drawn)]
        low, high = float(drawn.min()), float(drawn.max())
        if log:
            low, high = math.log10(low), math.log10(high)
        margin = 0.04 * (high - low)
        if margin <= 1e-12 * max(abs(low), abs(high)):
            margin = 0.5 if log else 0.1 * abs(low) or 1.0
        ends = low - margin, high + margin
        if log:
            return cls(10 ** ends[0], 10 ** ends[1], True)
        return cls(*ends, False, whole=bool(np.all(drawn == np.round(drawn))))

    def for_bars(self) -> "Axis":
        """The range with room for bars: from 0, or from half a decade below on a logarithmic axis."""
        if self.log:
            return Axis(self.low / 10**0.5, self.high, True)
        return Axis(min(self.low, 0.0), max(self.high, 0.0), False)

    @property
    def foot(self) -> float:
        """Where bars start."""
        return self.low if self.log else 0.0

    def share(self, values: Vector) -> Vector:
        """Where `values` lie between the ends, from 0 to 1."""
        if self.log:
            low, high = math.log10(self.low), math.log10(self.high)
            return (np.log10(values) - low) / (high - low)
        return (values - self.low) / (self.high - self.low)

    def ticks(self) -> dict[float, str]:
        """A handful of round values with their labels."""
        if self.log:
            ticks = _decades(math.log10(self.low), math.log10(self.high))
            if len(ticks) > 1:
                return _log_labels(ticks)
        return _even(self.low, self.high, self.whole)


def masked(values: Vector, log: bool) -> Vector:
    """`values` with nan where an axis has no place for them, and 0 for the unspeakably small."""
    fits = np.abs(values) <= _LARGEST
    if log:
        return np.where(fits & (values >= _SMALLEST), values, np.nan)
    return np.where(fits, np.where(np.abs(values) < _SMALLEST, 0.0, values), np.nan)


def _decades(low: float, high: float) -> list[float]:
    """Powers of ten, with 2 and 5 between them on a short axis, some decades apart on a long one."""
    decades = range(math.floor(low), math.ceil(high) + 1)
    if high - low < 2:
        fine = [lead * 10.0**decade for decade in decades for lead in (1, 2, 5)]
        return [tick for tick in fine if 10**low <= tick <= 10**high]
    apart = math.ceil((high - low) / 7)
    return [10.0**decade for decade in decades if decade % apart == 0 and low <= decade <= high]


def _log_labels(ticks: list[float]) -> dict[float, str]:
    """Plain numbers where all of them are short, else powers of ten throughout."""
    if ticks[0] >= 1e-3 and ticks[-1] <= 1e4:
        return {tick: readable(tick) for tick in ticks}
    return {tick: scientific(tick, 1) for tick in ticks}


def _even(low: float, high: float, whole: bool) -> dict[float, str]:
    from matplotlib.ticker import MaxNLocator

    steps = [1, 2, 5, 10] if whole else [1, 2, 2.5, 5, 10]
    values = MaxNLocator(nbins=6, steps=steps, integer=whole).tick_values(low, high)
    step = values[1] - values[0]
    digits = max(4, math.ceil(math.log10(max(abs(low), abs(high)) / step)) + 2)
    near_zero = {value: 0.0 for value in values if abs(value) < step / 1e6}
    ticks = [float(near_zero.get(value, value)) for value in values if low <= value <= high]
    return {tick: readable(tick, digits) for tick in ticks}


def thin_curve(x: Vector, y: Vector, axis: Axis) -> tuple[Vector, Vector]:
    """At most four points on each of some hundred places of `axis`: first, lowest, highest and last.

    A long curve looks the same. One that runs backwards is left as it is.
    """
    placed = ~np.isnan(x)
    x, y = x[placed], y[placed]
    if len(x) <= 4 * _SPOTS or np.any(np.diff(x) < 0):
        return x, y
    kept = np.isnan(y)
    places = np.floor(axis.share(x) * _SPOTS)
    for group in np.split(np.arange(len(x)), np.flatnonzero(np.diff(places)) + 1):
        drawn = group[~np.isnan(y[group])]
        if len(drawn):
            kept[[drawn[0], drawn[-1], drawn[np.argmin(y[drawn])], drawn[np.argmax(y[drawn])]]] = True
    return x[kept], y[kept]


def thin_points(x: Vector, y: Vector, across: Axis, upward: Axis) -> tuple[Vector, Vector]:
    """One of those points that would be drawn on the same spot."""
    placed = ~(np.isnan(x) | np.isnan(y))
    x, y = x[placed], y[placed]
    spots = np.round(np.stack([across.share(x), upward.share(y)]) * _SPOTS)
    kept = np.sort(np.unique(spots, axis=1, return_index=True)[1])
    return x[kept], y[kept]
