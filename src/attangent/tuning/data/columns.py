"""Which columns of a table hold the texts and the label."""

from dataclasses import dataclass
from typing import Any

from attangent._core.errors import AttangentError

_NOT_TEXT = {"idx", "id", "index", "label", "version"}


@dataclass(frozen=True)
class Columns:
    """Names of columns: text, those of the features in their order (none: every text column); label.

    >>> Columns(label="intent").features({"message": "Where is it?", "intent": "late"})
    ('Where is it?',)
    """

    text: tuple[str, ...] = ()
    label: str = "label"

    def features(self, record: dict[str, Any]) -> tuple[str, ...]:
        """The texts of a row."""
        if not self.text:
            return tuple(record[name] for name in self.found(record))
        missing = [name for name in self.text if not isinstance(record.get(name), str)]
        if missing:
            raise AttangentError(
                f"no text in the column {', '.join(missing)}; the columns are {', '.join(map(str, record))}"
            )
        return tuple(record[name] for name in self.text)

    def found(self, record: dict[str, Any]) -> tuple[str, ...]:
        """Every column with a text but the label and the number of the row, in the file's order."""
        names = tuple(
            name
            for name, value in record.items()
            if isinstance(value, str) and name not in _NOT_TEXT and name != self.label
        )
        if not names:
            raise AttangentError(
                f"no text column among {', '.join(map(str, record)) or 'none'}; name one `text`"
            )
        return names


def label_in(record: dict[str, Any], column: str = "label") -> str | None:
    """The label of a row as a text; None where it has none."""
    label = record.get(column)
    if label is None or label == "" or label == -1:
        return None
    return str(int(label)) if isinstance(label, bool) else str(label)
