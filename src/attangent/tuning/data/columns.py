"""Which columns of a file hold the texts and the label."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attangent._core.errors import AttangentError
from attangent._core.tables import is_number

_NOT_TEXT = {"idx", "id", "index", "label", "version"}
# Columns of well-known tasks on two texts.
_PAIRS = (
    ("text", "text_pair"),
    ("premise", "hypothesis"),
    ("question", "passage"),
    ("sentence1", "sentence2"),
)
# Rows from which the columns are judged, and the fraction of different values from which a column of
# several words holds texts and not names of classes.
_JUDGED = 1000
_DIFFERENT = 0.5
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T][\d:.+Z-]*)?")


@dataclass(frozen=True)
class TextColumns:
    """Columns that hold the texts and the label.

    Args:
        text: Text columns in the order of the features. Empty selects `text`, a well-known pair such as
            `premise` and `hypothesis`, or the only column that holds texts.
        label: The column of the label.

    Example:
        >>> TextColumns(label="intent").features({"message": "Where is it?", "intent": "late"})
        ('Where is it?',)
    """

    text: tuple[str, ...] = ()
    label: str = "label"

    def features(self, record: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the texts of a row.

        Args:
            record: Values of the row by column.

        Returns:
            One text per text column.

        Raises:
            AttangentError: If the row has no text in one of the columns.
        """
        names = self.names(record)
        missing = [name for name in names if not isinstance(record.get(name), str)]
        if missing:
            raise AttangentError(
                f"no text in the column {', '.join(missing)}; the columns are {', '.join(map(str, record))}"
            )
        return tuple(record[name] for name in names)

    def names(self, record: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the text columns of a row.

        Args:
            record: Values of the row by column.

        Returns:
            The names, judged by this row alone if none are set.

        Raises:
            AttangentError: If the row has no text, or several columns may hold it.
        """
        return self.text or _text_names([record], self.label)


def resolved_columns(
    columns: TextColumns | None, records: Sequence[Mapping[str, Any]], path: Path
) -> TextColumns:
    """Return the columns with the names of the text columns, judged by the first rows if none are set."""
    columns = columns or TextColumns()
    if columns.text:
        return columns
    try:
        return replace(columns, text=_text_names(records[:_JUDGED], columns.label))
    except AttangentError as error:
        raise AttangentError(f"{path}: {error}") from None


def _text_names(records: Sequence[Mapping[str, Any]], label: str) -> tuple[str, ...]:
    """Find the text columns: `text`, a well-known pair, or the only one with texts.

    Numbers, dates, ids and columns with few different values (names of classes) are no texts.
    """
    values: dict[str, list[str]] = {}
    for name, value in (cell for record in records for cell in record.items()):
        if isinstance(value, str) and name != label:
            values.setdefault(name, []).append(value)
    for pair in (*_PAIRS, ("text",)):
        if all(name in values for name in pair):
            return pair
    possible = [name for name in values if name not in _NOT_TEXT and not _is_measured(values[name])]
    texts = [name for name in possible if _is_prose(values[name])] or possible
    if len(texts) == 1:
        return (texts[0],)
    if texts:
        raise AttangentError(
            f"the columns {', '.join(texts)} may all hold the text; name those to read with --text-column."
        )
    known = dict.fromkeys(str(name) for record in records for name in record)
    raise AttangentError(f"no text column among {', '.join(known) or 'none'}; call one `text`.")


def _is_measured(values: Sequence[str]) -> bool:
    """Return whether all values that are not empty are numbers or dates."""
    cells = [value.strip() for value in values if value.strip()]
    return bool(cells) and all(is_number(cell) or _DATE.fullmatch(cell) for cell in cells)


def _is_prose(values: Sequence[str]) -> bool:
    """Return whether most values have several words and most are different."""
    several = sum(len(value.split()) > 1 for value in values)
    return several > len(values) / 2 and len(set(values)) > _DIFFERENT * len(values)
