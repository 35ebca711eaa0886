"""Columns that are known in advance, on the grid of each series: its past and its future."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attangent._core.errors import AttangentError
from attangent.forecast.data.calendar import to_numbers
from attangent.forecast.data.long_frames import SeriesSet, as_frame, as_times

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Covariates:
    """For each series its known columns over the past (n, K) and over the future (H, K)."""

    names: tuple[str, ...]
    past: list[Array]
    future: list[Array]


def read_covariates(
    given: SeriesSet, history: Any, future: Any, names: Sequence[str], horizon: int
) -> Covariates:
    """The columns `names` of the frame that the series came from and of one with their future.

    Missing past values are interpolated; a missing future value is refused by id, time and column.
    """
    before = _values(given, as_frame(history), names, "the frame of the series")
    after = _values(given, as_frame(future), names, "the frame of the future")
    past, ahead = [], []
    for one, series, last, times in zip(
        given.ids, given.series, given.last, given.future(horizon), strict=True
    ):
        index = given.step.apart(last, np.arange(1 - len(series), 1))
        past.append(_interpolated(_at(before, one, index), one, names))
        found = _at(after, one, times)
        missing = np.argwhere(~np.isfinite(found))
        if len(missing):
            row, column = missing[0]
            raise AttangentError(
                f"covariate {names[column]!r} has no value for id {one!r} at {times[row]}: give it for all "
                f"{horizon} steps after the end of every series"
            )
        ahead.append(found)
    return Covariates(tuple(names), past, ahead)


def _values(
    given: SeriesSet, frame: pd.DataFrame, names: Sequence[str], what: str
) -> dict[Any, pd.DataFrame]:
    columns = given.columns
    for name in (columns.id, columns.time, *names):
        if name not in frame.columns:
            raise AttangentError(
                f"{what} has no column {name!r}, it has {', '.join(map(str, frame.columns))}"
            )
    numbers = pd.DataFrame({name: to_numbers(pd.Series(frame[name])).to_numpy() for name in names})
    numbers.index = pd.Index(as_times(pd.Series(frame[columns.time])))
    ids = frame[columns.id].to_numpy()
    groups = {one: pd.DataFrame(part) for one, part in numbers.groupby(ids, sort=False)}
    for one, part in groups.items():
        if part.index.has_duplicates:
            again = part.index[part.index.duplicated()][0]
            raise AttangentError(f"{what} has two rows for id {one!r} at {again}")
    return groups


def _at(groups: dict[Any, pd.DataFrame], one: Any, index: pd.Index) -> Array:
    if one not in groups:
        raise AttangentError(f"there are no covariates for id {one!r}")
    return groups[one].reindex(index).to_numpy(dtype=np.float64)


def _interpolated(values: Array, one: Any, names: Sequence[str]) -> Array:
    if np.isfinite(values).all():
        return values
    filled = pd.DataFrame(values).interpolate(limit_direction="both").to_numpy()
    empty = np.flatnonzero(~np.isfinite(filled).all(axis=0))
    if len(empty):
        raise AttangentError(f"covariate {names[empty[0]]!r} has no value at all for id {one!r}")
    return filled


def with_holidays(known: Covariates | None, given: SeriesSet, horizon: int, country: str) -> Covariates:
    """The covariates with one more column, 1 on the holidays of a country."""
    past, future = [], []
    for series, last, times in zip(given.series, given.last, given.future(horizon), strict=True):
        past.append(holiday_column(given.step.apart(last, np.arange(1 - len(series), 1)), country)[:, None])
        future.append(holiday_column(times, country)[:, None])
    if known is None:
        return Covariates(("holiday",), past, future)
    return Covariates(
        (*known.names, "holiday"),
        [np.hstack(pair) for pair in zip(known.past, past, strict=True)],
        [np.hstack(pair) for pair in zip(known.future, future, strict=True)],
    )


def holiday_column(times: pd.Index, country: str) -> Array:
    """1 on the holidays of a country (its two letters), else 0; for steps of a day or less."""
    try:
        import holidays
    except ImportError:
        raise AttangentError("holidays need a package: pip install 'attangent[forecast]'") from None
    if not isinstance(times, pd.DatetimeIndex):
        raise AttangentError("holidays need times with dates, the series are numbered")
    try:
        known = holidays.country_holidays(country)
    except NotImplementedError:
        raise AttangentError(f"country is {country!r}, expected two letters such as DE or US") from None
    return np.array([float(day in known) for day in times.date])
