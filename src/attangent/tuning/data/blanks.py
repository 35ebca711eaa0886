"""Rows without a text: named where there are some, refused where there are no others."""

import warnings
from collections.abc import Sequence
from pathlib import Path

from attangent._core.errors import AttangentError

_NAMED = 5


class BlankTextWarning(UserWarning):
    """Some rows of a file have no text; they are used as they are."""


def check_texts(path: Path, rows: Sequence[tuple[int, Sequence[str]]]) -> None:
    """Refuse a file none of whose rows has a text; warn of the rows that have none. Rows come with numbers.

    >>> check_texts(Path("a.csv"), [(1, ("",)), (2, (" ", ""))])
    Traceback (most recent call last):
    attangent._core.errors.AttangentError: no row of a.csv has a text (2 rows); name the column ...
    """
    blank = [number for number, texts in rows if not any(text.strip() for text in texts)]
    if not blank:
        return
    if len(blank) == len(rows):
        raise AttangentError(
            f"no row of {path} has a text ({len(rows)} rows); name the column that has them, "
            "or give another file"
        )
    which = ", ".join(map(str, blank[:_NAMED])) + (", ..." if len(blank) > _NAMED else "")
    warnings.warn(
        f"{len(blank)} of the {len(rows)} rows of {path} have no text (row {which}); they are used as they "
        "are: take them out if they are not meant",
        BlankTextWarning,
        stacklevel=3,
    )
