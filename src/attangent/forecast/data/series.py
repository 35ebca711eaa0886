"""Series from a table: one per column, or one per id in a long table with one row per series and time."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attangent._core.errors import AttangentError
from attangent.forecast.data.calendar import TimeStep, as_times, find_step
from attangent.forecast.data.panel import SHORTEST
from attangent.forecast.data.tables import MOST_FILLED, as_frame, listed, numeric_columns, take_times

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]

MOST_REPEATED = 0.1
"""Largest fraction of rows that may repeat a time before a table counts as several stacked series."""
SNAP = 0.25
"""Largest distance from the grid, in steps, at which a time moves to its nearest point."""
MOST_NAMED = 5
"""Number of ids that a message names."""


@dataclass(frozen=True)
class SeriesColumns:
    """Names of the columns of a table of series.

    Attributes:
        id: Column of ids in a long table. None: every column of `targets` is a series.
        time: Column of times. None searches for it.
        targets: Columns of values. Empty takes all numeric columns; a long table needs exactly one.
        category: Column with the kind of each series, constant within a series.
    """

    id: str | None = "unique_id"
    time: str | None = "ds"
    targets: tuple[str, ...] = ("y",)
    category: str | None = None


@dataclass(frozen=True)
class SeriesSet:
    """Series with one common step.

    Attributes:
        ids: Ids in order of first appearance; column names if the table has no ids.
        series: Finite values, one array per series.
        last: Time of the last value of each series.
        step: TimeStep of all series.
        columns: Columns that the series were read from.
        notes: Changes that were made to the data.
        category: Number of each series' category, from zero.
    """

    ids: list[Any]
    series: list[Array]
    last: list[Any]
    step: TimeStep
    columns: SeriesColumns
    notes: list[str] = field(default_factory=list)
    category: Integers | None = None

    def future(self, horizon: int) -> list[pd.Index]:
        """Return the `horizon` times after each series; series that end together share them."""
        steps = np.arange(1, horizon + 1)
        times = {last: self.step.apart(last, steps) for last in dict.fromkeys(self.last)}
        return [times[last] for last in self.last]

    def shortened(self, back: int) -> "SeriesSet":
        """Drop the last `back` values, and series that would retain fewer than three."""
        retained = [k for k, values in enumerate(self.series) if len(values) - back >= SHORTEST]
        return SeriesSet(
            [self.ids[k] for k in retained],
            [self.series[k][: len(self.series[k]) - back] for k in retained],
            [self.step.apart(self.last[k], np.array([-back]))[0] for k in retained],
            self.step,
            self.columns,
            category=None if self.category is None else self.category[retained],
        )


def read_series(source: Any, columns: SeriesColumns | None = None, *, drop_short: bool = False) -> SeriesSet:
    """Read series from a frame (pandas, or any with `to_pandas`), a CSV or Parquet file, or several files.

    Args:
        source: Frame, path, or list of paths.
        columns: Names of the columns; by default those of a long table: unique_id, ds, y.
        drop_short: Leave out series with fewer than three values instead of raising.

    Returns:
        The series on a regular grid of times, with notes on everything that was mended.

    Raises:
        AttangentError: If times are irregular or repeated, a value is not a number, a series has another
            step than the rest, too many values are missing, or a series is too short. The message names
            the id and the row.
    """
    columns = columns or SeriesColumns()
    frame = as_frame(source)
    if len(frame) == 0:
        raise AttangentError("the table has no rows, expected at least three per series")
    notes: list[str] = []
    rows = _column_rows(frame, columns, notes) if columns.id is None else _long_rows(frame, columns, notes)
    code = rows["code"].to_numpy()
    same = code[1:] == code[:-1]  # whether a row and the next belong to one series
    step = find_step(pd.Index(rows["time"]), same)
    if step is None:
        raise AttangentError(
            f"every id has one row, expected at least {SHORTEST}; is {rows.attrs['ids'][0]!r} the id of a "
            "series?"
        )
    positions = _positions(rows, same, step, notes)
    series = _cut(rows, same, positions, notes, drop_short)
    ids = [item[0] for item in series]
    category = None if columns.category is None else _categories(frame, columns, ids)
    return SeriesSet(
        ids, [item[1] for item in series], [item[2] for item in series], step, columns, notes, category
    )


def _long_rows(frame: pd.DataFrame, columns: SeriesColumns, notes: list[str]) -> pd.DataFrame:
    """Return code of the id, time, value and row number, sorted by series and time; ids in `attrs`."""
    if len(columns.targets) != 1:
        raise AttangentError(f"{len(columns.targets)} target columns were named, expected one with an id")
    target = columns.targets[0]
    for name in (columns.id, columns.time, target, columns.category):
        if name is not None and name not in frame.columns:
            raise AttangentError(
                f"there is no column {name!r}, there are {listed(frame.columns)}; name the columns of ids, "
                "times and values"
            )
    for name, what in ((columns.id, "id"), (columns.time, "time")):
        missing = np.flatnonzero(frame[name].isna())
        if len(missing):
            raise AttangentError(f"row {missing[0] + 1} has no {what} (column {name!r})")
    values = pd.Series(pd.to_numeric(frame[target], errors="coerce"), dtype=np.float64)
    bad = np.flatnonzero(values.isna() & frame[target].notna())
    if len(bad):
        raise AttangentError(
            f"column {target!r} is not numeric: row {bad[0] + 1} (id {frame[columns.id].iloc[bad[0]]!r}) "
            f"holds {frame[target].iloc[bad[0]]!r}"
        )
    codes, ids = pd.factorize(frame[columns.id])
    times = as_times(pd.Series(frame[columns.time]))
    row = np.arange(len(frame)) + 1
    rows = pd.DataFrame({"code": codes, "time": times, "value": values.to_numpy(), "row": row})
    rows = rows.sort_values(["code", "time"], kind="stable")
    if not (np.diff(codes) < 0).any() and not rows.index.is_monotonic_increasing:
        notes.append("rows were not in order of time and were sorted")
    rows = rows.reset_index(drop=True)
    rows["value"] = rows["value"].where(np.isfinite(rows["value"]))
    rows.attrs["ids"] = list(ids)
    again = np.flatnonzero(rows.duplicated(["code", "time"]))
    if len(again):
        first = rows.iloc[again[0]]
        raise AttangentError(
            f"{len(again)} rows repeat a time of their series: row {first['row']} is a second one of id "
            f"{ids[int(first['code'])]!r} at {first['time']}; add the column that tells them apart to the "
            "id, or sum them first"
        )
    return rows


def _column_rows(frame: pd.DataFrame, columns: SeriesColumns, notes: list[str]) -> pd.DataFrame:
    """Return the rows of `_long_rows` for a table with one series per column."""
    for name in columns.targets if columns.time is None else (columns.time, *columns.targets):
        if name not in frame.columns:
            raise AttangentError(f"there is no column {name!r}, there are {listed(frame.columns)}")
    frame, times = take_times(frame, columns.time, columns.targets, notes)
    table = numeric_columns(frame, columns.targets, notes)
    if not times.is_unique:
        table, times = _averaged(frame, table, times, notes)
    if not times.is_monotonic_increasing:
        notes.append("rows were not in order of time and were sorted")
        order = np.argsort(times, kind="stable")
        table = table.iloc[order]
        times = times[order]
    # Series of one table end together: values missing at the end repeat the last one, so that all
    # forecasts are for the same times.
    values = table.where(table.bfill().notna(), table.ffill()).to_numpy()
    count = values.shape[1]
    rows = pd.DataFrame(
        {
            "code": np.repeat(np.arange(count), len(values)),
            "time": times if count == 1 else times.append([times] * (count - 1)),
            "value": values.T.ravel(),
            "row": np.tile(np.arange(len(values)) + 1, count),
        }
    )
    rows.attrs["ids"] = list(table)
    return rows


def _averaged(
    frame: pd.DataFrame, table: pd.DataFrame, times: pd.Index, notes: list[str]
) -> tuple[pd.DataFrame, pd.Index]:
    """Average rows of equal time; raise if most rows repeat one: the table then holds several series."""
    repeated = int(times.duplicated().sum())
    if repeated > MOST_REPEATED * len(times):
        apart = [
            name
            for name in frame.columns
            if not pd.DataFrame({"a": frame[name].to_numpy(), "b": times}).duplicated().any()
        ]
        text = [name for name in apart if not pd.api.types.is_numeric_dtype(frame[name])] or apart
        advice = "sum or average them first"
        if text:
            advice = f"column {text[0]!r} tells them apart: pass it as the id (--id {text[0]})"
        raise AttangentError(
            f"{repeated} of {len(times)} rows repeat a time, so the table holds several series below each "
            f"other; {advice}"
        )
    notes.append(f"{repeated} rows repeat a time; rows of equal time were averaged")
    table = pd.DataFrame(table.groupby(np.asarray(times), sort=False).mean())
    return table, times.unique()


def _positions(rows: pd.DataFrame, same: Mask, step: TimeStep, notes: list[str]) -> Integers:
    """Return the number of steps from the start of each series, at the nearest point of the grid."""
    gaps = np.diff(step.units(pd.Index(rows["time"])))
    rounded = np.round(gaps)
    off = np.flatnonzero(same & (np.abs(gaps - rounded) > SNAP) | same & (rounded < 1))
    if len(off):
        before = rows.iloc[off[0]]
        after = rows.iloc[off[0] + 1]
        raise AttangentError(
            f"times are irregular: the usual step is {step.describe()}, but id "
            f"{rows.attrs['ids'][int(after['code'])]!r} goes from {before['time']} to {after['time']} "
            f"(row {after['row']}); resample the series to equal steps first"
        )
    if (np.abs(gaps - rounded)[same] > 1e-6).any():
        notes.append("some times were moved to the nearest point of a regular grid")
    steps = np.where(same, rounded, 0.0).astype(np.int64)
    if not same.all():
        _refuse_mixed_steps(rows, steps, same, step)
    positions = np.concatenate(([0], np.cumsum(steps)))
    starts = np.concatenate(([0], np.flatnonzero(~same) + 1))
    return positions - np.repeat(positions[starts], np.diff(np.concatenate((starts, [len(rows)]))))


def _refuse_mixed_steps(rows: pd.DataFrame, gaps: Integers, same: Mask, step: TimeStep) -> None:
    code = rows["code"].to_numpy()[1:][same]
    count = np.bincount(code)
    smallest = np.full(len(count), np.iinfo(np.int64).max)
    np.minimum.at(smallest, code, gaps[same])
    other = np.flatnonzero((smallest > 1) & (count >= 2))
    if len(other):
        first = int(other[0])
        row = int(rows.loc[rows["code"] == first, "row"].iloc[0])
        raise AttangentError(
            f"{len(other)} series have another step than the rest: most advance by {step.describe()}, id "
            f"{rows.attrs['ids'][first]!r} (row {row}) by {smallest[first]} times that; forecast them "
            "separately"
        )


def _cut(
    rows: pd.DataFrame, same: Mask, positions: Integers, notes: list[str], drop_short: bool
) -> list[tuple[Any, Array, Any]]:
    """Return id, values and last time per series, with gaps interpolated."""
    ids = rows.attrs["ids"]
    starts = np.flatnonzero(np.concatenate(([True], ~same)))
    ends = np.concatenate((starts[1:], [len(rows)]))
    values = rows["value"].to_numpy()
    times = pd.Index(rows["time"])
    numbers = rows["row"].to_numpy()
    series: list[tuple[Any, Array, Any]] = []
    short: list[str] = []
    filled: dict[str, int] = {}
    for name, start, end in zip(ids, starts, ends, strict=True):
        complete, gaps, last = _on_grid(values[start:end], positions[start:end])
        if len(complete) < SHORTEST:
            short.append(f"{name!r} (row {numbers[start]}) has {len(complete)}")
            continue
        if gaps > MOST_FILLED * len(complete):
            raise AttangentError(
                f"{gaps} of {len(complete)} values of {name!r} (from row {numbers[start]}) are missing: it "
                "is too full of gaps, or its times are irregular"
            )
        if gaps:
            filled[repr(name)] = gaps
        series.append((name, complete, times[start + last]))
    if short:
        text = f"{len(short)} series have fewer than {SHORTEST} values: {', '.join(short[:MOST_NAMED])}"
        if not drop_short or not series:
            raise AttangentError(f"{text}; leave them out (drop_short, --drop-short) or add values")
        notes.append(f"{text}; they were left out")
    if filled:
        more = f" and {len(filled) - MOST_NAMED} more" if len(filled) > MOST_NAMED else ""
        names = ", ".join(list(filled)[:MOST_NAMED]) + more
        notes.append(f"{sum(filled.values())} missing values or times of {names} were interpolated")
    return series


def _on_grid(values: Array, positions: Integers) -> tuple[Array, int, int]:
    """Return a series with gaps interpolated, the number of gaps, and the row of its last value."""
    known = np.flatnonzero(np.isfinite(values))
    if len(known) == 0:
        return np.empty(0), 0, 0
    first = int(known[0])
    last = int(known[-1])
    grid = np.arange(int(positions[first]), int(positions[last]) + 1)
    if len(grid) == len(known):
        return values[first : last + 1], 0, last
    return np.interp(grid, positions[known], values[known]), len(grid) - len(known), last


def _categories(frame: pd.DataFrame, columns: SeriesColumns, ids: list[Any]) -> Integers:
    """Return the number of each series' category; raise if a series has two, or none."""
    pairs = frame[[columns.id, columns.category]].assign(row=np.arange(len(frame)) + 1)
    pairs = pairs.drop_duplicates([columns.id, columns.category])
    wrong = pd.DataFrame(pairs[pairs[columns.category].isna() | pairs.duplicated(columns.id)])
    if len(wrong):
        series, category, row = next(iter(wrong.itertuples(index=False, name=None)))
        raise AttangentError(
            f"column {columns.category!r} should hold one category per series: row {row} of id {series!r} "
            f"holds {category!r}"
        )
    kinds = pairs.set_index(columns.id)[columns.category].loc[ids]
    return pd.factorize(kinds, sort=True)[0].astype(np.int64)
