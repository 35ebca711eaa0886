"""Rows with named fields from files: .jsonl, .json, .csv and .tsv, plain or gzipped, and .parquet."""

import csv
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from attangent._core.errors import AttangentError
from attangent._core.tables import check_columns

_HALF = "\\ud"
"""How a surrogate begins where JSON spells it."""
KINDS = (".jsonl", ".json", ".csv", ".tsv", ".parquet")


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file, its kind known by its name; a name ending in .gz is unpacked."""
    path = Path(path)
    if not path.is_file():
        raise AttangentError(f"there is no file {path}; give one that ends in {', '.join(KINDS)}")
    kind = Path(path.name.removesuffix(".gz")).suffix
    if kind not in KINDS:
        raise AttangentError(f"{path.name} ends in {kind or 'nothing'}, expected one of {', '.join(KINDS)}")
    if kind == ".parquet":
        yield from _parquet(path)
        return
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            yield from _text_rows(file, kind, path)  # pyright: ignore[reportArgumentType]
    except (UnicodeDecodeError, EOFError, OSError) as error:
        raise AttangentError(f"{path} cannot be read as UTF-8 text: {error}") from None


def _text_rows(file: TextIO, kind: str, path: Path) -> Iterator[dict[str, Any]]:
    if kind in (".csv", ".tsv"):
        yield from _table(file, "," if kind == ".csv" else "\t", path)
    elif kind == ".json":
        yield from _listed(file, path)
    else:
        yield from (_parsed(line, path, number) for number, line in enumerate(file, 1) if line.strip())


def _table(file: TextIO, delimiter: str, path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a table; cells beyond the header are refused."""
    try:
        rows = csv.DictReader(file, delimiter=delimiter)
        check_columns(rows.fieldnames or (), path)
        for number, row in enumerate(rows, 1):
            if None in row:
                raise AttangentError(f"{path}, row {number} has more cells than the header has names")
            yield row
    except csv.Error as error:
        raise AttangentError(f"{path} is not a table: {error}") from None


def _listed(file: TextIO, path: Path) -> list[dict[str, Any]]:
    text = file.read()
    try:
        found = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise AttangentError(f"{path} is not JSON: {error}") from None
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise AttangentError(
            f"{path} does not hold a list of objects; give one, or one object on each line as .jsonl"
        )
    _check_letters(text, found, str(path))
    return found


def _parsed(line: str, path: Path, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise AttangentError(f"{path}, row {number} is not JSON: {error}") from None
    if not isinstance(row, dict):
        raise AttangentError(
            f"{path}, row {number} is {type(row).__name__}, expected an object with named fields"
        )
    _check_letters(line, row, f"{path}, row {number}")
    return row


def _check_letters(text: str, found: Any, where: str) -> None:
    """Refuse half a letter, which JSON can spell and no tokenizer takes."""
    if _HALF not in text.lower():
        return
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise AttangentError(
            f"{where} holds half a letter (a surrogate, \\ud800 to \\udfff, without the other): take it out"
        ) from None


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
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
