"""Columns that are known in advance, on the grid of each series: its past and its future."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from attangent._core.errors import AttangentError
from attangent.forecast.data.calendar import as_times
from attangent.forecast.data.panel import Array
from attangent.forecast.data.series import SeriesSet
from attangent.forecast.data.tables import as_frame, listed, with_dates


@dataclass(frozen=True)
class Covariates:
    """Known columns of each series over its past (n, K) and its future (H, K)."""

    names: tuple[str, ...]
    past: list[Array]
    future: list[Array]


def read_covariates(
    series: SeriesSet, history: Any, future: Any, names: Sequence[str], horizon: int
) -> Covariates:
    """Read covariates over the past and the next `horizon` steps of each series.

    Missing past values are interpolated. A missing future value raises an error with id, time and column.

    Args:
        series: The series.
        history: Table that the series were read from.
        future: Table with ids, times and covariates of the steps ahead.
        names: Columns of the covariates.
        horizon: Number of steps ahead.
    """
    if series.columns.id is None:
        raise AttangentError("covariates need a long table with a column of ids; name it (--id)")
    text = [series.columns.id] if isinstance(series.ids[0], str) else []
    before = _by_id(series, as_frame(history, text), names, "the table of the series")
    after = _by_id(series, as_frame(future, text), names, "the table of the future")
    past = []
    ahead = []
    for name, index, times in zip(series.ids, series.past(), series.future(horizon), strict=True):
        past.append(_interpolated(_at(before, name, index), name, names))
        known = _at(after, name, times)
        missing = np.argwhere(~np.isfinite(known))
        if len(missing):
            row, column = missing[0]
            raise AttangentError(
                f"covariate {names[column]!r} has no value for id {name!r} at {times[row]}; give it for all "
                f"{horizon} steps after the end of every series"
            )
        ahead.append(known)
    return Covariates(tuple(names), past, ahead)


def known_ahead(
    series: SeriesSet,
    history: Any,
    future: Any,
    names: Sequence[str],
    country: str | None,
    horizon: int,
) -> Covariates | None:
    """Return what is known of `horizon` steps after the series: covariates and a country's holidays."""
    known = None
    if names:
        if future is None:
            raise AttangentError(
                f"the covariates {', '.join(names)} must be known {horizon} steps ahead; pass them as X_df"
            )
        known = read_covariates(series, history, future, names, horizon)
    return known if country is None else with_holidays(known, series, horizon, country)


def _by_id(
    series: SeriesSet, frame: pd.DataFrame, names: Sequence[str], what: str
) -> dict[Any, pd.DataFrame]:
    columns = series.columns
    if columns.time not in frame.columns:
        frame = with_dates(frame, [])
    for name in (columns.id, columns.time, *names):
        if name not in frame.columns:
            raise AttangentError(f"{what} has no column {name!r}, it has {listed(frame.columns)}")
    numbers = pd.DataFrame(
        {name: np.asarray(pd.to_numeric(frame[name], errors="coerce"), dtype=np.float64) for name in names}
    )
    numbers.index = pd.Index(as_times(pd.Series(frame[columns.time])))
    ids = frame[columns.id].to_numpy()
    tables = {key: pd.DataFrame(rows) for key, rows in numbers.groupby(ids, sort=False)}
    for key, rows in tables.items():
        if rows.index.has_duplicates:
            again = rows.index[rows.index.duplicated()][0]
            raise AttangentError(f"{what} has two rows for id {key!r} at {again}")
    return tables


def _at(tables: dict[Any, pd.DataFrame], key: Any, index: pd.Index) -> Array:
    if key not in tables:
        raise AttangentError(f"there are no covariates for id {key!r}")
    return tables[key].reindex(index).to_numpy(dtype=np.float64)


def _interpolated(values: Array, key: Any, names: Sequence[str]) -> Array:
    if np.isfinite(values).all():
        return values
    filled = pd.DataFrame(values).interpolate(limit_direction="both").to_numpy()
    empty = np.flatnonzero(~np.isfinite(filled).all(axis=0))
    if len(empty):
        raise AttangentError(f"covariate {names[empty[0]]!r} has no value at all for id {key!r}")
    return filled


def with_holidays(known: Covariates | None, series: SeriesSet, horizon: int, country: str) -> Covariates:
    """Add a column that is 1 on the holidays of a country."""
    past = [holiday_column(times, country)[:, None] for times in series.past()]
    future = [holiday_column(times, country)[:, None] for times in series.future(horizon)]
    if known is None:
        return Covariates(("holiday",), past, future)
    return Covariates(
        (*known.names, "holiday"),
        [np.hstack(pair) for pair in zip(known.past, past, strict=True)],
        [np.hstack(pair) for pair in zip(known.future, future, strict=True)],
    )


def holiday_column(times: pd.Index, country: str) -> Array:
    """Return 1 on the holidays of a country (its two letters), otherwise 0; for steps of a day or less."""
    try:
        import holidays
    except ImportError:
        raise AttangentError("holidays need a package: pip install 'attangent[forecast]'") from None
    if not isinstance(times, pd.DatetimeIndex):
        raise AttangentError("holidays need times with dates, but the series are numbered")
    try:
        known = holidays.country_holidays(country)
    except NotImplementedError:
        raise AttangentError(f"country is {country!r}, expected two letters such as DE or US") from None
    return np.array([float(day in known) for day in times.date])
