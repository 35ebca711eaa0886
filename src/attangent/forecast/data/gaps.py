"""Gaps between the rows of a series: counted as zero, interpolated, or a reason to skip the series."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from attangent.forecast.data.panel import SHORTEST, Array, Integers, Mask
from attangent.forecast.data.tables import MOST_FILLED

Gaps = Literal["auto", "zero", "interpolate", "skip"]
"""Meaning of a missing row; "auto" decides per series and per kind of gap."""
FEWEST_RUNS = 3
RUNS_PER_VALUE = 0.05
"""Missing times are scattered if they form at least three runs, and one per twenty values."""
NEAR_ZERO = 0.2
FEW_UNITS = 3.0
"""A series comes close to zero if its least value is at most 3, or a fifth of its mean."""
CLOSED = 0.9
"""Fraction of one weekday's times that are missing if that day is closed."""


Way = Literal["", "zero", "closed", "interpolate"]
"""How the gaps of one series are filled; empty without gaps.

"closed" counts closed days as zero, such as Sundays, and interpolates the rest.
"""


@dataclass(frozen=True)
class FilledSeries:
    """A series on its grid, and how many of its values were not in the table."""

    values: Array
    zeros: int = 0
    interpolated: int = 0


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
        cycles: Periods in which closed days return, such as the 7 days of a week.
    """

    name: Any
    row: int
    values: Array
    positions: Integers
    last: int
    later: int
    length: int
    missing: int
    cycles: tuple[int, ...]

    @property
    def absent(self) -> Mask:
        """(length,): whether a time has no row."""
        absent = np.ones(self.length, dtype=bool)
        absent[self.positions] = False
        return absent

    def way(self, gaps: Gaps) -> Way:
        """Decide how to fill the gaps."""
        if gaps == "zero":
            return "zero"
        if self.missing == 0:
            return ""
        known = self.values[np.isfinite(self.values)]
        if gaps != "auto" or known.min() < 0:
            return "interpolate"
        absent = self.absent
        closed = closed_times(absent, self.cycles)
        if means_zero(known, absent[~closed]):
            return "zero"
        return "closed" if closed.any() else "interpolate"

    def usable(self, way: Way) -> bool:
        """Return whether a series is long enough, and not mostly gaps that would be interpolated."""
        if len(self.values) == 0:
            return False
        if way == "zero":
            return self.length + self.later >= SHORTEST
        zeros = int((self.absent & closed_times(self.absent, self.cycles)).sum()) if way == "closed" else 0
        return self.length >= SHORTEST and self.missing - zeros <= MOST_FILLED * (self.length - zeros)

    def filled(self, way: Way, gaps: Gaps) -> FilledSeries:
        """Return the series on its grid.

        Counted as zero, a series extends to the end of the table: it has no rows after the last sale either.
        With closed days, it extends over those that follow its last row. Missing values in rows that exist
        are interpolated unless the user asked for zeros.
        """
        if way == "":
            return FilledSeries(self.values)
        known = np.isfinite(self.values)
        complete = np.interp(np.arange(self.length), self.positions[known], self.values[known])
        if way == "interpolate":
            return FilledSeries(complete, interpolated=self.missing)
        zero = self.absent
        later = self.later
        if way == "closed":
            closed = closed_times(zero, self.cycles, later)
            zero &= closed[: self.length]
            later = int(np.append(closed[self.length :], False).argmin())
        elif gaps == "zero":
            zero[self.positions[~known]] = True
        complete[zero] = 0.0
        zeros = int(zero.sum())
        return FilledSeries(np.concatenate((complete, np.zeros(later))), zeros + later, self.missing - zeros)


def decide(series: Sequence[RawSeries], gaps: Gaps) -> list[Way]:
    """Decide for every series how to fill its gaps.

    A series with too few rows to tell counts missing rows as zero if another series of the table does.
    """
    ways: list[Way] = [raw.way(gaps) for raw in series]
    if gaps != "auto" or not {"zero", "closed"} & {*ways}:
        return ways
    return [
        way if raw.usable(way) or len(raw.values) == 0 or np.nanmin(raw.values) < 0 else "zero"
        for raw, way in zip(series, ways, strict=True)
    ]


def means_zero(values: Array, absent: Mask) -> bool:
    """Return whether a missing row means zero, as in a table of sales without the days on which none sold.

    That is so for a series without recorded zeros whose missing times are scattered and whose values come
    close to zero.

    Args:
        values: Known values.
        absent: Whether a time has no row, without closed days.
    """
    if not absent.any() or values.min() <= 0:
        return False
    runs = int(np.diff(absent.astype(int), prepend=0).clip(0).sum())
    scattered = runs >= max(FEWEST_RUNS, RUNS_PER_VALUE * len(values))
    return bool(scattered and values.min() <= max(FEW_UNITS, NEAR_ZERO * values.mean()))


def closed_times(absent: Mask, cycles: Sequence[int], later: int = 0) -> Mask:
    """(n + later,): whether a time is on a closed day: a weekday, say, that almost never has a row.

    Args:
        absent: Whether each of n times has no row.
        cycles: Periods in which closed days return.
        later: Number of further times.
    """
    times = np.arange(len(absent) + later)
    closed = np.zeros(len(times), dtype=bool)
    for cycle in cycles:
        if cycle == 1 or len(absent) < 3 * cycle:
            continue
        phases = times % cycle
        known = phases[: len(absent)]
        shares = np.bincount(known, absent) / np.bincount(known)
        if shares.min() < 1 - CLOSED:
            closed |= (shares >= CLOSED)[phases]
    return closed


def note_on_gaps(filled: Mapping[str, FilledSeries], most: int) -> list[str]:
    """Return notes on how many gaps of which quoted ids were filled, and how."""
    zeros = {name: series.zeros for name, series in filled.items() if series.zeros}
    interpolated = {name: series.interpolated for name, series in filled.items() if series.interpolated}
    notes = []
    for verb, counts in (("counted as zero", zeros), ("interpolated", interpolated)):
        if counts:
            more = f" and {len(counts) - most} more" if len(counts) > most else ""
            names = ", ".join(list(counts)[:most]) + more
            notes.append(f"{sum(counts.values())} missing values or times of {names} were {verb}")
    return notes
