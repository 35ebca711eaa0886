"""One method on one model and its rows: start, train, settle. What `tune` and `compare` share."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.utils.data import Subset

from attangent.tuning.blending import Tensors, best_share
from attangent.tuning.checkpoints import trained_tensors
from attangent.tuning.data.grouping import unlike_part
from attangent.tuning.data.splitting import held_out
from attangent.tuning.encoding import calibration_batches
from attangent.tuning.kinds import NEEDS, TaskKind
from attangent.tuning.methods import Method, adapt
from attangent.tuning.methods.classifier import classifier_names, trained_classifier
from attangent.tuning.precision import check_gradients
from attangent.tuning.recipe import Recipe
from attangent.tuning.searching import Search, rates_around
from attangent.tuning.start import features_of, fit_head, linear_classifier
from attangent.tuning.training import Collate, Job, Training, score, train, untrained

_KEPT_APART = 0.2


@dataclass(frozen=True)
class Task:
    """A model as it is loaded, its kind, the rows to train on, and how they become batches."""

    model: Any
    kind: TaskKind
    rows: Any
    collate: Collate
    weights: Tensor | None = None


@dataclass(frozen=True)
class Outcome:
    """A trained model with its trainer and its numbers."""

    model: Any
    trainer: Any
    numbers: dict[str, Any]


def run_method(
    task: Task,
    method: Method,
    training: Training,
    recipe: Recipe,
    folder: Path,
    watch: Callable[[int, int, float], None] | None = None,
) -> Outcome:
    """Train the method on the task's model, which is changed, as the recipe says."""
    seed = training.seed
    part, kept = _parts(task, _linear(task), recipe, seed)
    adapted, rate = started(replace(task, rows=part), method, recipe, seed)
    if method.technique.trains:
        check_gradients(adapted, task.collate([part[0]]))
    scale = method.technique.rate_scale
    job = Job(adapted, task.kind, rate, part, task.collate, folder, task.weights, watch, scale)
    if recipe.search and method.technique.trains:
        return _searched(job, method, task, training, kept)
    start = {} if kept is None else trained_tensors(adapted)
    trainer, numbers = (train if method.technique.trains else untrained)(job, training)
    if kept is not None:
        numbers |= _settled(adapted, task, start, lambda: score(trainer, kept, task.kind)["loss"], seed)
    return Outcome(adapted, trainer, {"learning_rate": rate, **numbers})


def started(task: Task, method: Method, recipe: Recipe, seed: int) -> tuple[Any, float]:
    """The task's model, changed: its classifier as the recipe starts it, the method added; and the rate."""
    model, layer = task.model, _linear(task)
    if recipe.start == "closed-form" and layer is not None:
        found = features_of(model, layer, task.rows, task.collate)
        fit_head(task.kind, layer, *found, seed, task.weights)
    adapted = adapt(model, method, task.kind, seed, calibration_batches(task.rows, task.collate))
    return adapted, method.rate if layer is None else recipe.rate_of(method)


def _linear(task: Task) -> nn.Linear | None:
    return linear_classifier(task.model, classifier_names(task.model, task.kind))


def _searched(job: Job, method: Method, task: Task, training: Training, kept: Any) -> Outcome:
    """The outcome at the best rate, or at the one that was given, with the weights of least loss."""
    rates = rates_around(job.rate) if method.learning_rate is None else (job.rate,)
    trainer, numbers = Search(job, training, kept).run(rates)
    if numbers["kept_step"] == 0:
        _fit_again(job.model, task, training.seed)
    return Outcome(job.model, trainer, numbers)


def _settled(
    adapted: Any, task: Task, start: Tensors, loss: Callable[[], float], seed: int
) -> dict[str, float]:
    """Keep the best share of what was learnt; where that is nothing, fit the classifier to all rows."""
    share, losses = best_share(adapted, start, trained_tensors(adapted), loss)
    if share == 0:
        _fit_again(adapted, task, seed)
    return {"kept": share, "validation_loss": losses[share], "validation_loss_at_start": losses[0.0]}


def _fit_again(adapted: Any, task: Task, seed: int) -> None:
    """Fit the classifier to all rows, where it has a closed form."""
    if _linear(task) is not None:
        layer = trained_classifier(adapted)
        found = features_of(adapted, layer, task.rows, task.collate)
        fit_head(task.kind, layer, *found, seed, task.weights)


def _parts(task: Task, layer: nn.Module | None, recipe: Recipe, seed: int) -> tuple[Any, Any]:
    """The rows to train on and those kept apart, None where there are none."""
    if recipe.validation == "none":
        return task.rows, None
    if recipe.validation == "unlike" and layer is not None:
        features, _ = features_of(task.model, layer, task.rows, task.collate)
        chosen, kept = unlike_part(features, _strata(task), seed)
    else:
        chosen, kept = held_out(_strata(task), _KEPT_APART, seed, "validation")
    return _taken(task.rows, chosen), _taken(task.rows, kept)


def _strata(task: Task) -> list[int]:
    """What is kept in proportion: the class of each row; one for all where there are no classes."""
    if not NEEDS[task.kind].classifier or NEEDS[task.kind].values:
        return [0] * len(task.rows)
    return [int(task.rows[i]["labels"]) for i in range(len(task.rows))]


def _taken(rows: Any, places: list[int]) -> Any:
    return [rows[i] for i in places] if isinstance(rows, list) else Subset(rows, places)
