"""Does a prefix do better that starts where kernel regression ends?

`python -m benchmarks.planning.kernel_start FOLDER`: tasks that rules were made on, 50 and 100 of their rows,
three draws of them, MiniLM's last two layers. The states are moved by share J' coefficients, in full or in
part, the classifier is fitted again, and `tune`'s trainer goes on.
"""

import copy
import random
import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attangent.tuning.methods import Method
from attangent.tuning.methods.classifier import trained_classifier
from attangent.tuning.planning.kernel_tuned import _Features
from attangent.tuning.planning.leave_one_out import best_fit
from attangent.tuning.planning.network import Network, targets_of
from attangent.tuning.recipe import Recipe
from attangent.tuning.running import Task, rate_scale, started
from attangent.tuning.start import features_of, fit_head
from attangent.tuning.training import Job, Training, score, train
from benchmarks.planning.real import prepared
from benchmarks.planning.tasks import Setting

TASKS = ("relations", "travel", "math-subjects", "hotel")
SIZES, DRAWS, PARTS, HELD = (50, 100), 3, (0.0, 0.3, 1.0), 200
METHOD = Method("ntk")


def moved_by_kernel(task: Task) -> Tensor:
    """By what kernel regression changes all weights (P) but the classifier's."""
    own = replace(task, model=copy.deepcopy(task.model))
    adapted, _ = started(own, METHOD, Recipe("cross-validated"), 0)
    network = Network.of(adapted, int(task.model.config.num_labels), task.collate)
    features = _Features.of(network, network.tangent(task.rows).jacobian)
    fit = best_fit(*features.kernels(features), network.basis[targets_of(task.rows)].double())
    found = torch.zeros(len(network.theta))
    change = features.rest.double().T @ fit.coefficients / features.scales[1]
    found[~network.head_places] = (fit.share * change).float()
    return found


def accuracy(task: Task, held: Any, change: Tensor) -> float:
    """Of a prefix trained from states that are moved by `change`."""
    adapted, rate = started(replace(task, model=copy.deepcopy(task.model)), METHOD, Recipe(), 0)
    if change.any():
        _move(adapted, change)
        layer = trained_classifier(adapted)
        found = features_of(adapted, layer, task.rows, task.collate)
        fit_head("classification", layer, *found, 0, None, True)
    scale = rate_scale(task, METHOD, Recipe())
    with tempfile.TemporaryDirectory() as place:
        job = Job(adapted, "classification", rate, task.rows, task.collate, Path(place), rate_scale=scale)
        trainer, _ = train(job, Training(batch=8))
    return score(trainer, held, "classification")["accuracy"]


def _move(adapted: Any, change: Tensor) -> None:
    trained = [parameter for parameter in adapted.parameters() if parameter.requires_grad]
    parts = change.split([parameter.numel() for parameter in trained])
    with torch.no_grad():
        for parameter, part in zip(trained, parts, strict=True):
            parameter += part.view_as(parameter)


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    for size in SIZES:
        rows: list[list[float]] = []
        for name in TASKS:
            ready = prepared(Setting(name), folder)
            for draw in range(DRAWS):
                chosen = random.Random(f"{name}{draw}").sample(ready.task.rows, size)
                task = replace(ready.task, rows=chosen)
                change = moved_by_kernel(task)
                rows.append([accuracy(task, ready.held[:HELD], part * change) for part in PARTS])
                print(name, size, draw, *(f"{one:.3f}" for one in rows[-1]), flush=True)
        gains = [[100 * (row[i] - row[0]) for row in rows] for i in range(1, len(PARTS))]
        for part, gain in zip(PARTS[1:], gains, strict=True):
            error = statistics.stdev(gain) / len(gain) ** 0.5
            print(f"{size} rows, {part:g} of the way: {statistics.fmean(gain):+.1f} points +- {error:.1f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
