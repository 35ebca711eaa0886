"""Text tables: check the header before parsing, and write cells that no spreadsheet runs as formulas."""

import bz2
import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from attangent._core.errors import AttangentError
from attangent._core.files import check_file

if TYPE_CHECKING:
    from pandas import DataFrame

MOST_COLUMNS = 20_000
_LONGEST = 4 * 2**20
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_UNREADABLE = (
    *(ValueError, OSError, EOFError, MemoryError, NotImplementedError, RuntimeError),
    *(zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError),
)
"""Exceptions of the readers of compressed tables; RuntimeError is for a zip with a password."""


@contextmanager
def reading_table(path: Path) -> Iterator[None]:
    """Turn the exceptions of table readers into an AttangentError."""
    try:
        yield
    except AttangentError:
        raise
    except ImportError as error:
        raise AttangentError(f"{path} cannot be decompressed: {error}") from None
    except _UNREADABLE as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise AttangentError(f"{path} cannot be read as a CSV in UTF-8: {reason:.300}") from None


def _first_of_zip(path: Path, mode: str) -> IO[bytes]:
    archive = zipfile.ZipFile(path)
    return archive.open(archive.namelist()[0]) if archive.namelist() else path.open("rb")


_OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open, ".zip": _first_of_zip}


def check_header(path: Path) -> None:
    """Check that a text table has at most `MOST_COLUMNS` columns, by its first two lines with content.

    The second counts, too: pandas takes minutes for a first row with many more cells than the header.
    Files compressed other than by gzip, bz2, xz or zip are left to the reader.
    """
    if not path.is_file():
        return
    opened = _OPENERS.get(path.suffix.lower(), open)
    with reading_table(path), opened(path, "rb") as file:
        for name in ("first", "second"):
            line = _next_line(file)
            columns = 1 + max(line.count(mark) for mark in (b",", b";", b"\t", b"|"))
            if len(line) == _LONGEST and columns <= MOST_COLUMNS:
                raise AttangentError(
                    f"{path} has {_LONGEST:,} bytes or more in its {name} line, expected names or numbers"
                )
            if columns > MOST_COLUMNS:
                raise AttangentError(
                    f"{path} has {columns:,} columns or more in its {name} line, expected at most "
                    f"{MOST_COLUMNS:,}: use the long format, with one column that names the series"
                )


def _next_line(file: IO[bytes]) -> bytes:
    """Return the next line that is not blank, or its start; nothing at the end of the file."""
    while (line := file.readline(_LONGEST)) and not line.strip():
        pass
    return line


def check_row_width(first: "DataFrame", path: Path) -> None:
    """Check that the first row is not wider than the header; pandas would shift all columns silently."""
    from pandas import RangeIndex

    if not isinstance(first.index, RangeIndex):
        extra = first.index.nlevels
        raise AttangentError(
            f"{path} has {extra} more cells in its first row than names in its header; name every column, or "
            "remove separators at the end of rows"
        )


def check_columns(names: Iterable[Any], path: Path) -> None:
    """Check that no column name occurs twice; columns may be unnamed."""
    counts = Counter(name.strip() for name in names if isinstance(name, str) and name.strip())
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise AttangentError(
            f"{path} names a column twice: {', '.join(map(repr, twice)):.300}; rename one of them"
        )


def harmless(cell: Any) -> Any:
    """Return the cell, with an apostrophe before a text that a spreadsheet would run as a formula."""
    runs = isinstance(cell, str) and cell.startswith(_FORMULA) and not is_number(cell)
    return f"'{cell}" if runs else cell


def harmless_frame(frame: "DataFrame") -> "DataFrame":
    """Return the frame with harmless texts and column names."""
    cells = frame.copy()
    for index, (_, column) in enumerate(frame.items()):
        if column.dtype.kind == "O":
            cells.isetitem(index, column.map(harmless))
    return cells.set_axis([harmless(name) for name in cells.columns], axis="columns")


def is_number(text: str) -> bool:
    """Return whether Python parses the text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_table(path: Path, *endings: str) -> None:
    """Check that a table can be written to a path, whose ending names its format."""
    if not any(path.name.lower().endswith(ending) for ending in endings):
        raise AttangentError(f"cannot write {path}: expected a name ending in {' or '.join(endings)}")
    check_file(path)
