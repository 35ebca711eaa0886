"""Scores on held-out rows, and the files that show what was wrong."""

import csv

import pytest
import torch

from attangent.tuning.data.text import TextExample, TextTask, ValueUnits
from attangent.tuning.evaluation import gain_of_training, scores_of, write_findings
from attangent.tuning.prepared import PreparedTask
from attangent.tuning.running import ClosedForm

LABELS = ("late", "lost")
OUTPUTS = torch.tensor([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0], [0.0, 4.0]])


def task(kind="classification", labels=(0, 0, 1, 1)):
    texts = ["where is it", "=1+1", "gone", "never came"]
    examples = tuple(
        TextExample((text,), label, row) for text, label, row in zip(texts, labels, (3, 5, 8, 9), strict=True)
    )
    rows = [{"labels": label} for label in labels]
    units = ValueUnits(10.0, 2.0) if kind == "regression" else ValueUnits()
    held = TextTask(examples, LABELS)
    return PreparedTask(
        None, kind, [], list, evaluate=rows, held=held, labels=LABELS, text_columns=("message",), units=units
    )


def test_scores_and_the_gain_over_the_closed_form():
    found = scores_of(task(), OUTPUTS)
    assert found["eval_accuracy"] == 0.5
    square = 1.959964**2  # Wilson: 1/2 ± z sqrt(1 / 4n + z² / 4n²) / (1 + z² / n)
    half = (square / 16 + square**2 / 64) ** 0.5 / (1 + square / 4)
    assert found["accuracy_interval"] == pytest.approx([0.5 - half, 0.5 + half], abs=1e-6)
    assert found["eval_loss"] == pytest.approx(
        float(torch.nn.functional.cross_entropy(OUTPUTS, torch.tensor([0, 0, 1, 1])))
    )
    other = ClosedForm(torch.tensor([[0.0, 1.0]] * 3 + [[1.0, 0.0]]), 2.0)  # right once, on the third row
    gain = gain_of_training(task(), OUTPUTS, other)
    assert (gain["closed_form_accuracy"], gain["gain"], gain["closed_form_seconds"]) == (0.25, 0.25, 2.0)
    assert gain["gain_error"] == pytest.approx(float(torch.tensor([1.0, 0.0, -1.0, 1.0]).std()) / 2)


def test_confusion_and_wrong_rows(tmp_path):
    write_findings(tmp_path, task(), OUTPUTS)
    confusion = list(csv.reader((tmp_path / "confusion.csv").read_text().splitlines()))
    assert confusion == [["label", "late", "lost"], ["late", "1", "1"], ["lost", "1", "1"]]
    wrong = list(csv.reader((tmp_path / "wrong.csv").read_text().splitlines()))
    assert wrong[0] == ["row", "message", "label", "predicted", "probability"]
    assert [row[:4] for row in wrong[1:]] == [["8", "gone", "lost", "late"], ["5", "'=1+1", "late", "lost"]]


def test_numbers_are_listed_with_the_worst_first(tmp_path):
    values = task("regression", (0.0, 1.0, -1.0, 0.0))
    outputs = torch.tensor([[0.1], [0.0], [1.0], [0.0]])
    found = scores_of(values, outputs)
    assert found["eval_rmse"] == pytest.approx(2 * (5.01 / 4) ** 0.5)
    assert found["eval_r2"] == pytest.approx(1 - 5.01 / 2)
    write_findings(tmp_path, values, outputs)
    rows = list(csv.DictReader((tmp_path / "wrong.csv").read_text().splitlines()))
    assert [row["row"] for row in rows] == ["8", "5", "3", "9"]
    assert (rows[0]["value"], rows[0]["predicted"]) == ("8", "12")
