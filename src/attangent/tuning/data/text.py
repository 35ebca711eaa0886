"""Labelled texts from files: jsonl or csv, plain or gzipped, in a SuperGLUE layout or with any columns.

An example has one or more text features, as the data set has them (P1 Appendix B.1): BoolQ has a question and
a passage, COPA a premise, a question and two choices. Encoding cuts each by itself; see `encoding`.
"""

import csv
import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from attangent._errors import AttangentError
from attangent.tuning.data.layouts import LAYOUTS, Row, layout_of

T = TypeVar("T")
_KINDS = (".jsonl", ".json", ".csv")


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
    paths: Path | Sequence[Path], *, layout: str | None = None, labels: Sequence[str] | None = None
) -> TextTask:
    """The examples of a file, or of several read as one.

    `layout` is boolq, cb, copa, multirc, rte or columns; by default it is known by the keys of the first row.
    With `labels` given (those of the training file), another label in the file is refused.
    """
    if layout is not None and layout not in LAYOUTS:
        raise AttangentError(f"layout is {layout!r}, expected one of {', '.join(LAYOUTS)}")
    files = [paths] if isinstance(paths, Path) else list(paths)
    rows = [row for path in files for row in _labelled(path, layout)]
    names = tuple(labels) if labels is not None else _names(rows)
    index = {name: position for position, name in enumerate(names)}
    unknown = sorted({row.label for row in rows} - set(index))
    if unknown:
        raise AttangentError(
            f"{files[0]} has the labels {', '.join(unknown)}, expected only those of the training data: "
            f"{', '.join(names)}"
        )
    return TextTask(tuple(Example(row.features, index[row.label]) for row in rows), names)


def _names(rows: list[Row]) -> tuple[str, ...]:
    found = {row.label for row in rows}
    return tuple(
        sorted(found, key=lambda name: (not name.isdigit(), int(name) if name.isdigit() else 0, name))
    )


def _labelled(path: Path, layout: str | None) -> list[Row]:
    def read(record: dict[str, Any]) -> list[Row]:
        nonlocal layout
        layout = layout or layout_of(record)
        return LAYOUTS[layout](record)

    return [row for rows in parsed_records(path, read, "at least one example") for row in rows]


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a .jsonl, .json (a list) or .csv file; a name ending in .gz is unpacked."""
    path = Path(path)
    if not path.is_file():
        raise AttangentError(f"there is no file {path}; give a .jsonl or .csv file")
    kind = Path(path.name.removesuffix(".gz")).suffix
    if kind not in _KINDS:
        raise AttangentError(f"{path.name} ends in {kind or 'nothing'}, expected one of {', '.join(_KINDS)}")
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        if kind == ".csv":
            yield from csv.DictReader(file)
        elif kind == ".json":
            yield from _checked(json.load(file), path)
        else:
            yield from (_parsed(line, path, number) for number, line in enumerate(file, 1) if line.strip())


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


def _checked(found: Any, path: Path) -> list[dict[str, Any]]:
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise AttangentError(
            f"{path} does not hold a list of objects; give one, or one object a line as .jsonl"
        )
    return found


def _parsed(line: str, path: Path, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise AttangentError(f"{path}, row {number} is not JSON: {error}") from None
    if not isinstance(row, dict):
        raise AttangentError(
            f"{path}, row {number} is {type(row).__name__}, expected an object with named fields"
        )
    return row
