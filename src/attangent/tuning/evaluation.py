"""Scores of a run on held-out rows: interval, comparison with the closed form, confusion, wrong rows."""

import csv
import io
import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from attangent._core.files import write_whole
from attangent._core.tables import harmless
from attangent.tuning.data.images import ImageTask
from attangent.tuning.tasks import NEEDS

if TYPE_CHECKING:
    from attangent.tuning.prepared import PreparedTask
    from attangent.tuning.running import ClosedForm

CONFUSION = "confusion.csv"
WRONG = "wrong.csv"


def scores_of(task: "PreparedTask", outputs: Float[Tensor, "rows classes"]) -> dict[str, Any]:
    """Return the scores of outputs for the rows to score on, with Wilson's 95 % interval of the accuracy."""
    from scipy.stats import binomtest

    targets = torch.tensor(_targets(task))
    if NEEDS[task.kind].values:
        errors = (outputs.squeeze(-1).double() - targets.double()).square()
        spread = (targets.double() - targets.double().mean()).square().sum()
        r2 = float(1 - errors.sum() / spread) if spread > 0 else math.nan
        loss = float(errors.mean())
        return {"eval_loss": loss, "eval_r2": r2, "eval_rmse": task.units.scale * math.sqrt(loss)}
    hits = int((outputs.argmax(-1) == targets).sum())
    loss = float(F.cross_entropy(outputs, targets))
    interval = binomtest(hits, len(targets)).proportion_ci(method="wilson")
    return {
        "eval_loss": loss,
        "eval_accuracy": hits / len(targets),
        "accuracy_interval": [interval.low, interval.high],
    }


def gain_of_training(
    task: "PreparedTask", outputs: Float[Tensor, "rows classes"], closed_form: "ClosedForm"
) -> dict[str, Any]:
    """Compare the trained model with the closed form on the same rows: accuracies and their paired gap."""
    baseline = scores_of(task, closed_form.outputs)
    result: dict[str, Any] = {"closed_form_seconds": closed_form.seconds}
    if NEEDS[task.kind].values:
        return {**result, "closed_form_rmse": baseline["eval_rmse"]}
    targets = torch.tensor(_targets(task))
    right = [(each.argmax(-1) == targets).double() for each in (outputs, closed_form.outputs)]
    gaps = (right[0] - right[1]).tolist()
    error = statistics.stdev(gaps) / math.sqrt(len(gaps)) if len(gaps) > 1 else 0.0
    result["closed_form_accuracy"] = baseline["eval_accuracy"]
    return {**result, "gain": statistics.fmean(gaps), "gain_error": error}


def write_findings(folder: Path, task: "PreparedTask", outputs: Float[Tensor, "rows classes"]) -> None:
    """Write the confusion matrix and the rows with a wrong label, or all numbers, the worst first."""
    if NEEDS[task.kind].values:
        write_whole(folder / WRONG, _values_csv(task, outputs))
        return
    targets = _targets(task)
    predicted = outputs.argmax(-1).tolist()
    write_whole(folder / CONFUSION, _confusion_csv(task.labels, targets, predicted))
    write_whole(folder / WRONG, _wrong_csv(task, targets, predicted, outputs))


def _targets(task: "PreparedTask") -> list[Any]:
    return [task.evaluate[index]["labels"] for index in range(len(task.evaluate))]


def _confusion_csv(labels: Sequence[str], targets: Sequence[int], predicted: Sequence[int]) -> str:
    counts = [[0] * len(labels) for _ in labels]
    for target, guess in zip(targets, predicted, strict=True):
        counts[target][guess] += 1
    return table_csv(["label", *labels], ([name, *row] for name, row in zip(labels, counts, strict=True)))


def _wrong_csv(
    task: "PreparedTask", targets: list[int], predicted: list[int], outputs: Float[Tensor, "rows classes"]
) -> str:
    chances = outputs.softmax(-1)
    names, rows = _row_cells(task)
    wrong = [index for index, target in enumerate(targets) if predicted[index] != target]
    wrong.sort(key=lambda index: -float(chances[index, predicted[index]]))
    cells = (
        [
            *rows[index],
            task.labels[targets[index]],
            task.labels[predicted[index]],
            f"{float(chances[index, predicted[index]]):.4f}",
        ]
        for index in wrong
    )
    return table_csv([*names, "label", "predicted", "probability"], cells)


def _values_csv(task: "PreparedTask", outputs: Float[Tensor, "rows classes"]) -> str:
    names, rows = _row_cells(task)
    actual = [task.units.outside(target) for target in _targets(task)]
    predicted = [task.units.outside(value) for (value,) in outputs.tolist()]
    worst = sorted(range(len(rows)), key=lambda index: -abs(actual[index] - predicted[index]))
    cells = ([*rows[index], f"{actual[index]:.6g}", f"{predicted[index]:.6g}"] for index in worst)
    return table_csv([*names, "value", "predicted"], cells)


def _row_cells(task: "PreparedTask") -> tuple[list[str], list[list[str]]]:
    """Return the columns that identify a row, and their cells."""
    if isinstance(task.held, ImageTask):
        return ["file"], [[str(file)] for file in task.held.files]
    rows = [[str(example.row), *example.features] for example in task.held.examples]
    return ["row", *task.text_columns], rows


def table_csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return rows of cells as CSV, without formulas that a spreadsheet would run."""
    file = io.StringIO()
    cells = ([harmless(cell) for cell in row] for row in [header, *rows])
    csv.writer(file, lineterminator="\n").writerows(cells)
    return file.getvalue()
