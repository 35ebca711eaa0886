"""CSV files as people have them: read, put on a regular grid of times, filled, with notes on all of it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from attangent._core.display import brief_fields
from attangent._core.errors import AttangentError
from attangent._core.tables import check_columns, check_header, is_number, reading_table
from attangent.forecast.data.calendar import on_regular_grid, parse_dates, to_numbers

MOST_MISSING = 0.5
"""A column of which more than this share is missing is not filled."""

MOST_REPEATED = 0.1
"""Where more than this share of rows repeats a time, they are not one series."""

_MISSING = ["?", "-", "--", "missing", "Missing", "nil", "NIL", ".", "inf", "-inf", "Inf", "-Inf", "#VALUE!"]
_DATE_NAMES = ("date", "datetime", "timestamp", "time", "ds", "day", "month", "year", "datum")
_SEPARATORS = (",", ";", "\t", "|")


@dataclass(frozen=True)
class Table:
    """A frame of finite numbers on a regular index, and what had to be done to get there."""

    frame: pd.DataFrame
    notes: list[str] = field(default_factory=list)

    __repr__ = brief_fields


def read_frame(path: str | Path, date: str | None = None, keep: tuple[str, ...] = ()) -> Table:
    """Read a CSV (plain or compressed) of numbers over time.

    `date` names the column of times; by default it is looked for. Columns named in `keep` must be usable;
    others that are not are left out with a note. What cannot be mended is refused.
    """
    raw = read_table(Path(path))
    notes: list[str] = []
    for name in keep if date is None else (date, *keep):
        if name not in raw.columns:
            raise AttangentError(f"{path} has no column {name!r}, it has {_listed(raw.columns)}")
    raw, times = _take_dates(raw, date, keep, notes)
    if times is not None:
        _refuse_stacked(raw, times)
    numbers = _numbers(raw, keep, notes)
    if times is not None:
        numbers = _on_grid(numbers, times, notes)
    return Table(_filled(numbers, keep, notes), notes)


def _on_grid(numbers: pd.DataFrame, times: pd.DatetimeIndex, notes: list[str]) -> pd.DataFrame:
    """Rows on a regular grid; those with a zone by the clock on the wall where it always shows one hour."""
    if times.tz is None:
        return on_regular_grid(numbers.set_axis(times), notes)
    wall = times.tz_localize(None)
    if len(np.unique(np.asarray(wall.hour))) == 1:
        gridded = on_regular_grid(numbers.set_axis(wall), notes)
        shown = pd.DatetimeIndex(gridded.index)
        first = np.ones(len(shown), dtype=bool)
        return gridded.set_axis(shown.tz_localize(times.tz, ambiguous=first, nonexistent="shift_forward"))
    gridded = on_regular_grid(numbers.set_axis(times.tz_convert(None)), notes)
    return gridded.set_axis(pd.DatetimeIndex(gridded.index).tz_localize("UTC").tz_convert(times.tz))


def _refuse_stacked(raw: pd.DataFrame, times: pd.DatetimeIndex) -> None:
    """Refuse series below each other: many rows with a time that another row has."""
    repeated = int(times.duplicated().sum())
    if repeated <= MOST_REPEATED * len(times):
        return
    apart = [
        name
        for name in raw.columns
        if not pd.DataFrame({"a": raw[name].to_numpy(), "b": times}).duplicated().any()
    ]
    text = [name for name in apart if not pd.api.types.is_numeric_dtype(raw[name])] or apart
    way = (
        f"column {text[0]!r} tells them apart: give it as the id (--id {text[0]})"
        if text
        else "sum or average them first"
    )
    raise AttangentError(
        f"{repeated} of {len(times)} rows repeat a time, so that the file holds several series below each "
        f"other: {way}"
    )


def read_table(path: Path) -> pd.DataFrame:
    """A CSV (plain or compressed) or Parquet file as it is, with names stripped and empty rows left out."""
    if not path.is_file():
        raise AttangentError(f"{path} is not a file")
    frame, separator = _read_parquet(path) if path.suffix == ".parquet" else _read_csv(path)
    check_columns(frame.columns, path)
    frame.columns = [str(column).strip() for column in frame.columns]
    frame = frame.dropna(how="all")
    if frame.empty:
        raise AttangentError(f"{path} has a header but no rows")
    if is_number(frame.columns[-1]) and _is_value(frame.columns[0]):
        raise AttangentError(
            f"{path} has no header: its first row ends in {frame.columns[-1]!r}; add a row with column names"
        )
    return _decimal_commas(frame) if separator != "," else frame


def _read_parquet(path: Path) -> tuple[pd.DataFrame, str]:
    try:
        return pd.read_parquet(path), ","
    except ImportError:
        raise AttangentError(f"{path} needs pyarrow to be read: pip install pyarrow") from None
    except (OSError, ValueError) as error:
        raise AttangentError(f"{path} cannot be read as Parquet: {str(error).strip()}") from None


def _read_csv(path: Path) -> tuple[pd.DataFrame, str]:
    check_header(path)
    with reading_table(path):
        try:
            widths = {separator: _width(path, separator) for separator in _SEPARATORS}
            separator = max(widths, key=widths.__getitem__) if max(widths.values()) > 1 else ","
            check_columns(_header(path, separator), path)
            frame = pd.read_csv(
                path,
                sep=separator,
                na_values=_MISSING,
                encoding="utf-8-sig",
                skipinitialspace=True,
                low_memory=False,
            )
        except pd.errors.EmptyDataError:
            raise AttangentError(
                f"{path} is empty, expected a CSV with a header and rows of numbers"
            ) from None
    return frame, separator


def _header(path: Path, separator: str) -> list[Any]:
    """The names as they stand there: pandas numbers those that come twice."""
    options: dict[str, Any] = {"sep": separator, "encoding": "utf-8-sig", "skipinitialspace": True}
    return pd.read_csv(path, header=None, nrows=1, dtype=str, **options).iloc[0].tolist()


def _width(path: Path, separator: str) -> int:
    try:
        return pd.read_csv(path, sep=separator, nrows=5, dtype=str, encoding="utf-8-sig").shape[1]
    except pd.errors.ParserError:
        return 0


def _decimal_commas(frame: pd.DataFrame) -> pd.DataFrame:
    """1,5 as 1.5, in columns that are numbers then; only where the comma does not separate columns."""
    for name in frame.columns[[not pd.api.types.is_numeric_dtype(kind) for kind in frame.dtypes]]:
        mended = to_numbers(pd.Series(frame[name]).astype(str).str.replace(",", ".", regex=False))
        if mended.notna().sum() == frame[name].notna().sum() > 0:
            frame[name] = mended
    return frame


def _is_value(text: str) -> bool:
    """Whether a column's name looks like a cell: a number or a date."""
    return is_number(text) or _looks_like_dates(pd.Series([text]))


def _take_dates(
    raw: pd.DataFrame, date: str | None, keep: tuple[str, ...], notes: list[str]
) -> tuple[pd.DataFrame, pd.DatetimeIndex | None]:
    name = date if date is not None else _find_dates(raw, keep)
    if name is None:
        notes.append("no column of dates was found: rows are taken as equally spaced")
        return raw, None
    missing = raw[name].isna().to_numpy()
    if missing.any():
        notes.append(f"{missing.sum()} rows without a date were left out")
        raw = raw.loc[~missing]
    return raw.drop(columns=name), parse_dates(pd.Series(raw[name]))


def _find_dates(raw: pd.DataFrame, keep: tuple[str, ...]) -> str | None:
    others = [column for column in raw.columns if column not in keep]
    for column in others:
        if column.lower() in _DATE_NAMES:
            return column
    for column in others:
        if not pd.api.types.is_numeric_dtype(raw[column]) and _looks_like_dates(pd.Series(raw[column])):
            return column
    first = others[0] if len(others) > 1 else None
    return first if first is not None and _looks_like_seconds(raw[first]) else None


def _looks_like_seconds(column: Any) -> bool:
    """Whole numbers that rise by one step nearly always, of the size of seconds since 1970 or finer."""
    if not pd.api.types.is_integer_dtype(column) or len(column) < 3 or column.abs().min() < 10**8:
        return False
    steps = np.diff(column.to_numpy())
    return bool((steps > 0).all() and (steps == np.median(steps)).mean() > 0.5)


def _looks_like_dates(column: pd.Series) -> bool:
    sample = column.dropna().head(20)
    if sample.empty or not sample.astype(str).str.contains(r"\d").all():
        return False
    try:
        parse_dates(sample)
    except AttangentError:
        return False
    return True


def _numbers(raw: pd.DataFrame, keep: tuple[str, ...], notes: list[str]) -> pd.DataFrame:
    columns: dict[str, pd.Series] = {}
    for name in raw.columns:
        if name.startswith("Unnamed:") and name not in keep:
            notes.append(f"the column without a name at {name.split()[-1]} was left out")
            continue
        values = _without_thousands(pd.Series(raw[name]), notes)
        bad = np.flatnonzero(values.isna() & raw[name].notna())
        if len(bad) == 0:
            columns[name] = values
        elif name in keep or len(bad) < 0.5 * len(values):
            raise AttangentError(
                f"column {name!r} is not numeric: row {bad[0] + 1} holds {raw[name].iloc[bad[0]]!r}; mend "
                "it, or take the column out"
            )
        else:
            notes.append(f"column {name!r} is not numeric and was left out")
    if not columns:
        raise AttangentError(f"no numeric column among {_listed(raw.columns)}")
    return pd.DataFrame(columns)


def _without_thousands(column: pd.Series, notes: list[str]) -> pd.Series:
    """Numbers; 1,234.5 is read as 1234.5 where every cell that needs it is written so."""
    values = to_numbers(column)
    bad = values.isna() & column.notna()
    if not bad.to_numpy().any():
        return values
    text = pd.Series(column[bad]).astype(str).str.strip()
    if not text.str.fullmatch(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?").all():
        return values
    notes.append(f"commas in {column.name!r} were read as thousands separators")
    return values.where(~bad, to_numbers(column.astype(str).str.replace(",", "", regex=False)))


def _filled(numbers: pd.DataFrame, keep: tuple[str, ...], notes: list[str]) -> pd.DataFrame:
    numbers = numbers.replace([np.inf, -np.inf], np.nan)
    missing = numbers.isna()
    for name in list(numbers.columns[missing.mean() > MOST_MISSING]):
        share = f"{missing[name].mean():.0%} of column {name!r} is missing"
        if name in keep:
            raise AttangentError(f"{share}, expected at most {MOST_MISSING:.0%}: fill it yourself first")
        notes.append(f"{share}; it was left out")
        numbers = numbers.drop(columns=name)
    if numbers.shape[1] == 0:
        raise AttangentError("every numeric column is mostly missing")
    for name in numbers.columns:
        gaps = int(missing[name].to_numpy().sum())
        if gaps:
            notes.append(f"{gaps} missing values of {name!r} were interpolated")
        if len(numbers[name].dropna().unique()) == 1:
            notes.append(f"column {name!r} is constant")
    return numbers.interpolate(limit_direction="both") if missing.to_numpy().any() else numbers


def _listed(names: pd.Index, most: int = 12) -> str:
    shown = [repr(str(name)) for name in names[:most]]
    return ", ".join(shown) + (f" and {len(names) - most} more" if len(names) > most else "")
