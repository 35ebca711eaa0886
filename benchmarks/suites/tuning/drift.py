"""What training changes: `python -m benchmarks.suites.tuning.drift FOLDER`, on a task that is not reported
on.

For a state and for LoRA, from the same start on the same rows: loss and accuracy before and after, on rows
trained on and on others; how far the features move, and along how many directions; the gradients of the heads
at the start; the share of attention that the prefix takes. Finished runs are read from FOLDER/drift.jsonl.
"""

import copy
import json
import os
import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attangent.adapters.calibration import run_recorded
from attangent.adapters.record import states_of
from attangent.papers.p1_prefix.head_to_head.run import PreparedTrial, prepare_trial
from attangent.papers.p1_prefix.head_to_head.settings import Entrant, MethodComparison, TaskSplit
from attangent.tuning.encoding import calibration_batches
from attangent.tuning.methods import Method, adapt
from attangent.tuning.prepared import PreparedTask
from attangent.tuning.request import Start, TrainingSettings
from attangent.tuning.running import run_method
from attangent.tuning.start import features_of, fit_classifier
from attangent.tuning.tasks import trained_classifier
from attangent.tuning.training import score
from benchmarks.suites.tuning.data import counterfact_answers, minilm

METHODS = ("ntk", "lora")
STARTS: tuple[Start, ...] = ("cross-validated", "closed-form")
TRAINING = TrainingSettings(epochs=4, batch=16, by_length=True)


def prepared(data: Path, folder: Path) -> PreparedTrial:
    trial = TaskSplit("answers 300", (counterfact_answers(data, folder),), 300, 200, 500, max_tokens=32)
    entrant = Entrant("probe", Method("probe"), (1.0,))
    own: dict[str, Any] = {"seeds": 1, "start": "closed-form", "pooling": "declared"}
    return prepare_trial(MethodComparison(minilm(), (entrant,), (trial,), TRAINING, **own), trial, 0)


def effective_rank(change: np.ndarray) -> float:
    """(sum s^2)^2 / sum s^4 of the singular values s: how many directions the change has.

    >>> round(effective_rank(np.diag([2.0, 2.0, 2.0, 0.0])), 3)
    3.0
    """
    squares = np.square(np.linalg.svd(change, compute_uv=False))
    return float(squares.sum() ** 2 / np.square(squares).sum())


def moved(before: np.ndarray, after: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """|f1 - f0| / |f0 - mean f0|, its directions, and the part of it that rows of a class have in common."""
    change = after - before
    means = np.stack([change[labels == label].mean(axis=0) for label in labels])
    return {
        "drift": float(np.linalg.norm(change) / np.linalg.norm(before - before.mean(axis=0))),
        "drift_rank": effective_rank(change - change.mean(axis=0)),
        "drift_of_classes": float(np.square(means).sum() / np.square(change).sum()),
    }


def gradients(given: PreparedTrial, method: Method, start: Start) -> dict[str, float]:
    """The norm of the loss's gradient at the start, and its spread over heads (a state) or layers (LoRA)."""
    model = copy.deepcopy(given.model)
    found = features_of(model, model.classifier, given.train, given.collate)
    fit_classifier(model.classifier, *found, leave_error=start == "closed-form")
    adapted = adapt(model, method, given.kind, 0, calibration_batches(given.train, given.collate)).eval()
    for first in range(0, len(given.train), 50):
        adapted(**given.collate(given.train[first : first + 50])).loss.backward()
    rows = [grad for name, grad in _gradients(adapted) if name.endswith(("Z", "lora_B.default.weight"))]
    norms = [float(one.norm()) for grad in rows for one in (grad if grad.ndim == 3 else grad[None])]
    return {
        "gradient": float(np.linalg.norm(norms)) / (len(given.train) / 50),
        "gradient_spread": max(norms) / statistics.median(norms),
    }


def _gradients(adapted: Any) -> list[tuple[str, torch.Tensor]]:
    return [(name, p.grad) for name, p in adapted.named_parameters() if p.grad is not None]


def prefix_share(adapted: Any, batches: list[dict[str, Any]]) -> float:
    """The mean of k e^c / (k e^c + sum_t e^(q.k_t)) over queries and heads: what the prefix takes."""
    shares: list[float] = []

    def recorder(state: Any) -> Any:
        def look(call: Any) -> None:
            level = state.k[:, 0].log() + state.features.level
            shares.append(float(torch.sigmoid(level[:, None] - call.logsumexp()).mean()))

        return look

    states = states_of(adapted, "default")
    run_recorded(adapted, batches, {layer: recorder(state) for layer, state in states.items()})
    return statistics.fmean(shares)


def measured(given: PreparedTrial, name: str, start: Start) -> dict[str, Any]:
    """One training, and what it changed."""
    method = Method(name)
    still = Method("head", learning_rate=1e-12)  # one step that moves nothing
    first, end = _run(given, still, start, epochs=0.01), _run(given, method, start)
    before, after = (
        features_of(one.model, trained_classifier(one.model), given.test, given.collate)
        for one in (first, end)
    )
    found: dict[str, Any] = {"method": name, "start": start, "rate": end.metrics["learning_rate"]}
    found |= gradients(given, method, start)
    for when, outcome in (("before", first), ("after", end)):
        for part, rows in (("train", given.train), ("test", given.test)):
            scores = score(outcome.trainer, rows, given.kind)
            found |= {f"{part}_{key}_{when}": value for key, value in scores.items()}
    found |= moved(before[0], after[0], before[1])
    if name == "ntk":
        found["prefix_share"] = prefix_share(end.model, calibration_batches(given.test, given.collate))
    return found


def _run(given: PreparedTrial, method: Method, start: Start, epochs: float = 4) -> Any:
    task = PreparedTask(copy.deepcopy(given.model), given.kind, given.train, given.collate)
    with tempfile.TemporaryDirectory() as folder:
        return run_method(task, method, replace(TRAINING, epochs=epochs), start, Path(folder))


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "drift.jsonl"
    done = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    given = prepared(Path(os.environ["ATTANGENT_DATA"]), folder)
    for name in METHODS:
        for start in STARTS:
            if not any((one["method"], one["start"]) == (name, start) for one in done):
                done.append(measured(given, name, start))
                path.write_text("".join(json.dumps(one) + "\n" for one in done))
    for one in done:
        print(json.dumps({key: v if isinstance(v, str) else float(f"{v:.3g}") for key, v in one.items()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
