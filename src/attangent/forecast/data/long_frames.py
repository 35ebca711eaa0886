"""Long frames, one row for each series and time: checked as a whole and cut into series of one step."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attangent._core.errors import AttangentError
from attangent.forecast.data.calendar import parse_dates, to_numbers
from attangent.forecast.data.frames import read_table
from attangent.forecast.data.panel import SHORTEST
from attangent.forecast.data.steps import Step, find_step

Array = NDArray[np.float64]

MOST_FILLED = 0.5
"""A series of which more than this share would have to be filled in is refused."""
SHOWN = 5
"""So many ids are named in a message."""


@dataclass(frozen=True)
class Columns:
    """The names of the columns that hold the series' id, the time, the value and, if any, the category."""

    id: str = "unique_id"
    time: str = "ds"
    target: str = "y"
    category: str | None = None
    """A column that says what kind of series each is, the same in all its rows."""

    def all(self) -> tuple[str, ...]:
        names = (self.id, self.time, self.target)
        return names if self.category is None else (*names, self.category)


@dataclass(frozen=True)
class SeriesSet:
    """Series of one step: ids in order of first appearance, finite values, the last time of each, notes."""

    ids: list[Any]
    series: list[Array]
    last: list[Any]
    step: Step
    columns: Columns
    notes: list[str] = field(default_factory=list)
    category: NDArray[np.int64] | None = None
    """The number of each series' category, from zero; None where no column names them."""

    def future(self, horizon: int) -> list[pd.Index]:
        """The times after each series; series that end together share them."""
        known: dict[Any, pd.Index] = {}
        for last in self.last:
            if last not in known:
                known[last] = self.step.after(last, horizon)
        return [known[last] for last in self.last]

    def shortened(self, back: int) -> "SeriesSet":
        """Without the last `back` values; series that would keep fewer than three are left out."""
        kept = [k for k, one in enumerate(self.series) if len(one) - back >= SHORTEST]
        return SeriesSet(
            [self.ids[k] for k in kept],
            [self.series[k][: len(self.series[k]) - back] for k in kept],
            [self.step.apart(self.last[k], np.array([-back]))[0] for k in kept],
            self.step,
            self.columns,
            category=None if self.category is None else self.category[kept],
        )


def read_long(
    source: str | Path | Sequence[str | Path] | Any,
    columns: Columns | None = None,
    *,
    drop_short: bool = False,
) -> SeriesSet:
    """Series from a long frame (pandas, or anything with `to_pandas`), a CSV or Parquet file, or several.

    Repeated times of one series, times in two formats, series that step otherwise than the rest, text where a
    number should be: refused with the id and the row. Missing values and times are filled in with a note.
    Series of fewer than three values are refused, or left out with a note where `drop_short`.
    """
    columns = columns or Columns()
    frame = as_frame(source)
    for name in columns.all():
        if name not in frame.columns:
            listed = ", ".join(repr(str(column)) for column in frame.columns[:12])
            raise AttangentError(
                f"there is no column {name!r}, there are {listed}: name the columns of ids, times and values"
            )
    if len(frame) == 0:
        raise AttangentError("there are no rows, expected at least three for each series")
    notes: list[str] = []
    rows = _rows(frame, columns, notes)
    _refuse_repeated(rows)
    step = _step(rows)
    places = _places(rows, step)
    found = _cut(rows, places, step, columns, notes, drop_short)
    if columns.category is None:
        return found
    return replace(found, category=_categories(frame, columns, found.ids))


def _categories(frame: pd.DataFrame, columns: Columns, ids: list[Any]) -> NDArray[np.int64]:
    """The number of each series' category; refused where a series has two, or none."""
    pairs = frame[[columns.id, columns.category]].assign(row=np.arange(len(frame)) + 1)
    pairs = pairs.drop_duplicates([columns.id, columns.category])
    wrong = pd.DataFrame(pairs[pairs[columns.category].isna() | pairs.duplicated(columns.id)])
    if len(wrong):
        id, category, row = next(iter(wrong.itertuples(index=False, name=None)))
        raise AttangentError(
            f"column {columns.category!r} should hold one category for each series: row {row} of id {id!r} "
            f"holds {category!r}"
        )
    kinds = pairs.set_index(columns.id)[columns.category].loc[ids]
    return pd.factorize(kinds, sort=True)[0].astype(np.int64)


def as_frame(source: Any) -> pd.DataFrame:
    """A frame, from one of another library, a file or several."""
    if isinstance(source, pd.DataFrame):
        return source
    if hasattr(source, "to_pandas"):
        return source.to_pandas()
    if isinstance(source, str | Path):
        return read_table(Path(source))
    if isinstance(source, Sequence) and source and all(isinstance(path, str | Path) for path in source):
        return pd.concat([read_table(Path(path)) for path in source], ignore_index=True)
    raise AttangentError(f"{type(source).__name__} cannot be read as series: give a frame or a file")


def _rows(frame: pd.DataFrame, columns: Columns, notes: list[str]) -> pd.DataFrame:
    """id as codes, time, value and row number, sorted by series and time; `ids` in the frame's attributes."""
    for name, what in ((columns.id, "id"), (columns.time, "time")):
        missing = np.flatnonzero(frame[name].isna())
        if len(missing):
            raise AttangentError(f"row {missing[0] + 1} has no {what} (column {name!r})")
    values = to_numbers(pd.Series(frame[columns.target]))
    bad = np.flatnonzero(values.isna() & frame[columns.target].notna())
    if len(bad):
        raise AttangentError(
            f"column {columns.target!r} is not numeric: row {bad[0] + 1} (id "
            f"{frame[columns.id].iloc[bad[0]]!r}) holds {frame[columns.target].iloc[bad[0]]!r}"
        )
    values = values.where(np.isfinite(values))
    codes, ids = pd.factorize(frame[columns.id])
    rows = pd.DataFrame(
        {
            "code": codes,
            "time": as_times(pd.Series(frame[columns.time])),
            "value": values.to_numpy(),
            "row": np.arange(len(frame)) + 1,
        }
    )
    ordered = rows.sort_values(["code", "time"], kind="stable", ignore_index=True)
    if not (np.diff(rows["code"]) < 0).any() and not ordered["row"].is_monotonic_increasing:
        notes.append("rows were not in order of time and were sorted")
    ordered.attrs["ids"] = list(ids)
    return ordered


def as_times(column: pd.Series) -> Any:
    """Times or whole numbers, from a column of times, text or numbers."""
    if isinstance(column.dtype, pd.DatetimeTZDtype) or pd.api.types.is_datetime64_any_dtype(column):
        return pd.DatetimeIndex(column)
    if pd.api.types.is_integer_dtype(column):
        top = int(column.abs().max())
        plain = top < 10**8 and not 18_000_101 <= int(column.min()) <= top <= 29_991_231
        return pd.Index(column) if plain else parse_dates(column)
    return parse_dates(column)


def _refuse_repeated(rows: pd.DataFrame) -> None:
    again = np.flatnonzero(rows.duplicated(["code", "time"]))
    if len(again):
        first = rows.iloc[again[0]]
        raise AttangentError(
            f"{len(again)} rows repeat a time of their series: row {first['row']} is a second one of id "
            f"{rows.attrs['ids'][int(first['code'])]!r} at {first['time']}; add the column that tells them "
            "apart to the id, or sum them first"
        )


def _same(rows: pd.DataFrame) -> NDArray[np.bool_]:
    code = rows["code"].to_numpy()
    return code[1:] == code[:-1]


def _step(rows: pd.DataFrame) -> Step:
    step = find_step(pd.Index(rows["time"]), _same(rows))
    if step is None:
        raise AttangentError(
            f"every id has one row, expected at least {SHORTEST}: is {rows.attrs['ids'][0]!r} the id of a "
            "series?"
        )
    return step


def _places(rows: pd.DataFrame, step: Step) -> NDArray[np.int64]:
    """Steps from the start of each series; refused where a series is off the grid or steps otherwise."""
    same = _same(rows)
    gaps = np.diff(step.units(pd.Index(rows["time"])))
    off = np.flatnonzero(same & (np.abs(gaps - np.round(gaps)) > 0.25) | same & (np.round(gaps) < 1))
    if len(off):
        before, after = rows.iloc[off[0]], rows.iloc[off[0] + 1]
        raise AttangentError(
            f"times are irregular: the usual step is {step.describe()}, but id "
            f"{rows.attrs['ids'][int(after['code'])]!r} goes from {before['time']} to {after['time']} "
            f"(row {after['row']}); resample the series to equal steps first"
        )
    whole = np.where(same, np.round(gaps), 0.0).astype(np.int64)
    _refuse_mixed(rows, whole, same, step)
    places = np.concatenate(([0], np.cumsum(whole)))
    starts = np.concatenate(([0], np.flatnonzero(~same) + 1))
    return places - np.repeat(places[starts], np.diff(np.concatenate((starts, [len(rows)]))))


def _refuse_mixed(rows: pd.DataFrame, gaps: NDArray[np.int64], same: NDArray[np.bool_], step: Step) -> None:
    code = rows["code"].to_numpy()[1:][same]
    count = np.bincount(code)
    smallest = np.full(len(count), np.iinfo(np.int64).max)
    np.minimum.at(smallest, code, gaps[same])
    other = np.flatnonzero((smallest > 1) & (count >= 2))
    if len(other):
        first = int(other[0])
        row = int(rows.loc[rows["code"] == first, "row"].iloc[0])
        raise AttangentError(
            f"{len(other)} series step otherwise than the rest: most go by {step.describe()}, id "
            f"{rows.attrs['ids'][first]!r} (row {row}) by {smallest[first]} of these; forecast "
            "them apart"
        )


def _cut(
    rows: pd.DataFrame,
    places: NDArray[np.int64],
    step: Step,
    columns: Columns,
    notes: list[str],
    drop_short: bool,
) -> SeriesSet:
    ids, starts = rows.attrs["ids"], np.flatnonzero(np.concatenate(([True], ~_same(rows))))
    ends = np.concatenate((starts[1:], [len(rows)]))
    values, times, numbers = rows["value"].to_numpy(), pd.Index(rows["time"]), rows["row"].to_numpy()
    kept: list[tuple[Any, Array, Any]] = []
    short: list[str] = []
    filled = 0
    for code, (start, end) in enumerate(zip(starts, ends, strict=True)):
        series, gaps, last = _one(values[start:end], places[start:end])
        if len(series) < SHORTEST:
            short.append(f"{ids[code]!r} (row {numbers[start]}) has {len(series)}")
            continue
        if gaps > MOST_FILLED * len(series):
            raise AttangentError(
                f"{gaps} of {len(series)} values of id {ids[code]!r} (from row {numbers[start]}) are "
                "missing: it is too full of gaps"
            )
        filled += gaps
        kept.append((ids[code], series, times[start + last]))
    if short:
        said = f"{len(short)} series have fewer than {SHORTEST} values: {', '.join(short[:SHOWN])}"
        if not drop_short or not kept:
            raise AttangentError(f"{said}; leave them out (drop_short, --drop-short) or give more of them")
        notes.append(f"{said}; they were left out")
    if filled:
        notes.append(f"{filled} missing values or times were interpolated")
    names, series, lasts = (list(part) for part in zip(*kept, strict=True))
    return SeriesSet(names, series, lasts, step, columns, notes)


def _one(values: Array, places: NDArray[np.int64]) -> tuple[Array, int, int]:
    """A series on its grid with gaps interpolated, how many those were, and which row is its last value."""
    known = np.flatnonzero(np.isfinite(values))
    if len(known) == 0:
        return np.empty(0), 0, 0
    first, last = int(known[0]), int(known[-1])
    grid = np.arange(int(places[first]), int(places[last]) + 1)
    if len(grid) == len(known):
        return values[first : last + 1], 0, int(last)
    return np.interp(grid, places[known], values[known]), len(grid) - len(known), int(last)
