"""The step of a calendar: months, working days, a fixed time or a number; places on it and times after it."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Places = NDArray[np.int64]

DAY = 86_400 * 10**9
"""Nanoseconds."""


@dataclass(frozen=True)
class Step:
    """`size` is in months, working days, nanoseconds or numbers; `month_end` for times on a month's last day.

    Places count steps from any fixed origin (months, working days) or in units of `size`. Times with a zone
    keep it: steps of a day or more go by the clock on the wall, shorter ones by time that passed.
    """

    kind: Literal["months", "weekdays", "fixed", "number"]
    size: int
    month_end: bool = False

    def period(self) -> int:
        """After how many steps the calendar repeats; 1 where it has no say."""
        if self.kind == "months":
            return 12 // self.size if 12 % self.size == 0 else 1
        if self.kind == "weekdays":
            return 5
        if self.kind == "number":
            return 1
        if self.size % DAY == 0:
            return {1: 7, 7: 52}.get(self.size // DAY, 1)
        if self.size < 60 * 10**9:
            return 60 * 10**9 // self.size if 60 * 10**9 % self.size == 0 else 1
        per_day = DAY // self.size if DAY % self.size == 0 else 1
        return per_day if per_day <= 288 else 60 * 60 * 10**9 // self.size

    def describe(self) -> str:
        if self.kind == "months":
            return {1: "a month", 3: "a quarter", 12: "a year"}.get(self.size, f"{self.size} months")
        if self.kind == "weekdays":
            return "a working day"
        return f"{self.size}" if self.kind == "number" else str(pd.Timedelta(self.size, unit="ns"))

    def units(self, times: pd.Index) -> NDArray[np.float64]:
        """Times in units of a step, from a fixed origin; whole numbers apart where they are on the grid."""
        if self.kind == "number":
            return times.to_numpy(dtype=np.float64) / self.size
        wall = on_the_wall(pd.DatetimeIndex(times), self)
        if self.kind == "months":
            return np.asarray(12 * wall.year + wall.month - 1, dtype=np.float64) / self.size
        if self.kind == "weekdays":
            days = wall.to_numpy().astype("datetime64[D]")
            return np.busday_count(np.datetime64("1970-01-01"), days).astype(np.float64)
        return wall.as_unit("ns").asi8 / self.size

    def after(self, last: Any, steps: int) -> pd.Index:
        """The next `steps` times after `last`."""
        return self.apart(last, np.arange(1, steps + 1))

    def apart(self, start: Any, steps: Places) -> pd.Index:
        """The times so many steps after `start`, before it where they are negative."""
        if self.kind == "number":
            return pd.Index(int(start) + self.size * steps)
        start = pd.Timestamp(start)
        if self.kind == "fixed" and self.size % DAY:
            return start + pd.to_timedelta(self.size * steps, unit="ns")
        times = pd.DatetimeIndex([self._moved(start.tz_localize(None), int(k)) for k in steps])
        if start.tz is None:
            return times
        first = np.ones(len(times), dtype=bool)  # of an hour that the clock shows twice
        return times.tz_localize(start.tz, ambiguous=first, nonexistent="shift_forward")

    def _moved(self, start: pd.Timestamp, steps: int) -> Any:
        if self.kind == "months":
            moved = start + pd.DateOffset(months=self.size * steps)
            return moved + pd.offsets.MonthEnd(0) if self.month_end else moved
        if self.kind == "weekdays":
            return start + pd.offsets.BusinessDay(steps)
        return start + pd.Timedelta(self.size * steps, unit="ns")


def on_the_wall(times: pd.DatetimeIndex, step: Step) -> pd.DatetimeIndex:
    """Times without their zone: what the clock shows for steps of a day or more, else UTC."""
    if times.tz is None:
        return times
    short = step.kind == "fixed" and step.size % DAY != 0
    return times.tz_convert(None) if short else times.tz_localize(None)


def find_step(times: pd.Index, same_series: NDArray[np.bool_]) -> Step | None:
    """The step of most pairs of neighbours; `same_series[k]` says that times k and k + 1 are of one series.

    Times are sorted within series. None where no two times are of one series.
    """
    if not same_series.any():
        return None
    if not isinstance(times, pd.DatetimeIndex):
        return Step("number", int(max(1, _commonest(np.diff(times.to_numpy(dtype=np.int64))[same_series]))))
    wall = times.tz_localize(None) if times.tz is not None else times
    passed = np.diff(times.as_unit("ns").asi8)[same_series]
    by_clock = np.diff(wall.as_unit("ns").asi8)[same_series]
    months = _months(wall, same_series, by_clock)
    if months is not None:
        return months
    usual = _commonest(by_clock) if _commonest(by_clock) % DAY == 0 else _commonest(passed)
    midnight = bool((wall == wall.normalize()).all())
    if usual == DAY and midnight and (wall.day_of_week < 5).all() and (by_clock == 3 * DAY).any():
        return Step("weekdays", 1)
    return Step("fixed", int(max(1, usual)))


def _months(wall: pd.DatetimeIndex, same: NDArray[np.bool_], gaps: Places) -> Step | None:
    ends = bool(wall.is_month_end.all())
    if gaps.min() < 27 * DAY or not (ends or len(np.unique(wall.day)) == 1):
        return None
    apart = np.diff(12 * np.asarray(wall.year) + np.asarray(wall.month))[same]
    return Step("months", int(_commonest(apart)), ends and len(np.unique(wall.day)) > 1)


def _commonest(values: Places) -> int:
    found, counts = np.unique(values, return_counts=True)
    return int(found[np.argmax(counts)])
