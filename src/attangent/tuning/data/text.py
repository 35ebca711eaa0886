"""Labelled texts from files of rows, in a SuperGLUE layout or with any columns.

An example has one or more text features, as the data set has them (P1 Appendix B.1): BoolQ has a question and
a passage, COPA a premise, a question and two choices. Encoding cuts each by itself; see `encoding`.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from attangent._core.errors import AttangentError
from attangent.papers.p1_prefix.superglue import LAYOUTS, Row, layout_of, rows_in_columns
from attangent.tuning.data.blanks import check_texts
from attangent.tuning.data.columns import Columns
from attangent.tuning.data.records import read_records

T = TypeVar("T")


class LabelledRow(NamedTuple):
    """A row of a file that has a label."""

    features: tuple[str, ...]
    label: str


@dataclass(frozen=True)
class Example:
    """The text features of one example and the index of its label."""

    features: tuple[str, ...]
    label: int


@dataclass(frozen=True)
class TextTask:
    """Examples and the names of their labels: `labels[example.label]` is what the file said.

    >>> TextTask((Example(("a cat",), 1), Example(("a car",), 0)), ("thing", "animal")).counts
    {'thing': 1, 'animal': 1}
    """

    examples: tuple[Example, ...]
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.examples:
            raise AttangentError("a task has no examples, expected at least one")
        if len(self.labels) < 2:
            raise AttangentError(
                f"the labels are {', '.join(self.labels) or 'none'}, expected at least two labels"
            )

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def counts(self) -> dict[str, int]:
        """How many examples each label has."""
        found = [example.label for example in self.examples]
        return {name: found.count(index) for index, name in enumerate(self.labels)}

    def take(self, indices: Iterable[int]) -> "TextTask":
        """The same task with these examples only, in this order."""
        return TextTask(tuple(self.examples[i] for i in indices), self.labels)


def read_task(
    paths: Path | Sequence[Path],
    *,
    layout: str | None = None,
    labels: Sequence[str] | None = None,
    columns: Columns | None = None,
) -> TextTask:
    """The examples of a file, or of several read as one.

    `layout` is boolq, cb, copa, multirc, rte or columns; by default it is known by the keys of the first row,
    and it is columns where `columns` are given. With `labels` given (those of the training file), a row with
    another label is refused.
    """
    check_layout(layout)
    files = [paths] if isinstance(paths, Path) else list(paths)
    rows = [row for path in files for row in _labelled(path, layout, columns)]
    names = tuple(labels) if labels is not None else _names([row.label for _, _, row in rows])
    index = {name: position for position, name in enumerate(names)}
    _check_known(rows, index)
    return TextTask(tuple(Example(row.features, index[row.label]) for _, _, row in rows), names)


def check_layout(layout: str | None) -> None:
    if layout is not None and layout not in LAYOUTS:
        raise AttangentError(f"layout is {layout!r}, expected one of {', '.join(LAYOUTS)}")


def text_columns(path: Path, layout: str | None, columns: Columns | None) -> tuple[str, ...]:
    """The names of the text columns of a table; none where the layout is another."""
    first = next(iter(read_records(path)))
    if columns is None and (layout or layout_of(first)) != "columns":
        return ()
    columns = columns or Columns()
    return columns.text or columns.found(first)


def read_features(
    path: Path, layout: str | None = None, columns: Columns | None = None
) -> list[tuple[str, ...]]:
    """The texts of a file's rows, with or without labels."""
    check_layout(layout)
    return [row.features for _, row in _rows(path, layout, columns)]


def _check_known(rows: Sequence[tuple[Path, int, LabelledRow]], known: Mapping[str, int]) -> None:
    """Refuse labels that are not known, with the rows they stand in."""
    odd: dict[str, list[str]] = {}
    for path, number, row in rows:
        if row.label not in known:
            odd.setdefault(row.label, []).append(f"{path.name} row {number}")
    if odd:
        shown = sorted(f"{label} ({_listed(at)})" for label, at in odd.items())
        raise AttangentError(
            f"{rows[0][0]} has the labels {', '.join(shown[:5])}, expected only those of the training data: "
            f"{', '.join(known)}"
        )


def _listed(places: list[str]) -> str:
    return ", ".join(places[:3]) + (", ..." if len(places) > 3 else "")


def _names(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(
        sorted(set(found), key=lambda name: (not name.isdigit(), int(name) if name.isdigit() else 0, name))
    )


def _labelled(path: Path, layout: str | None, columns: Columns | None) -> list[tuple[Path, int, LabelledRow]]:
    found = []
    for number, row in _rows(path, layout, columns):
        if row.label is None:
            raise AttangentError(f"{path}, row {number}: {_why_unlabelled(path, columns)}")
        found.append((path, number, LabelledRow(row.features, row.label)))
    check_texts(path, [(number, row.features) for _, number, row in found])
    return found


def _why_unlabelled(path: Path, columns: Columns | None) -> str:
    """What is wrong with a row without a label: the column is not there, or it is empty in this row."""
    there = [str(name) for name in next(iter(read_records(path)))]
    wanted = "label" if columns is None else columns.label
    if wanted in there:
        return f"no label in the column {wanted!r}; give rows with one, or leave this row out"
    near = difflib.get_close_matches(wanted, there, 1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    return (
        f"no label in the column {wanted!r}, which is not there; {meant}the columns are {', '.join(there)}; "
        "name the one with the labels by --label-column"
    )


def _rows(path: Path, layout: str | None, columns: Columns | None) -> list[tuple[int, Row]]:
    """Every example with the number of the row it stands in."""

    def read(record: dict[str, Any]) -> list[Row]:
        nonlocal layout
        if columns is not None:
            return rows_in_columns(record, columns)
        layout = layout or layout_of(record)
        return LAYOUTS[layout](record)

    parsed = parsed_records(path, read, "at least one example")
    return [(number, row) for number, rows in enumerate(parsed, 1) for row in rows]


def parsed_records(path: Path, parse: Callable[[dict[str, Any]], T], expected: str) -> list[T]:
    """Every row of the file as `parse` reads it; an error names the row. No rows are refused."""
    found = []
    for number, row in enumerate(read_records(path), 1):
        try:
            found.append(parse(row))
        except AttangentError as error:
            raise AttangentError(f"{path}, row {number}: {error}") from None
    if not found:
        raise AttangentError(f"{path} has no rows, expected {expected}")
    return found
