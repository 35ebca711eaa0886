"""Series from a table: one per column, or one per id in a long table with one row per series and time."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, Protocol

import numpy as np
import pandas as pd

from attangent._core.errors import AttangentError
from attangent.forecast.data.calendar import DAY, TimeStep, as_times, clock_went_back, find_step, step_of
from attangent.forecast.data.gaps import FilledSeries, Gaps, RawSeries, Way, decide, note_on_gaps
from attangent.forecast.data.panel import SHORTEST, Array, Integers, Mask
from attangent.forecast.data.tables import (
    as_frame,
    column_rows,
    constant_columns,
    listed,
    no_target,
    only_dates,
    read_numbers,
    with_dates,
)

SNAP = 0.25
"""Largest distance from the grid, in steps, at which a time moves to its nearest point."""
PYTHON_NAMES = {"--id": "id_col", "--date": "time_col", "--category": "category"}
"""Arguments of `SeriesForecaster` by the options of the commands."""
MOST_NAMED = 5
"""Number of ids that a message names."""


class OtherFrame(Protocol):
    """A frame of another library, such as polars."""

    def to_pandas(self) -> pd.DataFrame:
        """Return the frame for pandas."""
        ...


SeriesSource = pd.DataFrame | OtherFrame | str | PathLike[str] | Sequence[str | PathLike[str]]
"""A frame, a CSV or Parquet file, or several files."""


@dataclass(frozen=True)
class SeriesColumns:
    """Names of the columns of a table of series.

    Attributes:
        id: Column of ids in a long table. None: every column of `targets` is a series.
        time: Column of times. None searches for it: in a long table, ds or the only column of dates.
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

    def past(self) -> list[pd.Index]:
        """Return the times of the values of each series."""
        return [
            self.step.apart(last, np.arange(1 - len(values), 1))
            for last, values in zip(self.last, self.series, strict=True)
        ]

    def non_negative(self, values: Array) -> Array:
        """Clip values (n, H, ...) of the first n series at zero for those that never were below it."""
        low = np.array([past.min() for past in self.series[: len(values)]])
        return np.where(low.reshape(-1, *[1] * (values.ndim - 1)) >= 0, np.maximum(values, 0.0), values)

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


def read_series(
    source: Any,
    columns: SeriesColumns | None = None,
    *,
    drop_short: bool = True,
    gaps: Gaps = "auto",
    freq: str | int | None = None,
) -> SeriesSet:
    """Read series from a frame (pandas, or any with `to_pandas`), a CSV or Parquet file, or several files.

    Series that cannot be used are skipped and listed in the notes: times that are irregular or repeated, a
    value that is not a number, another step than the rest, too many gaps, or too few values.

    Args:
        source: Frame, path, or list of paths.
        columns: Names of the columns; by default those of a long table: unique_id, ds, y.
        drop_short: Skip series with fewer than three values instead of raising.
        gaps: What to do with missing times.
        freq: Step between times as pandas writes it, or a number; by default the usual one.

    Returns:
        The series on a regular grid of times, with notes on everything that was mended or skipped.

    Raises:
        AttangentError: If half of the series or more cannot be used for one reason. The message names the
            id and the row.
    """
    columns = columns or SeriesColumns()
    notes: list[str] = []
    frame = as_frame(source, [name for name in (columns.id,) if name is not None], notes)
    if len(frame) == 0:
        raise AttangentError("the table has no rows, expected at least three per series")
    if columns.time is None:
        dated = with_dates(frame, notes)
        time = "date" if dated is not frame else None
        if columns.id is not None and time is None:
            time = only_dates(frame, (columns.id, *columns.targets), notes)
        frame = dated
        columns = replace(columns, time=time)
    rows = (
        column_rows(frame, columns.time, columns.targets, notes)
        if columns.id is None
        else _long_rows(frame, columns, notes)
    )
    step = find_step(pd.Index(rows["time"]), _same(rows)) if freq is None else step_of(freq)
    if step is None:
        raise AttangentError(
            f"every id has one row, expected at least {SHORTEST}; is {rows.attrs['ids'][0]!r} the id of a "
            "series?"
        )
    rows, positions = _positions(rows, step, notes)
    series = _cut(rows, positions, step, notes, drop_short, gaps)
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
    others = {"--id": columns.id, "--date": columns.time, "--category": columns.category}
    for option, name in others.items():
        if name is not None and name not in frame.columns:
            raise AttangentError(
                f"there is no column {name!r}, there are {listed(frame.columns)}; choose one with {option} "
                f"({PYTHON_NAMES[option]} in Python)"
            )
    if columns.category is not None and columns.category in (columns.id, columns.time):
        raise AttangentError(
            f"--category names the column {columns.category!r}, expected another one than the ids and times"
        )
    if target not in frame.columns:
        raise no_target(frame, target, [*others.values()])
    for name, what in ((columns.id, "id"), (columns.time, "time")):
        missing = np.flatnonzero(frame[name].isna())
        if len(missing):
            raise AttangentError(f"row {missing[0] + 1} has no {what} (column {name!r})")
    values = read_numbers(pd.Series(frame[target]), notes)
    bad = np.flatnonzero(values.isna() & frame[target].notna())
    codes, ids = pd.factorize(frame[columns.id])
    times = as_times(pd.Series(frame[columns.time]), notes)
    row = np.arange(len(frame)) + 1
    rows = pd.DataFrame({"code": codes, "time": times, "value": values.to_numpy(), "row": row})
    rows.attrs["ids"] = list(ids)
    if len(bad):
        text = f"{frame[target].iloc[bad[0]]!r}"
        problem = f"column {target!r} is not numeric: row {bad[0] + 1} (id {{}}) holds {text}"
        rows = _without(rows, codes[bad], "hold text in place of a number", problem, notes)
    rows = rows.sort_values(["code", "time"], kind="stable")
    if not (np.diff(codes) < 0).any() and not rows.index.is_monotonic_increasing:
        notes.append("rows were not in order of time and were sorted")
    rows = rows.reset_index(drop=True)
    rows["value"] = rows["value"].where(np.isfinite(rows["value"]))
    return _once(rows, columns, notes)


def _once(rows: pd.DataFrame, columns: SeriesColumns, notes: list[str]) -> pd.DataFrame:
    """Average the hour that clocks show twice in autumn; skip series that repeat a time otherwise."""
    again = np.flatnonzero(rows.duplicated(["code", "time"]))
    if len(again) == 0:
        return rows
    ids = rows.attrs["ids"]
    if clock_went_back(pd.Index(rows["time"].iloc[again])):
        notes.append("the hour that clocks show twice at the end of summer time was averaged")
        rows = rows.groupby(["code", "time"], as_index=False, sort=False).agg(
            {"value": "mean", "row": "first"}
        )
        rows.attrs["ids"] = ids
        return rows
    first = rows.iloc[again[0]]
    problem = (
        f"{len(again)} rows repeat a time of their series: row {first['row']} is a second one of id "
        f"{{}} at {first['time']}; if another column tells them apart, name it too "
        f"(--id {columns.id},COLUMN); otherwise sum them first"
    )
    return _without(rows, rows["code"].to_numpy()[again], "repeat a time", problem, notes)


def _without(
    rows: pd.DataFrame, codes: Integers, reason: str, problem: str, notes: list[str]
) -> pd.DataFrame:
    """Skip series with a note; raise `problem`, with the first id for {}, if they are half of all or more."""
    bad = pd.unique(codes)
    ids = rows.attrs["ids"]
    if 2 * len(bad) >= len(pd.unique(rows["code"].to_numpy())):
        raise AttangentError(problem.replace("{}", repr(ids[int(bad[0])])))
    first_rows = rows.drop_duplicates("code").set_index("code")["row"]
    names = [f"{ids[int(code)]!r} (row {first_rows[code]})" for code in bad]
    notes.append(_listed(names, f"{len(names)} series {reason} and were skipped"))
    rest: pd.DataFrame = rows.loc[~np.isin(rows["code"].to_numpy(), bad)].reset_index(drop=True)
    rest.attrs["ids"] = ids
    return rest


def _listed(names: list[str], text: str) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"{text}: {', '.join(names[:MOST_NAMED])}{more}"


def _positions(rows: pd.DataFrame, step: TimeStep, notes: list[str]) -> tuple[pd.DataFrame, Integers]:
    """Return the rows on one grid, and their positions on it, counted in steps."""
    same = _same(rows)
    gaps = np.diff(step.units(pd.Index(rows["time"])))
    off = np.flatnonzero(same & ((np.abs(gaps - np.round(gaps)) > SNAP) | (np.round(gaps) < 1)))
    if len(off):
        before = rows.iloc[off[0]]
        after = rows.iloc[off[0] + 1]
        problem = (
            f"times are irregular: the usual step is {step.describe()}, but id {{}} goes from "
            f"{before['time']} to {after['time']} (row {after['row']}); resample it to equal steps first"
        )
        rows = _without(rows, rows["code"].to_numpy()[off], "have irregular times", problem, notes)
        return _positions(rows, step, notes)
    if (np.abs(gaps - np.round(gaps))[same] > 1e-6).any():
        notes.append("some times were moved to the nearest point of a regular grid")
    steps = np.where(same, np.round(gaps), 0.0).astype(np.int64)
    other, problem = _other_steps(rows, steps, same, step)
    if len(other):
        rows = _without(rows, other, "have another step than the rest", problem, notes)
        return _positions(rows, step, notes)
    return rows, np.concatenate(([0], np.cumsum(steps)))


def _same(rows: pd.DataFrame) -> Mask:
    """Return whether each row and the next belong to one series."""
    code = rows["code"].to_numpy()
    return code[1:] == code[:-1]


def _other_steps(rows: pd.DataFrame, gaps: Integers, same: Mask, step: TimeStep) -> tuple[Integers, str]:
    """Return the codes of series that always advance by the same multiple of the step, and the problem.

    A series with larger but different gaps is sparse, and stays.
    """
    code = rows["code"].to_numpy()[1:][same]
    size = int(rows["code"].to_numpy().max()) + 1
    count = np.bincount(code, minlength=size)
    smallest = np.full(size, np.iinfo(np.int64).max)
    largest = np.zeros(size, dtype=np.int64)
    np.minimum.at(smallest, code, gaps[same])
    np.maximum.at(largest, code, gaps[same])
    other = np.flatnonzero((smallest > 1) & (count >= 2) & (largest % np.maximum(smallest, 1) == 0))
    if len(other) == 0:
        return other, ""
    first = int(other[0])
    row = int(rows.loc[rows["code"] == first, "row"].iloc[0])
    return other, (
        f"{len(other)} series have another step than the rest: most advance by {step.describe()}, id "
        f"{{}} (row {row}) by {smallest[first]} times that; forecast them separately"
    )


def _cut(
    rows: pd.DataFrame, positions: Integers, step: TimeStep, notes: list[str], drop_short: bool, gaps: Gaps
) -> list[tuple[Any, Array, Any]]:
    """Return id, values and last time per series, with gaps filled."""
    times = pd.Index(rows["time"])
    raw = _raw_series(rows, positions, step)
    series: list[tuple[Any, Array, Any]] = []
    short: list[str] = []
    empty: list[str] = []
    filled: dict[str, FilledSeries] = {}
    complete = gaps != "zero" and not any(item.missing for item in raw)
    ways: list[Way] = [""] * len(raw) if complete else decide(raw, gaps)
    for item, way in zip(raw, ways, strict=True):
        text = f"{item.name!r} (row {item.row})"
        if not way and item.length >= SHORTEST:
            series.append((item.name, item.values, times[item.last]))
        elif item.length < SHORTEST and not item.usable(way):
            short.append(f"{text} has {item.length}")
        elif not item.usable(way) or (gaps == "skip" and way):
            empty.append(f"{text} lacks {item.missing} of {item.length}")
        else:
            complete_series = item.filled(way, gaps)
            filled[repr(item.name)] = complete_series
            added = len(complete_series.values) - item.length
            end = step.apart(times[item.last], np.array([added]))[0] if added else times[item.last]
            series.append((item.name, complete_series.values, times.max() if way == "zero" else end))
    if short or empty:
        _note_skipped(short, empty, bool(series), drop_short, notes)
    if filled:
        notes += note_on_gaps(filled, MOST_NAMED)
    return series


def _raw_series(rows: pd.DataFrame, positions: Integers, step: TimeStep) -> list[RawSeries]:
    """Split the rows into series, each from its first to its last known value."""
    values = rows["value"].to_numpy()
    names = np.array(rows.attrs["ids"], dtype=object)[rows["code"].to_numpy()]
    numbers = rows["row"].to_numpy()
    units = step.units(pd.Index(rows["time"]))
    later = np.round(units.max() - units).astype(np.int64)
    starts = np.flatnonzero(np.concatenate(([True], ~_same(rows))))
    # Closed days return with the calendar, and with the week of hours.
    period = step.periods()[0]
    week = step.longer_period(period) if step.kind == "fixed" and step.size < DAY else 0
    cycles = (period, week) if week else (period,)
    series = []
    for start, end in zip(starts, np.concatenate((starts[1:], [len(rows)])), strict=True):
        known = start + np.flatnonzero(np.isfinite(values[start:end]))
        first = int(known[0]) if len(known) else int(start)
        stop = int(known[-1]) + 1 if len(known) else first
        steps = positions[first:stop] - positions[first]
        length = int(steps[-1]) + 1 if len(steps) else 0
        last = max(stop - 1, first)
        series.append(
            RawSeries(
                name=names[start],
                row=int(numbers[start]),
                values=values[first:stop],
                positions=steps,
                last=last,
                later=int(later[last]),
                length=length,
                missing=length - len(known),
                cycles=cycles,
            )
        )
    return series


def _note_skipped(
    short: list[str], empty: list[str], any_left: bool, drop_short: bool, notes: list[str]
) -> None:
    """Note series that are too short or have too many gaps; raise if none is left."""
    if empty:
        text = _listed(empty, f"{len(empty)} series have too many gaps or irregular times")
        if not any_left:
            raise AttangentError(f"{text}; if a missing row means zero, say so (gaps='zero', --gaps zero)")
        notes.append(f"{text}; they were skipped")
    if short:
        text = _listed(short, f"{len(short)} series have fewer than {SHORTEST} values")
        if not drop_short or not any_left:
            raise AttangentError(f"{text}; add values, or leave them out")
        notes.append(f"{text}; they were skipped")


def _categories(frame: pd.DataFrame, columns: SeriesColumns, ids: list[Any]) -> Integers:
    """Return the number of each series' category."""
    kinds = constant_columns(frame, columns.id, [columns.category])[columns.category].loc[ids]
    return pd.factorize(kinds, sort=True)[0].astype(np.int64)
