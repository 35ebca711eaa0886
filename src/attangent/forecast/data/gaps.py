"""Gaps between the rows of a series: counted as zero, interpolated, or a reason to skip the series."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from attangent.forecast.data.panel import SHORTEST
from attangent.forecast.data.tables import MOST_FILLED

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

Gaps = Literal["auto", "zero", "interpolate", "skip"]
"""Meaning of a missing row; "auto" decides per series between zero and interpolation."""
GAPS = get_args(Gaps)
FEWEST_RUNS = 3
RUNS_PER_VALUE = 0.05
"""Missing times are scattered if they form at least three runs, and one per twenty values."""
NEAR_ZERO = 0.2
FEW_UNITS = 3.0
"""A series comes close to zero if its least value is at most 3, or a fifth of its mean."""
CLOSED = 0.9
"""Fraction of one weekday's times that are missing if that day is closed."""


Way = Literal["", "zero", "interpolate"]
"""How the gaps of one series are filled; empty without gaps."""


@dataclass(frozen=True)
class RawSeries:
    """The rows of one series, from its first to its last known value.

    Attributes:
        name: Id.
        row: Number of its first row.
        values: Values, NaN if missing.
        positions: Steps from the first row.
        last: Number of the last row in the sorted table.
        later: Number of steps from the last row to the end of the table.
        length: Number of steps from the first row to the last.
        missing: Number of steps without a value.
    """

    name: Any
    row: int
    values: Array
    positions: Integers
    last: int
    later: int
    length: int
    missing: int

    def way(self, gaps: Gaps, period: int) -> Way:
        """Decide how to fill the gaps."""
        if gaps == "zero":
            return "zero"
        if self.missing == 0:
            return ""
        absent = np.ones(self.length, dtype=bool)
        absent[self.positions] = False
        known = self.values[np.isfinite(self.values)]
        return "zero" if gaps == "auto" and means_zero(known, absent, period) else "interpolate"

    def usable(self, way: Way) -> bool:
        """Return whether a series is long enough, and not mostly gaps that would be interpolated."""
        if len(self.values) == 0:
            return False
        if way == "zero":
            return self.length + self.later >= SHORTEST
        return self.length >= SHORTEST and self.missing <= MOST_FILLED * self.length

    def filled(self, way: Way, gaps: Gaps) -> Array:
        """Return the series on its grid.

        Counted as zero, a series extends to the end of the table: it has no rows after the last sale either.
        Missing values in rows that exist are interpolated unless the user asked for zeros.
        """
        if way == "":
            return self.values
        known = np.isfinite(self.values)
        complete = np.interp(np.arange(self.length), self.positions[known], self.values[known])
        if way == "interpolate":
            return complete
        zero = np.ones(self.length, dtype=bool)
        zero[self.positions[known] if gaps == "zero" else self.positions] = False
        complete[zero] = 0.0
        return np.concatenate((complete, np.zeros(self.later)))


def decide(series: Sequence[RawSeries], gaps: Gaps, period: int) -> list[Way]:
    """Decide for every series how to fill its gaps.

    A series with too few rows to tell counts missing rows as zero if another series of the table does.
    """
    ways: list[Way] = [raw.way(gaps, period) for raw in series]
    if gaps != "auto" or "zero" not in ways:
        return ways
    return [
        way if raw.usable(way) or len(raw.values) == 0 or np.nanmin(raw.values) < 0 else "zero"
        for raw, way in zip(series, ways, strict=True)
    ]


def means_zero(values: Array, absent: NDArray[np.bool_], period: int) -> bool:
    """Return whether a missing row means zero, as in a table of sales without the days on which none sold.

    That is so for a series without recorded zeros whose missing times are scattered and whose values come
    close to zero, or if one day of the week is always missing.
    """
    if not absent.any() or values.min() <= 0:
        return False
    if _closed_day(absent, period):
        return True
    runs = int(np.diff(absent.astype(int), prepend=0).clip(0).sum())
    scattered = runs >= max(FEWEST_RUNS, RUNS_PER_VALUE * len(values))
    return bool(scattered and values.min() <= max(FEW_UNITS, NEAR_ZERO * values.mean()))


def _closed_day(absent: NDArray[np.bool_], period: int) -> bool:
    if period == 1 or len(absent) < 3 * period:
        return False
    phases = np.arange(len(absent)) % period
    shares = np.bincount(phases, absent) / np.bincount(phases)
    return bool(shares.max() >= CLOSED and shares.min() < 1 - CLOSED)


def note_on_gaps(filled: dict[str, tuple[str, int]], most: int) -> list[str]:
    """Return notes on how gaps were filled, from (how, number of gaps) per quoted id."""
    verbs = {"zero": "counted as zero", "interpolate": "interpolated"}
    notes = []
    for how, verb in verbs.items():
        counts = {name: count for name, (way, count) in filled.items() if way == how}
        if counts:
            more = f" and {len(counts) - most} more" if len(counts) > most else ""
            names = ", ".join(list(counts)[:most]) + more
            notes.append(f"{sum(counts.values())} missing values or times of {names} were {verb}")
    return notes
