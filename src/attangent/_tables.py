"""A look at the first line of a table, before a reader takes it in."""

import bz2
import gzip
import lzma
import zlib
from pathlib import Path

from attangent._errors import AttangentError

MOST_COLUMNS = 20_000
_LONGEST = 4 * 2**20
_OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


def check_header(path: Path) -> None:
    """Refuse a text table with more columns than any reader takes in within reason.

    Files packed in other ways than gzip, bz2 or xz are left to the reader.
    """
    if not path.is_file():
        return
    opened = _OPENERS.get(path.suffix.lower(), open)
    try:
        with opened(path, "rb") as file:
            line = file.readline(_LONGEST)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise AttangentError(f"{path} cannot be read: {error}") from None
    columns = 1 + max(line.count(mark) for mark in (b",", b";", b"\t"))
    if len(line) == _LONGEST or columns > MOST_COLUMNS:
        raise AttangentError(
            f"{path} has {columns:,} columns or more in its first line, expected at most {MOST_COLUMNS:,}: "
            "put long tables below each other, with a column that names the series"
        )
