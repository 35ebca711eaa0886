"""Rows to predict for, and the table of their predictions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attangent._core.errors import AttangentError
from attangent.tuning.data.columns import TextColumns, resolved_columns
from attangent.tuning.data.records import SUFFIXES
from attangent.tuning.data.text import parsed_rows, read_rows
from attangent.tuning.evaluation import table_csv
from attangent.tuning.folders.tuned import TunedModel, ValuePrediction
from attangent.tuning.tasks import NEEDS


@dataclass(frozen=True)
class InputRows:
    """New rows, with the cells that tell them apart in a table of predictions.

    Attributes:
        rows: Texts, tuples of texts or image files, as `TunedModel.predict` takes them.
        names: Columns of the cells.
        cells: Row number, other columns and texts, or the image file, of each row.
    """

    rows: list[Any]
    names: tuple[str, ...]
    cells: list[tuple[str, ...]]


def rows_to_predict(tuned: TunedModel, source: Path | Iterable[str]) -> InputRows:
    """Read new rows: a table with the columns of training, lines with one text each, or images."""
    about = tuned.description
    if not NEEDS[about.kind].classifier:
        raise AttangentError("the model generates text and has no labels; use `attangent generate`.")
    if isinstance(source, Path) and about.kind == "image-classification":
        files = [path for path in source.rglob("*") if path.is_file() and not path.name.startswith(".")]
        return _images(sorted(files) if source.is_dir() else [source])
    if isinstance(source, Path) and source.suffix != ".txt":
        return _table(source, about.columns, _prediction_columns(about.labels))
    lines = _lines(source) if isinstance(source, Path) else source
    texts = {number: line.strip() for number, line in enumerate(lines, 1) if line.strip()}
    return _not_empty(
        InputRows([*texts.values()], ("row", "text"), [(str(row), text) for row, text in texts.items()])
    )


def _images(files: list[Path]) -> InputRows:
    return _not_empty(InputRows(files, ("file",), [(str(path),) for path in files]))


def _table(path: Path, columns: TextColumns | None, reserved: Iterable[str]) -> InputRows:
    """Read a table; its other columns are copied, except those named like a column of the predictions."""
    records = read_rows(path)
    columns = resolved_columns(columns, records, path)
    features = parsed_rows(path, records, columns.features)
    others = _copied_columns(records, {"row", *columns.text, *reserved})
    cells = [
        (str(row), *(_cell(record.get(name)) for name in others), *texts)
        for row, (record, texts) in enumerate(zip(records, features, strict=True), 1)
    ]
    return InputRows(features, ("row", *others, *columns.text), cells)


def _copied_columns(records: Iterable[dict[str, Any]], taken: Iterable[str]) -> list[str]:
    """Return the columns whose written names are not taken."""
    written = {_column(name) for name in taken}
    columns = []
    for name in dict.fromkeys(name for record in records for name in record):
        if _column(name) not in written:
            written.add(_column(name))
            columns.append(name)
    return columns


def _cell(value: Any) -> str:
    return "" if value is None else str(value)


def _prediction_columns(labels: Iterable[str]) -> tuple[str, ...]:
    """Return the columns of the predictions; a regression has no labels."""
    names = tuple(_column(f"probability_{label}") for label in labels)
    return ("label", "probability", *names) if names else ("value",)


def _not_empty(inputs: InputRows) -> InputRows:
    if not inputs.rows:
        raise AttangentError(f"there are no rows to predict for; use {', '.join(SUFFIXES)}, .txt or lines.")
    return inputs


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise AttangentError(f"cannot read {path}: {error}") from None


def predictions_csv(predictions: Sequence[Any], inputs: InputRows) -> str:
    """Write predictions as CSV: row, other columns, texts, then the label with probabilities or the number.

    No column name has a space.
    """
    names = [*map(_column, inputs.names)]
    pairs = zip(inputs.cells, predictions, strict=True)
    if isinstance(predictions[0], ValuePrediction):
        rows = ([*row, f"{each.value:.6g}"] for row, each in pairs)
        return table_csv([*names, *_prediction_columns(())], rows)
    rows = (
        [*row, each.label, *(f"{share:.6f}" for share in (each.probability, *each.probabilities.values()))]
        for row, each in pairs
    )
    return table_csv([*names, *_prediction_columns(predictions[0].probabilities)], rows)


def _column(name: str) -> str:
    return "_".join(name.split())
