"""Times of a series: dates in any common format, and a regular grid they are put on."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from pandas.tseries.api import guess_datetime_format
from pandas.tseries.frequencies import to_offset

from attangent._core.errors import AttangentError
from attangent.forecast.data.zones import in_zone

SNAP = 0.25
"""A time may stand off the grid by this share of a step."""
MOST_INSERTED = 0.5
"""A grid of which more than this share has no row is taken for irregular."""


def to_numbers(column: pd.Series) -> pd.Series:
    """float64, with NaN for what is no number."""
    return pd.Series(pd.to_numeric(column, errors="coerce"), index=column.index, dtype=np.float64)


def parse_dates(column: pd.Series) -> pd.DatetimeIndex:
    """Times from strings or numbers: ISO 8601, day or month first, years, seconds or milliseconds since 1970.

    Where day and month can be told apart neither by a number above 12 nor by the order of the rows, the
    reading with the fewest different steps is taken, month first on a tie. Times with an offset keep it;
    where offsets differ, as they do over the year, the zone that has them all, else UTC.
    """
    if pd.api.types.is_numeric_dtype(column):
        return _numbers_as_dates(column)
    text = column.astype(str).str.strip()
    readings = [times for times in _readings(text) if not times.isna().any()]
    if not readings:
        raise AttangentError(_unreadable(text, str(column.name)))
    return in_zone(min(readings, key=_disorder), text)


def _readings(text: pd.Series) -> Iterator[pd.DatetimeIndex]:
    iso = pd.to_datetime(text, format="ISO8601", errors="coerce", utc=True)
    yield _naive(iso)
    if not iso.isna().any():
        return
    for day_first in (False, True):
        shapes = {_guess(sample, day_first) for sample in _samples(text, day_first)}
        for shape in sorted(shape for shape in shapes if shape is not None):
            yield _naive(pd.to_datetime(text, format=shape, errors="coerce", utc=True))
        if None in shapes:
            yield _one_by_one(text, day_first)


def _one_by_one(text: pd.Series, day_first: bool) -> pd.DatetimeIndex:
    """The slow way, for shapes that pandas reads but cannot name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _naive(pd.to_datetime(text, format="mixed", dayfirst=day_first, errors="coerce", utc=True))


def _guess(sample: str, day_first: bool) -> str | None:
    with warnings.catch_warnings():  # it warns where the sample is at odds with day_first; that is tried too
        warnings.simplefilter("ignore")
        return guess_datetime_format(sample, dayfirst=day_first)


def _samples(text: pd.Series, day_first: bool) -> list[str]:
    """The first value, and the one whose leading number is the largest: it tells days from months."""
    leading = to_numbers(pd.Series(text.str.extract(r"^(\d{1,2})\D", expand=False)))
    telling = [text.iloc[0]]
    if leading.notna().any():
        telling.append(text.loc[leading.idxmax()] if day_first else text.loc[leading.idxmin()])
    return [str(value) for value in telling]


def _naive(times: pd.Series) -> pd.DatetimeIndex:
    """Without a time zone; times outside 1678 to 2261, which nanoseconds cannot hold, become NaT."""
    index = pd.DatetimeIndex(times).tz_convert(None)
    inside = np.asarray((index > pd.Timestamp("1678-01-01")) & (index < pd.Timestamp("2262-01-01")))
    return pd.DatetimeIndex(index.where(inside)).as_unit("ns")


def _disorder(times: pd.DatetimeIndex) -> tuple[int, int]:
    steps = np.diff(times.asi8)
    return int((steps < 0).sum()), len(np.unique(steps))


def _unreadable(text: pd.Series, name: str) -> str:
    best = max(_readings(text), key=lambda times: times.notna().sum())
    row = int(np.flatnonzero(best.isna())[0])
    return (
        f"column {name!r} cannot be read as dates: row {row + 1} holds {text.iloc[row]!r}; "
        "use one format, best 2024-01-31 13:00"
    )


def _numbers_as_dates(column: pd.Series) -> pd.DatetimeIndex:
    values = column.to_numpy(dtype=np.float64)
    size = np.abs(values).max()
    if (values == np.round(values)).all() and values.min() >= 1678 and size <= 2261:
        return pd.DatetimeIndex(pd.to_datetime(column.astype(int).astype(str), format="%Y"))
    if (values == np.round(values)).all() and values.min() >= 18000101 and size <= 29991231:
        times = pd.to_datetime(column.astype(int).astype(str), format="%Y%m%d", errors="coerce")
        if not times.isna().any():
            return pd.DatetimeIndex(times)
    unit = next((unit for unit, top in (("s", 1e11), ("ms", 1e14), ("us", 1e17)) if size < top), "ns")
    if size < 1e8:
        raise AttangentError(
            f"column {column.name!r} holds numbers such as {values[0]:g}, neither dates nor seconds since "
            "1970: name the column of dates, or rename this one"
        )
    times = _naive(pd.to_datetime(column.astype("int64"), unit=unit, utc=True, errors="coerce"))
    if times.isna().any():
        raise AttangentError(f"column {column.name!r} holds times outside the years 1678 to 2261")
    return times


def frequency_of(times: pd.DatetimeIndex) -> Any:
    """The calendar step of regular times, or None."""
    with warnings.catch_warnings():  # newer pandas announces that it will answer with an offset
        warnings.simplefilter("ignore")
        return to_offset(pd.infer_freq(times))


def on_regular_grid(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Rows in order of time, none twice, at equal steps (or calendar days and months); gaps become NaN."""
    times = pd.DatetimeIndex(frame.index).as_unit("ns")
    frame = _one_row_a_time(frame.set_axis(times), notes)
    times = pd.DatetimeIndex(frame.index)
    if len(times) < 3:
        return frame
    frequency = frequency_of(times)
    if frequency is not None:
        return frame.asfreq(frequency)
    for regular in (_months, _weekdays, _equal_steps):
        gridded = regular(frame)
        if gridded is not None:
            inserted = len(gridded) - int(gridded.index.isin(times).sum())
            return _checked(gridded, len(frame), inserted, notes)
    raise AttangentError(_irregular(times))


def _one_row_a_time(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    if not frame.index.is_monotonic_increasing:
        notes.append("rows were not in order of time and were sorted")
        frame = frame.sort_index(kind="stable")
    if frame.index.has_duplicates:
        extra = int(frame.index.duplicated().sum())
        notes.append(f"{extra} rows repeat a time; rows of equal time were averaged")
        frame = pd.DataFrame(frame.groupby(level=0).mean())
    return frame


def _months(frame: pd.DataFrame) -> pd.DataFrame | None:
    """One row for each calendar month, at its first day, its last or any one day."""
    times = pd.DatetimeIndex(frame.index)
    same_day = len(set(times.day)) == 1 or bool(times.is_month_end.all())
    months = times.to_period("M")
    if not same_day or months.has_duplicates or np.diff(times.asi8).min() < pd.Timedelta(days=27).value:
        return None
    grid = pd.period_range(months[0], months[-1], freq="M")
    return frame.set_axis(months).reindex(grid).set_axis(grid.to_timestamp())


def _weekdays(frame: pd.DataFrame) -> pd.DataFrame | None:
    times = pd.DatetimeIndex(frame.index)
    daily = (
        bool((times == times.normalize()).all()) and np.diff(times.asi8).min() == pd.Timedelta(days=1).value
    )
    if not daily or np.asarray(times.day_of_week).max() > 4 or len(times) < 6:
        return None
    return frame.asfreq("B")


def _equal_steps(frame: pd.DataFrame) -> pd.DataFrame | None:
    times = pd.DatetimeIndex(frame.index)
    steps = np.diff(times.asi8)
    step = int(np.median(steps))
    position = (times.asi8 - times.asi8[0]) / step
    rounded = np.round(position).astype(np.int64)
    if np.abs(position - rounded).max() > SNAP or len(np.unique(rounded)) < len(rounded):
        return None
    if rounded[-1] + 1 > len(times) / (1 - MOST_INSERTED):
        return None
    grid = pd.date_range(times[0], periods=int(rounded[-1]) + 1, freq=pd.Timedelta(step, unit=times.unit))
    return frame.set_axis(grid[rounded]).reindex(grid)


def _checked(frame: pd.DataFrame, rows: int, moved: int, notes: list[str]) -> pd.DataFrame:
    inserted = len(frame) - rows
    if inserted > MOST_INSERTED * len(frame):
        raise AttangentError(
            f"{inserted} of {len(frame)} times have no row: the series is too full of gaps to be forecast"
        )
    if inserted:
        notes.append(f"{inserted} times without a row were inserted")
    if moved > inserted:
        notes.append(f"{moved - inserted} times were moved to the nearest point of a regular grid")
    return frame


def _irregular(times: pd.DatetimeIndex) -> str:
    steps = np.diff(times.asi8)
    row = int(np.argmax(np.abs(steps - np.median(steps))))
    return (
        f"times are irregular: the usual step is {pd.Timedelta(int(np.median(steps)), unit=times.unit)}, but "
        f"{times[row]} is followed by {times[row + 1]}; resample the series to equal steps first"
    )
