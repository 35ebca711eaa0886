"""Labels and probabilities for new rows. What `attangent predict` calls."""

import csv
import io
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent._core.tables import harmless
from attangent.tuning.data.images import EncodedImages, ImageTask, Pixels
from attangent.tuning.data.records import KINDS
from attangent.tuning.data.text import read_features
from attangent.tuning.data.values import ValuedExample, ValueTask
from attangent.tuning.encoding import Padding, encode_task, stack
from attangent.tuning.loading import model_limit, preprocessor_of
from attangent.tuning.tasks import NEEDS

if TYPE_CHECKING:
    from attangent.tuning.folders.tuned import Tuned


def predict(tuned: "Tuned", given: Sequence[Any], batch: int = 32) -> "list[Any]":
    """The label and the probabilities, or the number, of each text, tuple of texts or image file."""
    if not NEEDS[tuned.description.kind].classifier:
        raise AttangentError("the model goes on with texts and has no labels; use `attangent generate`")
    if isinstance(given, str | PathLike):
        raise AttangentError(f"{str(given)!r:.60} is given, expected a list: predict([{str(given)!r:.30}])")
    encode = _images if tuned.description.kind == "image-classification" else _texts
    rows, collate = encode(tuned, given)
    device = next(tuned.model.parameters()).device
    found: list[Any] = []
    for start in range(0, len(rows), batch):
        inputs = collate([rows[i] for i in range(start, min(start + batch, len(rows)))])
        del inputs["labels"]
        with torch.no_grad():
            logits = tuned.model(**{name: value.to(device) for name, value in inputs.items()}).logits
        found += _answers(tuned, logits.float())
    return found


def _answers(tuned: "Tuned", logits: Tensor) -> "list[Any]":
    from attangent.tuning.folders.tuned import Estimate, Prediction

    if NEEDS[tuned.description.kind].values:
        return [Estimate(tuned.description.units.outside(given)) for (given,) in logits.tolist()]
    found = []
    for shares in logits.softmax(-1).tolist():
        by_label = dict(zip(tuned.labels, shares, strict=True))
        found.append(Prediction(max(by_label, key=by_label.__getitem__), by_label))
    return found


def _texts(tuned: "Tuned", texts: Sequence[str | Sequence[str]]) -> tuple[Any, Any]:
    features = [(text,) if isinstance(text, str) else tuple(text) for text in texts]
    if not features or not all(row and all(isinstance(part, str) for part in row) for row in features):
        raise AttangentError("there is no text to predict for, expected texts or tuples of texts")
    task = ValueTask(tuple(ValuedExample(row, 0) for row in features))  # what stands in the place of a label
    rows = encode_task(task, tuned.tokenizer, tuned.description.max_tokens, model_limit(tuned.model))
    return rows, Padding(tuned.tokenizer.pad_token_id)


def _images(tuned: "Tuned", files: Sequence[Path]) -> tuple[Any, Any]:
    pixels = Pixels.of(tuned.model.config, preprocessor_of(tuned.description.base_model))
    return EncodedImages(ImageTask(tuple(map(Path, files)), (0,) * len(files), tuned.labels), pixels), stack


def rows_to_predict(tuned: "Tuned", source: Path | Iterable[str]) -> list[Any]:
    """New rows: of a file with the columns of training, of a text file or lines, one text on each line."""
    if not isinstance(source, Path):
        found: list[Any] = [line.strip() for line in source if line.strip()]
    elif source.is_dir():
        found = sorted(path for path in source.rglob("*") if path.is_file() and not path.name.startswith("."))
    elif tuned.description.kind == "image-classification":
        found = [source]
    elif source.suffix == ".txt":
        found = [line.strip() for line in _lines(source) if line.strip()]
    else:
        found = list(read_features(source, tuned.description.layout, tuned.description.columns))
    if not found:
        raise AttangentError(f"there are no rows to predict for; give {', '.join(KINDS)} or .txt, or lines")
    return found


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise AttangentError(f"cannot read {path}: {error}") from None


def answers_table(found: Sequence[Any], rows: Sequence[Any] = ()) -> str:
    """CSV with the label, its probability and that of every label; with the number for regression.

    Where the rows are files, each is named first.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    if hasattr(found[0], "value"):
        writer.writerows([["value"], *([f"{one.value:.6g}"] for one in found)])
        return file.getvalue()
    labels = list(found[0].probabilities)
    named = [[harmless(str(row))] if isinstance(row, Path) else [] for row in rows] or [[]] * len(found)
    first = ["file"] if named[0] else []
    writer.writerow([*first, "label", "probability", *(f"probability of {name}" for name in labels)])
    for name, one in zip(named, found, strict=True):
        shares = [one.probability, *one.probabilities.values()]
        writer.writerow([*name, harmless(one.label), *(f"{share:.6f}" for share in shares)])
    return file.getvalue()
