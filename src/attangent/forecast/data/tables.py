"""Tables in CSV or Parquet files, or frames of other libraries: their times and their numbers."""

import shlex
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from attangent._core.errors import AttangentError
from attangent._core.tables import check_columns, check_header, check_row_width, is_number, reading_table
from attangent.forecast.data.calendar import parse_dates

MOST_FILLED = 0.5
"""Largest fraction of a series that may be filled in."""
MOST_REPEATED = 0.1
"""Largest fraction of rows that may repeat a time before a table counts as several stacked series."""
MOST_OPTIONS = 4
"""Number of columns that an error offers."""
_MISSING = [
    "", "NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NULL", "null", "NaN", "nan", "-nan", "None", "?", "-",
    "--", "missing", "Missing", "nil", "NIL", ".", "inf", "-inf", "Inf", "-Inf", "#VALUE!", "k.A.", "k. A.",
    "n.v.", "n. v.",
]  # fmt: skip
"""Cells that hold no number."""
_DATE_NAMES = ("date", "datetime", "timestamp", "time", "ds", "day", "month", "year", "datum")
_SPREADSHEETS = (".xlsx", ".xls", ".ods")
_SEPARATORS = (",", ";", "\t", "|")
_POINT = r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?"
"""3,005.67"""
_COMMA = r"[+-]?(?:\d{1,3}(?:\.\d{3})+|\d+)(?:,\d*)?"
"""3.010,37"""
_ORNAMENTS = r"[\s'’€$£]"


def as_frame(source: Any, text: Sequence[str] = (), notes: list[str] | None = None) -> pd.DataFrame:
    """Return a pandas frame for a frame of any library, a file, or several files below each other.

    Args:
        source: Frame, path, or list of paths.
        text: Columns of files that are read as text, such as ids with leading zeros. Several names with
            commas between them, such as "store,item", stand for a column that joins theirs.
        notes: List that receives notes on how files were read.
    """
    joined = {name: [part.strip() for part in name.split(",")] for name in text if "," in name}
    text = [*text, *(part for parts in joined.values() for part in parts)]
    if isinstance(source, pd.DataFrame):
        frame = source
    elif hasattr(source, "to_pandas"):
        frame = source.to_pandas()
    elif isinstance(source, str | Path):
        frame = read_table(Path(source), text, notes)
    elif isinstance(source, Sequence) and source and all(isinstance(path, str | Path) for path in source):
        frame = pd.concat([read_table(Path(path), text, notes) for path in source], ignore_index=True)
    else:
        raise AttangentError(f"{type(source).__name__} cannot be read as series; pass a frame or a file")
    for name, parts in joined.items():
        if name not in frame.columns and {*parts} <= {*frame.columns}:
            first, *rest = (frame[part].astype(str) for part in parts)
            frame = frame.assign(**{name: first.str.cat(rest, sep="/")})
    return frame


def read_table(path: Path, text: Sequence[str] = (), notes: list[str] | None = None) -> pd.DataFrame:
    """Read a CSV (plain or compressed) or Parquet file, strip column names and drop empty rows."""
    if not path.is_file():
        raise AttangentError(f"{path} is not a file")
    if path.suffix.lower() in _SPREADSHEETS:
        raise AttangentError(f"{path} is a spreadsheet, expected a CSV or Parquet file; save it as CSV")
    if path.suffix == ".parquet":
        frame = _read_parquet(path)
        separator = ","
    else:
        frame, separator = _read_csv(path, text, notes if notes is not None else [])
    check_columns(frame.columns, path)
    frame.columns = [str(column).strip() for column in frame.columns]
    frame = frame.dropna(how="all")
    if frame.empty:
        raise AttangentError(f"{path} has a header but no rows")
    first = frame.columns[0]
    if is_number(frame.columns[-1]) and (is_number(first) or _looks_like_dates(pd.Series([first]))):
        raise AttangentError(
            f"{path} has no header: its first row ends in {frame.columns[-1]!r}; add a row with column names"
        )
    return _with_decimal_points(frame, text) if separator != "," else frame


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path)
    except ImportError:
        raise AttangentError(f"{path} needs pyarrow to be read: pip install pyarrow") from None
    except (OSError, ValueError) as error:
        raise AttangentError(f"{path} cannot be read as Parquet: {str(error).strip()}") from None


def _read_csv(path: Path, text: Sequence[str], notes: list[str]) -> tuple[pd.DataFrame, str]:
    check_header(path)
    with reading_table(path):
        try:
            with path.open("rb") as file:
                marked = file.read(2) in (b"\xff\xfe", b"\xfe\xff")
            return _parse_csv(path, text, "utf-16" if marked else "utf-8-sig")
        except UnicodeDecodeError:
            frame = _parse_csv(path, text, "cp1252")
            notes.append(f"{path.name} is not in UTF-8 and was read as Windows-1252 (Latin-1)")
            return frame
        except pd.errors.EmptyDataError:
            raise AttangentError(
                f"{path} is empty, expected a CSV with a header and rows of numbers"
            ) from None


def _parse_csv(path: Path, text: Sequence[str], encoding: str) -> tuple[pd.DataFrame, str]:
    options: dict[str, Any] = {"encoding": encoding, "skipinitialspace": True}
    widths = {
        separator: pd.read_csv(path, sep=separator, nrows=5, dtype=str, on_bad_lines="skip", **options).shape[
            1
        ]
        for separator in _SEPARATORS
    }
    options["sep"] = max(widths, key=widths.__getitem__) if max(widths.values()) > 1 else ","
    # pandas renames columns that appear twice, so the header is checked before it sees the names
    check_columns(pd.read_csv(path, header=None, nrows=1, dtype=str, **options).iloc[0].tolist(), path)
    first = pd.read_csv(path, nrows=1, dtype=str, **options)
    check_row_width(first, path)
    as_text = {name: str for name in first.columns if str(name).strip() in text}
    missing = {name: [""] if name in as_text else _MISSING for name in first.columns}
    options |= {"dtype": as_text, "na_values": missing, "keep_default_na": False, "low_memory": False}
    return pd.read_csv(path, **options), options["sep"]


def _with_decimal_points(frame: pd.DataFrame, text: Sequence[str]) -> pd.DataFrame:
    """Read 1,5 as 1.5 and 3.010,37 as 3010.37 in every column that becomes numeric by it."""
    for name in frame.columns[[not pd.api.types.is_numeric_dtype(kind) for kind in frame.dtypes]]:
        column = pd.Series(frame[name])
        cells = _bare(column)
        if name not in text and len(cells) and cells.str.fullmatch(_COMMA).all():
            frame[name] = _parsed(cells, ".", ",").reindex(column.index)
    return frame


def _bare(column: pd.Series) -> pd.Series:
    """Return the cells of a column as text without spaces, apostrophes and signs of currencies."""
    return column.dropna().astype(str).str.replace(_ORNAMENTS, "", regex=True)


def _parsed(cells: pd.Series, thousands: str, decimal: str) -> pd.Series:
    plain = cells.str.replace(thousands, "", regex=False).str.replace(decimal, ".", regex=False)
    return pd.Series(pd.to_numeric(plain), dtype=np.float64)


def read_numbers(column: pd.Series, notes: list[str]) -> pd.Series:
    """Read a column as numbers, with thousands separators as in 3,005.67 or 3.010,37; NaN for other text.

    The form of most cells that are not plain numbers decides for the column.
    """
    values = pd.Series(pd.to_numeric(column, errors="coerce"), dtype=np.float64)
    odd = values.isna() & column.notna()
    if not odd.any():
        return values
    index = column.index  # may repeat labels, as concatenated frames do
    cells = _bare(column.reset_index(drop=True))
    odd_cells = pd.Series(cells[odd.to_numpy()[cells.index]])
    for form, thousands, decimal, note in (
        (_POINT, ",", ".", f"commas in {column.name!r} were read as thousands separators"),
        (
            _COMMA,
            ".",
            ",",
            f"{column.name!r} was read with decimal commas, and points as thousands separators",
        ),
    ):
        if odd_cells.str.fullmatch(form).mean() > 0.5:
            notes.append(note)
            usual = pd.Series(cells[cells.str.fullmatch(form)])
            return _parsed(usual, thousands, decimal).reindex(range(len(index))).set_axis(index)
    return values


def take_times(
    frame: pd.DataFrame, time: str | None, targets: tuple[str, ...], notes: list[str]
) -> tuple[pd.DataFrame, pd.Index]:
    """Return the frame without its times, and the times: those of the index, a column, or row numbers."""
    if isinstance(frame.index, pd.DatetimeIndex):
        return frame, frame.index
    name = time
    if name is None:
        others = [column for column in frame.columns if column not in targets]
        seconds = others[:1] if len(others) > 1 and _looks_like_seconds(frame[others[0]]) else []
        name = next(iter(_date_columns(frame, targets) or seconds), None)
    if name is None:
        notes.append("no column of dates was found: rows are taken as equally spaced")
        return frame, pd.RangeIndex(len(frame))
    missing = frame[name].isna().to_numpy()
    if missing.any():
        notes.append(f"{missing.sum()} rows without a date were left out")
        frame = frame.loc[~missing]
    return frame.drop(columns=name), parse_dates(pd.Series(frame[name]), notes)


def _date_columns(frame: pd.DataFrame, others: Sequence[str | None]) -> list[str]:
    """Return the columns whose cells are dates, those with usual names first; if none, usual names alone."""
    names = [name for name in frame.columns if name not in others]
    usual = [name for name in names if str(name).lower() in _DATE_NAMES]
    dates = [
        name
        for name in dict.fromkeys([*usual, *names])
        if not pd.api.types.is_numeric_dtype(frame[name]) and _looks_like_dates(pd.Series(frame[name]))
    ]
    return dates or usual


def with_dates(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Join columns called year and month, and day if there is one, to a column `date`."""
    names = {str(name).lower(): name for name in frame.columns}
    parts = [names[name] for name in ("year", "month", "day") if name in names]
    if not {"year", "month"} <= {*names} or {"date", "ds"} & {*names}:
        return frame
    first, *rest = (frame[part].astype(str) for part in parts)
    try:
        times = parse_dates(first.str.cat(rest, sep="-"))
    except AttangentError:  # the columns hold something else
        return frame
    notes.append(f"times were read from the columns {' and '.join(map(repr, parts))}")
    return frame.drop(columns=parts).assign(date=times)


def only_dates(frame: pd.DataFrame, others: Sequence[str | None], notes: list[str]) -> str:
    """Return the only column of dates of a long table: ds, or the one whose cells are dates.

    Args:
        frame: Table.
        others: Columns that hold something else.
        notes: List that receives a note on the column.

    Raises:
        AttangentError: If there is none, or more than one.
    """
    if "ds" in frame.columns:
        return "ds"
    dates = _date_columns(frame, others)
    if len(dates) == 1:
        notes.append(f"times were read from column {dates[0]!r}")
        return dates[0]
    if not dates:
        raise AttangentError(
            f"no column of times was found, there are {listed(frame.columns)}; name it with --date COLUMN "
            "(time_col in Python)"
        )
    options = " or ".join(f"--date {shlex.quote(str(name))}" for name in dates)
    columns = " and ".join(map(repr, dates))
    raise AttangentError(f"the columns {columns} hold dates; choose one with {options} (time_col in Python)")


def no_target(frame: pd.DataFrame, target: str, others: Sequence[str | None]) -> AttangentError:
    """Return the error for a table without the column of values; it lists the options to choose from."""
    numbers = [
        f"--target {shlex.quote(str(name))}"
        for name in frame.columns
        if name not in others and pd.api.types.is_numeric_dtype(frame[name])
    ]
    advice = " or ".join(numbers[:MOST_OPTIONS]) or "--target COLUMN"
    return AttangentError(
        f"there is no column {target!r}, there are {listed(frame.columns)}; name the column of values with "
        f"{advice} (target_col in Python)"
    )


def _looks_like_seconds(column: Any) -> bool:
    """Return whether integers rise in mostly equal steps and have the size of seconds since 1970."""
    if not pd.api.types.is_integer_dtype(column) or len(column) < 3 or column.abs().min() < 10**8:
        return False
    steps = np.diff(column.to_numpy())
    return bool((steps > 0).all() and (steps == np.median(steps)).mean() > 0.5)


def column_rows(
    frame: pd.DataFrame, time: str | None, targets: tuple[str, ...], notes: list[str]
) -> pd.DataFrame:
    """Return code of the column, time, value and row number of a table with one series per column.

    Rows are sorted by series and time, and the names of the columns are in `attrs`.
    """
    for name in targets if time is None else (time, *targets):
        if name not in frame.columns:
            raise AttangentError(f"there is no column {name!r}, there are {listed(frame.columns)}")
    frame, times = take_times(frame, time, targets, notes)
    table = numeric_columns(frame, targets, notes)
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
        text = [name for name in frame.columns if not pd.api.types.is_numeric_dtype(frame[name])]
        pairs = [
            f"{first},{second}"
            for first, second in combinations(text[:MOST_OPTIONS], 2)
            if not frame[[first, second]].assign(time=np.asarray(times)).duplicated().any()
        ]
        single = [name for name in apart if name in text] or ([] if pairs else apart)
        advice = "sum or average them first"
        if single:
            name = shlex.quote(str(single[0]))
            advice = f"column {single[0]!r} tells them apart: pass it as the id (--id {name})"
        elif pairs:
            advice = (
                f"two columns together tell them apart: pass them as the id (--id {shlex.quote(pairs[0])})"
            )
        raise AttangentError(
            f"{repeated} of {len(times)} rows repeat a time, so the table holds several series below each "
            f"other; {advice}"
        )
    notes.append(f"{repeated} rows repeat a time; rows of equal time were averaged")
    table = pd.DataFrame(table.groupby(np.asarray(times), sort=False).mean())
    return table, times.unique()


def numeric_columns(frame: pd.DataFrame, targets: tuple[str, ...], notes: list[str]) -> pd.DataFrame:
    """Return the targets, or all numeric columns, as numbers; thousands separators are read."""
    table: dict[str, pd.Series] = {}
    for name in targets or frame.columns:
        if str(name).startswith("Unnamed:") and not targets:
            notes.append(f"the column without a name at {str(name).split()[-1]} was left out")
            continue
        values = read_numbers(pd.Series(frame[name]), notes)
        bad = np.flatnonzero(values.isna() & frame[name].notna())
        if len(bad) == 0:
            table[name] = values
        elif targets or len(bad) < 0.5 * len(values):
            raise AttangentError(
                f"column {name!r} is not numeric: row {bad[0] + 1} holds {frame[name].iloc[bad[0]]!r:.60}; "
                "correct it, or remove the column"
            )
        else:
            notes.append(f"column {name!r} is not numeric and was left out")
    if not table:
        raise AttangentError(f"there is no numeric column among {listed(frame.columns)}")
    numbers = pd.DataFrame(table).replace([np.inf, -np.inf], np.nan)
    missing = numbers.isna().mean()
    if (missing > MOST_FILLED).any():
        numbers = _without_empty(numbers, missing, targets, notes)
    distinct = numbers.nunique()
    notes += [f"column {name!r} is constant" for name, count in distinct.items() if count == 1]
    return numbers


def _without_empty(
    table: pd.DataFrame, missing: pd.Series, targets: tuple[str, ...], notes: list[str]
) -> pd.DataFrame:
    """Leave out columns that are mostly missing; raise if one of them is a target, or all are."""
    for name in table.columns[missing > MOST_FILLED]:
        share = f"{missing[name]:.0%} of column {name!r} is missing"
        if targets:
            raise AttangentError(f"{share}, expected at most {MOST_FILLED:.0%}; fill it first")
        notes.append(f"{share}; it was left out")
    if (missing > MOST_FILLED).all():
        raise AttangentError("every numeric column is mostly missing")
    return table.loc[:, missing <= MOST_FILLED]


def _looks_like_dates(column: pd.Series) -> bool:
    """Return whether the first values of a column can be read as dates."""
    sample = column.dropna().head(20)
    if sample.empty or not sample.astype(str).str.contains(r"\d").all():
        return False
    try:
        parse_dates(sample)
    except AttangentError:
        return False
    return True


def constant_columns(frame: pd.DataFrame, id_: Any, names: Sequence[Any]) -> pd.DataFrame:
    """Return columns that hold one value per series, by id; raise if a series has several values or none."""
    values = pd.DataFrame(frame[[id_, *names]]).reset_index(drop=True).drop_duplicates()
    wrong = values.loc[values.duplicated(id_) | values[[*names]].isna().any(axis=1)]
    if len(wrong):
        series, *cells = next(wrong.itertuples(index=False, name=None))
        raise AttangentError(
            f"{', '.join(map(repr, names))} should hold one value per series: row {wrong.index[0] + 1} of id "
            f"{series!r} holds {', '.join(map(repr, cells))}; mend its rows"
        )
    return pd.DataFrame(values.set_index(id_)[[*names]])


def listed(names: pd.Index, most: int = 12) -> str:
    """List the first column names for an error message."""
    shown = ", ".join(f"{str(name)!r:.60}" for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
