"""Read rows with named fields from .jsonl, .json, .csv and .tsv files, plain or gzipped, and .parquet.

pandas and datasets are not used: they change values on the way ("01" and "NA" as labels), pad or drop ragged
rows silently, and their errors do not name the row.
"""

import codecs
import csv
import gzip
import json
import re
import warnings
import zlib
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any, TextIO

from attangent._core.checks import is_whole
from attangent._core.errors import AttangentError
from attangent._core.tables import MOST_COLUMNS, check_columns

_SPREADSHEETS = (".xlsx", ".xls", ".ods", ".numbers")
_SEPARATOR = re.compile(r"sep=(.)\r?\n")
SUFFIXES = (".jsonl", ".json", ".csv", ".tsv", ".parquet")


class LegacyEncodingWarning(UserWarning):
    """A file is not UTF-8 and was read as Windows-1252 (Latin-1)."""


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file; its suffix gives the format, and .gz is unpacked.

    A .csv file may be separated by commas, semicolons or tabs, and be encoded as UTF-8, UTF-16 or
    Windows-1252, as Excel writes it.
    """
    path = Path(path)
    if not path.is_file():
        raise AttangentError(f"there is no file {path}; use a file that ends in {', '.join(SUFFIXES)}.")
    kind = Path(path.name.removesuffix(".gz")).suffix
    if kind in _SPREADSHEETS:
        raise AttangentError(f"{path.name} is a spreadsheet; save it as CSV (UTF-8) and pass that file.")
    if kind not in SUFFIXES:
        raise AttangentError(
            f"{path.name} ends in {kind or 'nothing'}, expected one of {', '.join(SUFFIXES)}"
        )
    if kind == ".parquet":
        yield from _parquet_rows(path)
    else:
        yield from _text_rows(_text_file(path, kind), kind, path)


def _text_file(path: Path, kind: str) -> TextIO:
    """Return the decoded text of a file; only tables may be in another encoding than UTF-8."""
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if path.suffix == ".gz" else content
    except (EOFError, OSError, zlib.error) as error:
        raise AttangentError(f"{path} cannot be read: {error}") from None
    utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding = "utf-16" if utf16 else "utf-8-sig"
    try:
        return StringIO(content.decode(encoding), newline="")
    except UnicodeDecodeError as error:
        if kind not in (".csv", ".tsv") or b"\0" in content:
            raise AttangentError(f"{path} cannot be read as UTF-8 text: {error}") from None
    warnings.warn(
        f"{path} is not UTF-8 and was read as Windows-1252 (Latin-1); save it as UTF-8 if characters look "
        "wrong.",
        LegacyEncodingWarning,
        stacklevel=4,
    )
    return StringIO(content.decode("cp1252", errors="replace"), newline="")


def _text_rows(file: TextIO, kind: str, path: Path) -> Iterator[dict[str, Any]]:
    if kind in (".csv", ".tsv"):
        yield from _table_rows(file, _delimiter(file) if kind == ".csv" else "\t", path)
    elif kind == ".json":
        rows = _parsed(file.read(), str(path))
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise AttangentError(
                f"{path} is not a list of objects; write one, or one object per line as .jsonl."
            )
        yield from rows
    else:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield _object(_parsed(line, f"{path}, row {number}"), f"{path}, row {number}")


def _delimiter(file: TextIO) -> str:
    """Return the separator of a table: the most frequent of comma, semicolon and tab in its header.

    Excel may name it in a line before the header (`sep=;`), which is skipped.
    """
    header = file.readline()
    named = _SEPARATOR.fullmatch(header)
    if named is not None:
        return named[1]
    file.seek(0)
    return max(",;\t", key=header.count)


def _table_rows(file: TextIO, delimiter: str, path: Path) -> Iterator[dict[str, Any]]:
    try:
        rows = csv.DictReader(file, delimiter=delimiter)
        names = rows.fieldnames or ()
        if len(names) > MOST_COLUMNS:
            raise AttangentError(f"{path} has {len(names):,} columns, expected at most {MOST_COLUMNS:,}")
        check_columns(names, path)
        for number, row in enumerate(rows, 1):
            if None in row:
                raise AttangentError(
                    f"{path}, row {number} has more cells than the header has names; put quotes around cells "
                    f"with {delimiter!r} in them."
                )
            yield row
    except csv.Error as error:
        raise AttangentError(f"{path} is not a table: {error}") from None


def _parsed(text: str, where: str) -> Any:
    """Parse JSON; reject half a character (a lone surrogate), which JSON can spell and no tokenizer takes."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError also for numbers with thousands of digits
        raise AttangentError(f"{where} is not JSON: {error}") from None
    if "\\ud" in text.lower() and not is_whole(json.dumps(value, ensure_ascii=False)):
        raise AttangentError(
            f"{where} holds half a character (a surrogate, \\ud800 to \\udfff, without the other); remove it."
        )
    return value


def _object(row: Any, where: str) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise AttangentError(f"{where} is {type(row).__name__}, expected an object with named fields")
    return row


def _parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise AttangentError(f"{path} needs pyarrow: pip install pyarrow") from None
    try:
        for batch in ParquetFile(path).iter_batches():
            yield from batch.to_pylist()
    except (ArrowException, OSError) as error:
        raise AttangentError(f"{path} cannot be read as parquet: {error}") from None
