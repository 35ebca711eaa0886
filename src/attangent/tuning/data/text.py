"""Examples from files of rows: labelled texts, texts with a number, and texts to complete.

An example has one or more text features, one per text column. Encoding truncates each feature separately.
"""

import difflib
import math
import statistics
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent._core.tables import is_number
from attangent.tuning.data.columns import TextColumns, resolved_columns
from attangent.tuning.data.records import read_records

T = TypeVar("T")
# Number of different numeric labels from which they are taken for numbers to predict.
_MANY_VALUES = 10
_MAX_LISTED = 5


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
    """Examples with the names of their labels and text columns; a task with numbers has no label names.

    Example:
        >>> TextTask((TextExample(("a cat",), 1), TextExample(("a car",), 0)), ("thing", "animal")).targets
        [1, 0]
    """

    examples: tuple[TextExample, ...]
    labels: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def targets(self) -> list[float]:
        """The index of the label, or the number, of each example."""
        return [example.label for example in self.examples]

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
) -> TextTask:
    """Read labelled texts from one file, or from several as one.

    Args:
        paths: The files.
        labels: Label names of the training data; a row with another label is an error.
        columns: The columns to read; by default `label` and the text columns of the first file.

    Returns:
        The examples; labels that are numbers are sorted by size, the others by name.

    Raises:
        AttangentError: If a file cannot be read, or a row has no text, no label or an unknown label.
    """
    rows: list[tuple[Path, TextExample]] = []
    for path in [paths] if isinstance(paths, Path) else paths:
        task = _read_examples(path, columns, _label_of)
        columns = replace(columns or TextColumns(), text=task.columns)
        rows += [(path, example) for example in task.examples]
    names = tuple(labels) if labels is not None else _sorted_names({example.label for _, example in rows})
    index = {name: position for position, name in enumerate(names)}
    _check_known(rows, index)
    if labels is None:
        _check_classes(names, rows)
    examples = tuple(replace(example, label=index[example.label]) for _, example in rows)
    return TextTask(examples, names, columns.text if columns else ())


def _read_examples(
    path: Path, columns: TextColumns | None, label_of: Callable[[Mapping[str, Any], str], Any]
) -> TextTask:
    """Read texts with the labels that `label_of` returns for a row and the label column."""
    records = read_rows(path)
    columns = columns or TextColumns()
    _check_label_column(path, records, columns.label)
    columns = resolved_columns(columns, records, path)

    def parse(record: dict[str, Any]) -> TextExample:
        return TextExample(columns.features(record), label_of(record, columns.label))

    parsed = parsed_rows(path, records, parse)
    examples = tuple(replace(example, row=number) for number, example in enumerate(parsed, 1))
    _check_texts(path, [example.features for example in examples])
    return TextTask(examples, columns=columns.text)


def _check_label_column(path: Path, records: Sequence[Mapping[str, Any]], column: str) -> None:
    names = [str(name) for name in dict.fromkeys(name for record in records for name in record)]
    if column in names:
        return
    if {"prompt", "completion"} <= set(names):
        raise AttangentError(
            f"{path} has no column {column!r}, but prompts with completions; pass --task causal-lm to learn "
            "to complete them."
        )
    near = difflib.get_close_matches(column, names, 1)
    suggestion = f"did you mean {near[0]!r}? " if near else ""
    raise AttangentError(
        f"{path} has no column {column!r} with labels; {suggestion}the columns are {', '.join(names)}; "
        "select one with --label-column."
    )


def _check_classes(names: Sequence[str], rows: Sequence[tuple[Path, TextExample]]) -> None:
    """Raise if there is one label, or if the labels are numbers to predict rather than numbers of classes."""
    if len(names) < 2:
        raise AttangentError(f"{rows[0][0]} has only the label {names[0]}, expected at least two labels")
    if len(names) <= _MANY_VALUES or not all(is_number(name) for name in names):
        return
    if len(names) > len(rows) / 3 or not all(float(name).is_integer() for name in names):
        raise AttangentError(
            f"the labels are {len(names)} different numbers in {len(rows)} rows; pass --task regression to "
            "predict numbers, or write the classes as words."
        )


def _label_of(record: Mapping[str, Any], column: str) -> str:
    """Return the label of a row as text."""
    label = record.get(column)
    if label is None or label == "" or label == -1:
        raise AttangentError(f"no label in the column {column!r}; add one, or remove the row.")
    return str(int(label)) if isinstance(label, bool) else str(label)


def _check_known(rows: Sequence[tuple[Path, TextExample]], known: Mapping[str, int]) -> None:
    unknown: dict[str, list[str]] = {}
    for path, example in rows:
        if example.label not in known:
            unknown.setdefault(example.label, []).append(f"{path.name} row {example.row}")
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
    return _read_examples(path, columns, _number)


def _number(record: Mapping[str, Any], column: str) -> float:
    cell: Any = record.get(column)
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
    pairs = parsed_rows(path, read_rows(path), _completion)
    _check_texts(path, [(pair.text,) for pair in pairs])
    return pairs


def _completion(row: dict[str, Any]) -> Completion:
    if isinstance(row.get("prompt"), str) and isinstance(row.get("completion"), str):
        return Completion(row["prompt"], row["completion"])
    if isinstance(row.get("text"), str):
        return Completion("", row["text"])
    raise AttangentError(
        f"the columns are {', '.join(map(str, row)) or 'none'}, expected prompt and completion, or text"
    )


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read all rows of a file; a file without rows is an error."""
    records = list(read_records(path))
    if not records:
        raise AttangentError(f"{path} has no rows, expected at least one example")
    return records


def parsed_rows(
    path: Path, records: Iterable[dict[str, Any]], parse: Callable[[dict[str, Any]], T]
) -> list[T]:
    """Parse every row of a file; an error names the row."""
    results = []
    for number, record in enumerate(records, 1):
        try:
            results.append(parse(record))
        except AttangentError as error:
            raise AttangentError(f"{path}, row {number}: {error}") from None
    return results


def _check_texts(path: Path, rows: Sequence[Sequence[str]]) -> None:
    """Warn about rows without text; raise if no row has one."""
    blank = [number for number, texts in enumerate(rows, 1) if not any(text.strip() for text in texts)]
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
