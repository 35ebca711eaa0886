"""Times of series: reading dates, the step between them, and the period after which a series repeats."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pandas as pd

from attangent._core.errors import AttangentError
from attangent.forecast.data.panel import Array, Integers, Mask

DAY = 86_400 * 10**9
"""Nanoseconds."""
MINUTE = DAY // 1440
UNITS = {
    "week": 7 * DAY,
    "day": DAY,
    "hour": DAY // 24,
    "minute": MINUTE,
    "second": 10**9,
    "nanosecond": 1,
}
PERIOD_SAMPLE = 200
"""Number of series in which a period is searched."""
LONGEST_PERIOD = 400

_OFFSET = r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?\s*(Z|[+-]\d{2}:?\d{2})$"
_ZONES = (
    "Europe/Berlin", "Europe/London", "Europe/Athens", "America/New_York", "America/Chicago",
    "America/Denver", "America/Los_Angeles", "America/Halifax", "America/Santiago", "Australia/Sydney",
    "Australia/Adelaide", "Pacific/Auckland", "Asia/Jerusalem", "Asia/Beirut",
)  # fmt: skip
"""Zones with daylight saving, one per set of rules."""


def as_times(column: pd.Series, notes: list[str] | None = None) -> pd.Index:
    """Read a column of times, text or numbers as times or as integers."""
    if isinstance(column.dtype, pd.DatetimeTZDtype) or pd.api.types.is_datetime64_any_dtype(column):
        return pd.DatetimeIndex(column)
    if pd.api.types.is_integer_dtype(column):
        top = int(column.abs().max())
        dates = 18_000_101 <= int(column.min()) <= top <= 29_991_231
        plain = top < 10**8 and not dates and not _excel(column)
        return pd.Index(column) if plain else parse_dates(column, notes)
    return parse_dates(column, notes)


def parse_dates(column: pd.Series, notes: list[str] | None = None) -> pd.DatetimeIndex:
    """Read times from text or numbers.

    Text may be ISO 8601 (weeks such as 2024-W05 start on Monday) or any format that pandas recognises;
    numbers may be years, dates such as 20240131, Excel's days, or seconds (or finer) since 1970. If both day
    first and month first are possible, the reading with the fewest backward steps, the fewest gaps and the
    fewest different steps wins, month first on a tie; a note says which. Times with an offset keep it. If
    offsets differ, the result is in the zone that has them all, otherwise in UTC.
    """
    notes = notes if notes is not None else []
    if pd.api.types.is_numeric_dtype(column):
        return _numbers_as_dates(column, notes)
    text = column.astype(str).str.strip()
    readings = list(_readings(text))
    complete = [times for times in readings if not times.isna().any()]
    if complete:
        best = min(complete, key=_disorder) if len(complete) > 1 else complete[0]
        if len(readings) == 3 and not readings[1].equals(readings[2]):
            order = "month" if best.equals(readings[1]) else "day"
            notes.append(f"dates in {str(column.name)!r} were read with the {order} first")
        offsets = text.str.extract(_OFFSET, expand=False)
        return best if offsets.isna().all() else _in_zone(best, offsets)
    closest = max(readings, key=lambda times: times.notna().sum())
    row = int(np.flatnonzero(closest.isna())[0])
    raise AttangentError(
        f"column {str(column.name)!r} cannot be read as dates: row {row + 1} holds {text.iloc[row]!r}; "
        "use one format, preferably 2024-01-31 13:00"
    )


def _readings(text: pd.Series) -> Iterator[pd.DatetimeIndex]:
    """Yield the ISO reading and, if that fails, the readings with the month first and the day first."""
    weeks = text.str.extract(r"^(\d{4})-?W(\d{1,2})(?:-?([1-7]))?$")
    if weeks[0].notna().all():
        days = weeks[0] + "-W" + weeks[1].str.zfill(2) + "-" + weeks[2].fillna("1")
        yield _naive(pd.to_datetime(days, format="%G-W%V-%u", errors="coerce", utc=True))
        return
    months = text.str.extract(r"^([A-Za-z]{3})-(\d{2})$")  # Excel's mmm-yy
    if months[0].notna().all():
        yield _naive(pd.to_datetime(months[0] + months[1], format="%b%y", errors="coerce", utc=True))
        return
    times = _naive(pd.to_datetime(text, format="ISO8601", errors="coerce", utc=True))
    yield times
    if times.isna().any():
        with warnings.catch_warnings():  # pandas warns if the text contradicts `dayfirst`; both are tried
            warnings.simplefilter("ignore")
            for day_first in (False, True):
                yield _naive(pd.to_datetime(text, dayfirst=day_first, errors="coerce", utc=True))


def _naive(times: pd.Series) -> pd.DatetimeIndex:
    """Drop the zone; times that nanoseconds cannot hold (outside 1678 to 2261) become NaT."""
    index = pd.DatetimeIndex(times).tz_convert(None)
    inside = np.asarray((index > pd.Timestamp("1678-01-01")) & (index < pd.Timestamp("2262-01-01")))
    return pd.DatetimeIndex(index.where(inside)).as_unit("ns")


def _disorder(times: pd.DatetimeIndex) -> tuple[int, int, int]:
    """Return the numbers of backward steps, of gaps in the grid of times, and of different steps."""
    steps = np.diff(times.asi8)
    distinct = times.unique().sort_values()
    step = find_step(distinct, np.ones(len(distinct) - 1, dtype=bool))
    apart = np.zeros(0) if step is None else np.diff(step.units(distinct))
    gaps = int(np.ceil(np.abs(apart - 1)).sum())
    return int((steps < 0).sum()), gaps, len(np.unique(steps))


def _excel(column: pd.Series) -> bool:
    """Return whether numbers are as large as Excel's days of 1982 to 2064."""
    return bool(column.min() >= 30_000 and column.max() <= 60_000)


def _numbers_as_dates(column: pd.Series, notes: list[str]) -> pd.DatetimeIndex:
    values = column.to_numpy(dtype=np.float64)
    size = np.abs(values).max()
    integers = bool((values == np.round(values)).all())
    if integers and values.min() >= 1678 and size <= 2261:
        return pd.DatetimeIndex(pd.to_datetime(column.astype(int).astype(str), format="%Y"))
    if integers and values.min() >= 18000101 and size <= 29991231:
        times = pd.to_datetime(column.astype(int).astype(str), format="%Y%m%d", errors="coerce")
        if not times.isna().any():
            return pd.DatetimeIndex(times)
    if _excel(column):
        notes.append(
            f"numbers in {column.name!r} were read as Excel's dates: {values[0]:g} as a day since 1900"
        )
        days = pd.to_timedelta(np.round(values * 86_400), unit="s")
        return pd.DatetimeIndex(pd.Timestamp("1899-12-30") + days)
    if size < 1e8:
        raise AttangentError(
            f"column {column.name!r} holds numbers such as {values[0]:g}, neither dates nor seconds since "
            "1970; name the column of dates, or rename this one"
        )
    unit = next((unit for unit, top in (("s", 1e11), ("ms", 1e14), ("us", 1e17)) if size < top), "ns")
    times = _naive(pd.to_datetime(column.astype("int64"), unit=unit, utc=True, errors="coerce"))
    if times.isna().any():
        raise AttangentError(f"column {column.name!r} holds times outside the years 1678 to 2261")
    return times


def _in_zone(utc: pd.DatetimeIndex, shown: pd.Series) -> pd.DatetimeIndex:
    """Convert times to the zone that has the offsets shown in their text; to UTC if some show none."""
    aware = utc.tz_localize("UTC")
    if shown.isna().any():
        return aware
    by_text = {offset: datetime.strptime(offset, "%z").utcoffset() for offset in shown.unique()}
    offsets = pd.to_timedelta(shown.map(by_text))
    if offsets.nunique() == 1:
        return aware.tz_convert(timezone(offsets.iloc[0].to_pytimedelta()))
    for name in _ZONES:
        try:
            local = aware.tz_convert(ZoneInfo(name))
        except ZoneInfoNotFoundError:
            continue
        apart = (local.tz_localize(None) - utc).to_numpy()
        if np.array_equal(apart, offsets.to_numpy().astype(apart.dtype)):
            return local
    return aware


@dataclass(frozen=True)
class TimeStep:
    """The time between two values of a series.

    Times with a zone keep it: steps of a day or more follow local time, shorter ones elapsed time.

    Attributes:
        kind: Unit of `size`: months, working days, nanoseconds ("fixed") or plain numbers.
        size: Length of the step.
        month_end: Whether times fall on the last day, or the last working day, of their month.
    """

    kind: Literal["months", "weekdays", "fixed", "number"]
    size: int
    month_end: Literal["", "calendar", "business"] = ""

    def periods(self) -> tuple[int, ...]:
        """Return the number of steps after which the calendar repeats, then others that may fit better.

        The others are a week for hours and less, and no season for weeks. Without a calendar, it is 1.
        """
        if self.kind == "months":
            return (12 // self.size if 12 % self.size == 0 else 1,)
        if self.kind == "weekdays":
            return (5,)
        if self.kind == "number":
            return (1,)
        if self.size % DAY == 0:
            return {1: (7,), 7: (52, 1)}.get(self.size // DAY, (1,))
        if self.size < MINUTE:
            return (MINUTE // self.size if MINUTE % self.size == 0 else 1,)
        per_day = DAY // self.size if DAY % self.size == 0 else 1
        if 1 < per_day <= 48:
            return (per_day, 7 * per_day)
        return (per_day if per_day <= 288 else 60 * MINUTE // self.size,)

    def longer_period(self, period: int) -> int:
        """Return a season longer than `period` in whole periods: a week of hours, a year of days or weeks.

        0 if there is none. A year of days has 52 weeks, so that weekdays agree.
        """
        if self.kind == "weekdays":
            return 260 if period == 5 else 0
        if self.kind != "fixed":
            return 0
        if self.size == 7 * DAY:
            return 52 if period == 1 else 0
        if self.size == DAY:
            return 364 if period == 7 else 0
        return 7 * period if period > 1 and self.size * period == DAY else 0

    def describe(self) -> str:
        """Name the step in words."""
        if self.kind == "months":
            return {1: "a month", 3: "a quarter", 12: "a year"}.get(self.size, f"{self.size} months")
        if self.kind == "weekdays":
            return "a working day"
        if self.kind == "number":
            return f"{self.size}"
        name, unit = next(item for item in UNITS.items() if self.size % item[1] == 0)
        count = self.size // unit
        article = "an" if name == "hour" else "a"
        return f"{article} {name}" if count == 1 else f"{count} {name}s"

    def units(self, times: pd.Index) -> Array:
        """Convert times to steps from a fixed origin; times on one grid are whole numbers apart."""
        if self.kind == "number":
            return times.to_numpy(dtype=np.float64) / self.size
        clock = pd.DatetimeIndex(times)
        if clock.tz is not None:  # local time for steps of a day or more, otherwise UTC
            short = self.kind == "fixed" and self.size % DAY != 0
            clock = clock.tz_convert(None) if short else clock.tz_localize(None)
        if self.kind == "months":
            return np.asarray(12 * clock.year + clock.month - 1, dtype=np.float64) / self.size
        if self.kind == "weekdays":
            days = clock.to_numpy().astype("datetime64[D]")
            return np.busday_count(np.datetime64("1970-01-01"), days).astype(np.float64)
        return clock.as_unit("ns").asi8 / self.size

    def apart(self, start: Any, steps: Integers) -> pd.Index:
        """Return the times that are `steps` after `start`, or before it if negative."""
        if self.kind == "number":
            return pd.Index(int(start) + self.size * steps)
        start = pd.Timestamp(start)
        if self.kind == "fixed" and self.size % DAY:
            return start + pd.to_timedelta(self.size * steps, unit="ns")
        naive = start.tz_localize(None)
        if self.kind == "weekdays":
            times = pd.DatetimeIndex([naive + pd.offsets.BusinessDay(int(k)) for k in steps])
        elif self.kind == "fixed":
            times = pd.DatetimeIndex(naive + pd.to_timedelta(self.size * steps, unit="ns"))
        else:
            first_day = naive.replace(day=1) if self.month_end else naive
            times = pd.DatetimeIndex([first_day + pd.DateOffset(months=self.size * int(k)) for k in steps])
            if self.month_end:
                end = pd.offsets.BMonthEnd if self.month_end == "business" else pd.offsets.MonthEnd
                times = pd.DatetimeIndex([time + end(0) for time in times])
        if start.tz is None:
            return times
        first = np.ones(len(times), dtype=bool)  # of an hour that the clock shows twice
        return times.tz_localize(start.tz, ambiguous=first, nonexistent="shift_forward")


def find_step(times: pd.Index, same_series: Mask) -> TimeStep | None:
    """Return the step of most neighbouring times, or None if no two belong to one series.

    Args:
        times: Times, sorted within each series.
        same_series: Whether times k and k + 1 belong to one series, per k.
    """
    if not same_series.any():
        return None
    if not isinstance(times, pd.DatetimeIndex):
        return TimeStep("number", int(max(1, _usual(np.diff(times.to_numpy(dtype=np.int64))[same_series]))))
    # Without its frequency: pandas would count the end of a business month as the end of a month.
    clock = pd.DatetimeIndex(times.tz_localize(None).to_numpy())
    elapsed = np.diff(times.as_unit("ns").asi8)[same_series]
    by_clock = np.diff(clock.as_unit("ns").asi8)[same_series]
    months = _months(clock, same_series, by_clock)
    if months is not None:
        return months
    usual = _usual(by_clock) if _usual(by_clock) % DAY == 0 else _usual(elapsed)
    midnight = bool((clock == clock.normalize()).all())
    if usual == DAY and midnight and (clock.day_of_week < 5).all() and (by_clock == 3 * DAY).any():
        return TimeStep("weekdays", 1)
    return TimeStep("fixed", int(max(1, usual)))


def step_of(freq: str | int) -> TimeStep:
    """Return the step that pandas calls `freq`; a number is a step of numbered times."""
    if isinstance(freq, int):
        return TimeStep("number", freq)
    try:
        times = pd.date_range("2024-01-01", periods=40, freq=freq)
    except ValueError as error:
        raise AttangentError(f"freq is {freq!r}, expected a step such as D, W-MON or MS ({error})") from None
    step = find_step(times, np.ones(len(times) - 1, dtype=bool))
    return step or TimeStep("number", 1)


def _months(clock: pd.DatetimeIndex, same: Mask, gaps: Integers) -> TimeStep | None:
    """Return a step in months if all times fall on one day of the month, or on its (working) end."""
    if gaps.min() < 27 * DAY:
        return None
    end: Literal["", "calendar", "business"] = ""
    if len(np.unique(clock.day)) > 1:
        if bool(clock.is_month_end.all()):
            end = "calendar"
        elif bool((clock + pd.offsets.BMonthEnd(0) == clock).all()):
            end = "business"
        else:
            return None
    apart = np.diff(12 * np.asarray(clock.year) + np.asarray(clock.month))[same]
    return TimeStep("months", int(_usual(apart)), end)


def clock_went_back(times: pd.Index) -> bool:
    """Return whether all times lie in the night of a Sunday on which summer time can end."""
    if not isinstance(times, pd.DatetimeIndex):
        return False
    night = (times.day_of_week == 6) & (times.hour < 4) & times.month.isin([3, 4, 9, 10, 11])
    return bool(night.all() and (times != times.normalize()).any())


def _usual(values: Integers) -> int:
    """Return the most common value, or the median if values scatter (times with jitter)."""
    distinct, counts = np.unique(values, return_counts=True)
    most = int(np.argmax(counts))
    return int(distinct[most]) if 3 * counts[most] >= len(values) else int(np.median(values))


def period_of(series: Sequence[Array], step: TimeStep) -> int:
    """Return the calendar's period or, for numbered steps, the one that most of the longer series show.

    Args:
        series: One array per series.
        step: TimeStep of all of them.
    """
    if step.kind != "number":
        return step.periods()[0]
    longer = sorted(series, key=len, reverse=True)[:PERIOD_SAMPLE]
    periods = [repetition(values[-10 * LONGEST_PERIOD :, None], LONGEST_PERIOD) for values in longer]
    period, count = max(((p, periods.count(p)) for p in set(periods)), key=lambda pair: pair[1])
    return period if 2 * count > len(periods) else 1


def repetition(series: Array, longest: int) -> int:
    """Return the lag of the highest autocorrelation peak of (T, C), summed over channels; 1 if there is none.

    A peak exceeds both neighbours and 0.1. Differences remove the trend first.
    """
    steps = np.diff(series, axis=0)
    steps = steps - steps.mean(axis=0)
    longest = min(longest, len(steps) // 2)
    scale = np.square(steps).sum(axis=0)
    steps = steps[:, scale > 0] / np.sqrt(scale[scale > 0])
    if longest < 3 or steps.shape[1] == 0:
        return 1
    size = 2 * len(steps)
    power = np.square(np.abs(np.fft.rfft(steps, size, axis=0))).sum(axis=1)
    r = np.fft.irfft(power, size)[: longest + 2] / steps.shape[1]
    inner = r[1:-1]
    peaks = (inner > r[:-2]) & (inner > r[2:]) & (inner > 0.1)
    peaks[0] = False
    return int(np.argmax(np.where(peaks, inner, -np.inf))) + 1 if peaks.any() else 1
