"""Examples from files of rows: labelled texts, texts with a number, and texts to complete.

An example has one or more text features, one per text column. Encoding truncates each feature separately.
"""

import difflib
import math
import statistics
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent.tuning.data.columns import TextColumns, is_number, text_columns
from attangent.tuning.data.records import read_records

T = TypeVar("T")
# Number of different numeric labels from which they are taken for numbers to predict.
_MANY_VALUES = 10
_MAX_LISTED = 5
# File, row number, text features and label of an example.
_NumberedRow = tuple[Path, int, tuple[str, ...], str]


class BlankTextWarning(UserWarning):
    """Some rows of a file have no text."""


@dataclass(frozen=True)
class TextExample:
    """Text features of one example with its label.

    Attributes:
        features: One text per text column.
        label: The index of the label or a number; while a file is read, the label's name or None.
        row: Number of its row in the file, from 1; 0 if it comes from no file.
    """

    features: tuple[str, ...]
    label: Any
    row: int = field(default=0, compare=False)


@dataclass(frozen=True)
class TextTask:
    """Examples with the names of their labels; a task with numbers has no label names.

    Example:
        >>> TextTask((TextExample(("a cat",), 1), TextExample(("a car",), 0)), ("thing", "animal")).counts
        {'thing': 1, 'animal': 1}
    """

    examples: tuple[TextExample, ...]
    labels: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def targets(self) -> list[float]:
        """The index of the label, or the number, of each example."""
        return [example.label for example in self.examples]

    @property
    def counts(self) -> dict[str, int]:
        """Number of examples per label."""
        return {name: self.targets.count(index) for index, name in enumerate(self.labels)}

    def take(self, indices: Iterable[int]) -> "TextTask":
        """Return the task with these examples only, in this order."""
        return replace(self, examples=tuple(self.examples[i] for i in indices))


@dataclass(frozen=True)
class Completion:
    """A prompt and the text that should follow; with an empty prompt the model learns the entire text."""

    prompt: str
    text: str


@dataclass(frozen=True)
class ValueUnits:
    """Units in which a model predicts: value = centre + scale * output.

    Example:
        >>> ValueUnits.of([1.0, 3.0]).inside(3.0)
        1.0
    """

    centre: float = 0.0
    scale: float = 1.0

    @classmethod
    def of(cls, values: Iterable[float]) -> "ValueUnits":
        """Return units in which these values have mean 0 and standard deviation 1."""
        values = list(values)
        scale = statistics.pstdev(values)
        if not scale > 0:
            raise AttangentError(f"every value is {values[0]:g}: there is nothing to learn")
        return cls(statistics.fmean(values), scale)

    def inside(self, value: float) -> float:
        """Convert a value of the file to a model output."""
        return (value - self.centre) / self.scale

    def outside(self, output: float) -> float:
        """Convert a model output to a value of the file."""
        return self.centre + self.scale * output

    def scaled(self, task: TextTask) -> TextTask:
        """Return the task with its numbers as model outputs."""
        return replace(task, examples=tuple(replace(e, label=self.inside(e.label)) for e in task.examples))


def read_task(
    paths: Path | Sequence[Path],
    *,
    labels: Sequence[str] | None = None,
    columns: TextColumns | None = None,
    parse: Callable[[dict[str, Any]], list[TextExample]] | None = None,
) -> TextTask:
    """Read labelled texts from one file, or from several as one.

    Args:
        paths: The files.
        labels: Label names of the training data; a row with another label is an error.
        columns: The columns to read; by default `label` and the columns that `text_columns` finds.
        parse: Turns a row into examples, for files that are not plain tables.

    Returns:
        The examples; labels that are numbers are sorted by size, the others by name.

    Raises:
        AttangentError: If a file cannot be read, or a row has no text, no label or an unknown label.
    """
    files = [paths] if isinstance(paths, Path) else paths
    columns = columns or TextColumns()
    if parse is None:
        columns = replace(columns, text=text_columns(files[0], columns))
        parse = partial(_labelled_example, columns)
    rows = []
    for path in files:
        rows += _labelled_rows(path, parse, columns.label)
    names = tuple(labels) if labels is not None else _sorted_names({label for *_, label in rows})
    if len(names) < 2:
        raise AttangentError(f"the labels are {', '.join(names) or 'none'}, expected at least two labels")
    index = {name: position for position, name in enumerate(names)}
    _check_known(rows, index)
    if labels is None:
        _check_classes(names, len(rows))
    examples = (TextExample(features, index[label], row) for _, row, features, label in rows)
    return TextTask(tuple(examples), names)


def _labelled_example(columns: TextColumns, record: dict[str, Any]) -> list[TextExample]:
    return [TextExample(columns.features(record), label_in(record, columns.label))]


def _check_classes(names: Sequence[str], rows: int) -> None:
    """Raise if the labels are numbers to predict rather than numbers of classes."""
    if len(names) <= _MANY_VALUES or not all(is_number(name) for name in names):
        return
    if len(names) > rows / 3 or not all(float(name).is_integer() for name in names):
        raise AttangentError(
            f"the labels are {len(names)} different numbers in {rows} rows; pass --task regression to "
            "predict numbers, or write the classes as words."
        )


def label_in(record: Mapping[str, Any], column: str = "label") -> str | None:
    """Return the label of a row as text; None if the row has none."""
    label = record.get(column)
    if label is None or label == "" or label == -1:
        return None
    return str(int(label)) if isinstance(label, bool) else str(label)


def _labelled_rows(
    path: Path, parse: Callable[[dict[str, Any]], list[TextExample]], column: str
) -> list[_NumberedRow]:
    rows = []
    for number, examples in enumerate(parsed_records(path, parse, "at least one example"), 1):
        for example in examples:
            if example.label is None:
                raise AttangentError(f"{path}, row {number}: {_why_unlabelled(path, column)}")
            rows.append((path, number, example.features, example.label))
    _check_texts(path, [(number, features) for _, number, features, _ in rows])
    return rows


def _why_unlabelled(path: Path, column: str) -> str:
    """Tell a missing label column from an empty cell."""
    names = [str(name) for name in next(iter(read_records(path)))]
    if column in names:
        return f"no label in the column {column!r}; add one, or remove the row."
    near = difflib.get_close_matches(column, names, 1)
    suggestion = f"did you mean {near[0]!r}? " if near else ""
    return (
        f"no label in the column {column!r}, which does not exist; {suggestion}the columns are "
        f"{', '.join(names)}; select one with --label-column."
    )


def _check_known(rows: Sequence[_NumberedRow], known: Mapping[str, int]) -> None:
    unknown: dict[str, list[str]] = {}
    for path, number, _, label in rows:
        if label not in known:
            unknown.setdefault(label, []).append(f"{path.name} row {number}")
    if unknown:
        shown = sorted(f"{label} ({_listed(where, 3)})" for label, where in unknown.items())
        raise AttangentError(
            f"{rows[0][0]} has the labels {', '.join(shown[:_MAX_LISTED])}, expected only those of the "
            f"training data: {', '.join(known)}"
        )


def _listed(items: Sequence[Any], most: int = _MAX_LISTED) -> str:
    return ", ".join(map(str, items[:most])) + (", ..." if len(items) > most else "")


def _sorted_names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(
        sorted(names, key=lambda name: (not name.isdigit(), int(name) if name.isdigit() else 0, name))
    )


def read_values(path: Path, columns: TextColumns | None = None) -> TextTask:
    """Read texts with a number in the label column."""
    columns = replace(columns or TextColumns(), text=text_columns(path, columns))

    def parse(record: dict[str, Any]) -> TextExample:
        return TextExample(columns.features(record), _number(record.get(columns.label), columns.label))

    parsed = parsed_records(path, parse, "at least one example")
    examples = tuple(replace(example, row=number) for number, example in enumerate(parsed, 1))
    _check_texts(path, [(example.row, example.features) for example in examples])
    return TextTask(examples)


def _number(cell: Any, column: str) -> float:
    if isinstance(cell, str) and cell.count(",") == 1 and "." not in cell:
        cell = cell.replace(",", ".")  # a decimal comma
    try:
        value = float(cell)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise AttangentError(f"the column {column!r} holds {cell!r}, expected a number for regression")
    return value


def read_completions(path: Path) -> list[Completion]:
    """Read rows with `prompt` and `completion`, or with `text` alone."""
    pairs = parsed_records(path, _completion, "at least one text")
    _check_texts(path, [(number, (pair.text,)) for number, pair in enumerate(pairs, 1)])
    return pairs


def _completion(row: dict[str, Any]) -> Completion:
    if isinstance(row.get("prompt"), str) and isinstance(row.get("completion"), str):
        return Completion(row["prompt"], row["completion"])
    if isinstance(row.get("text"), str):
        return Completion("", row["text"])
    raise AttangentError(
        f"the columns are {', '.join(map(str, row)) or 'none'}, expected prompt and completion, or text"
    )


def read_features(path: Path, columns: TextColumns | None = None) -> list[tuple[str, ...]]:
    """Read the texts of a file's rows, with or without labels."""
    columns = replace(columns or TextColumns(), text=text_columns(path, columns))
    return parsed_records(path, columns.features, "at least one example")


def parsed_records(path: Path, parse: Callable[[dict[str, Any]], T], expected: str) -> list[T]:
    """Parse every row of a file; an error names the row, and a file without rows is an error."""
    results = []
    for number, row in enumerate(read_records(path), 1):
        try:
            results.append(parse(row))
        except AttangentError as error:
            raise AttangentError(f"{path}, row {number}: {error}") from None
    if not results:
        raise AttangentError(f"{path} has no rows, expected {expected}")
    return results


def _check_texts(path: Path, rows: Sequence[tuple[int, Sequence[str]]]) -> None:
    """Warn about numbered rows without text; raise if no row has one."""
    blank = [number for number, texts in rows if not any(text.strip() for text in texts)]
    if not blank:
        return
    if len(blank) == len(rows):
        raise AttangentError(
            f"no row of {path} has a text ({len(rows)} rows); select the text column with --text-column."
        )
    warnings.warn(
        f"{len(blank)} of the {len(rows)} rows of {path} have no text (row {_listed(blank)}); they are used "
        "unchanged: remove them if that is not intended.",
        BlankTextWarning,
        stacklevel=4,
    )


def held_out(targets: Sequence[float], share: float, seed: int, stream: str) -> tuple[list[int], list[int]]:
    """Split indices into training and held-out ones: about `share` of each label, at least one of two.

    Example:
        >>> train, held = held_out([0] * 10 + [1] * 5, 0.2, 0, "validation")
        >>> len(held), sum(index >= 10 for index in held)
        (3, 1)
    """
    draw = generator(seed, stream)
    held: set[int] = set()
    for label in sorted(set(targets)):
        indices = [index for index, target in enumerate(targets) if target == label]
        order = torch.randperm(len(indices), generator=draw).tolist()
        count = min(max(round(share * len(indices)), 1), len(indices) - 1)
        held |= {indices[position] for position in order[:count]}
    return [i for i in range(len(targets)) if i not in held], sorted(held)
