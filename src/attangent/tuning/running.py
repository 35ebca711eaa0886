"""One method on one model and its rows: start, train, settle. What `tune` and `compare` share."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.utils.data import Subset

from attangent._core.errors import AttangentError
from attangent.tuning.checkpoints import trained_tensors
from attangent.tuning.data.grouping import unlike_part
from attangent.tuning.data.splitting import held_out
from attangent.tuning.encoding import calibration_batches
from attangent.tuning.methods import Method, adapt
from attangent.tuning.methods.classifier import classifier_names, trained_classifier
from attangent.tuning.precision import check_gradients
from attangent.tuning.recipe import Recipe
from attangent.tuning.searching import Choice, Search, rates_around
from attangent.tuning.start import features_of, fit_head, linear_classifier
from attangent.tuning.stopping import clearly_better, halt
from attangent.tuning.tasks import NEEDS, TaskKind
from attangent.tuning.training import Collate, Job, Training, score, train, untrained
from attangent.tuning.weight_interpolation import Tensors, best_share

_KEPT_APART = 0.2

Watch = Callable[[int, int, float], None]


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
    watch: Watch | None = None,
) -> Outcome:
    """Train the method on the task's model, which is changed, as the recipe says."""
    if recipe.search and method.technique.trains:
        return seek(task, method, training, recipe, folder, watch).outcome()
    job, kept = _begin(task, method, training.seed, recipe, folder, watch)
    start = {} if kept is None else trained_tensors(job.model)
    trainer, numbers = (train if method.technique.trains else untrained)(job, training)
    if kept is not None:
        loss = lambda: score(trainer, kept, task.kind)["loss"]  # noqa: E731
        numbers |= _settled(job.model, task, start, loss, training.seed)
    return Outcome(job.model, trainer, {"learning_rate": job.rate, **numbers})


@dataclass(frozen=True)
class Sought:
    """A method whose rate and length were chosen on rows kept apart, ready to be trained on all rows."""

    task: Task
    job: Job
    training: Training
    recipe: Recipe
    choice: Choice
    seconds: float

    def outcome(self) -> Outcome:
        """Train on all rows from the start, as was chosen; where that is not at all, fit the classifier."""
        share = self.choice.share
        if share == 0 or self.recipe.start != "random":
            to_train = share > 0 and self.recipe.start == "closed-form"
            _fit_again(self.job.model, self.task, self.training.seed, to_train)
        job = replace(self.job, rate=self.choice.rate, rows=self.task.rows, guard=lambda trainer: halt(share))
        trainer, numbers = (train if share > 0 else untrained)(job, self.training)
        numbers["seconds"] += self.seconds
        return Outcome(job.model, trainer, {**numbers, **self.choice.numbers})


def seek(
    task: Task,
    method: Method,
    training: Training,
    recipe: Recipe,
    folder: Path,
    watch: Watch | None = None,
) -> Sought:
    """Choose the length of training by rows kept apart, and the rate where it is sought and none is given."""
    job, kept = _begin(task, method, training.seed, recipe.with_validation(), folder, watch)
    sought = recipe.search and method.learning_rate is None
    search = Search(job, training, kept)
    choice = search.run(rates_around(job.rate) if sought else (job.rate,))
    return Sought(task, job, training, recipe, choice, search.seconds)


def seek_best(
    task: Task,
    method: Method,
    training: Training,
    recipe: Recipe,
    folder: Path,
    watch_of: Callable[[Method], Watch | None] = lambda method: None,
) -> tuple[Method, Sought, dict[str, float]]:
    """The first of the method's candidates, unless a later one is clearly better on the rows kept apart.

    Also the error of each there. The task's model is left as it is.
    """
    best, tried = None, {}
    for candidate in method.technique.candidates(method, task.kind):
        own = replace(task, model=copy.deepcopy(task.model))
        place = folder / f"trying-{candidate.name}"
        sought = seek(own, candidate, training, recipe, place, watch_of(candidate))
        tried[candidate.name] = sought.choice.numbers["validation_error"]
        if best is None or clearly_better(sought.choice.errors, best[1].choice.errors):
            best = candidate, sought
    assert best is not None
    return *best, tried


def _begin(
    task: Task, method: Method, seed: int, recipe: Recipe, folder: Path, watch: Watch | None
) -> tuple[Job, Any]:
    """The job on the rows to train on, its model at the start, and the rows kept apart."""
    part, kept = _parts(task, _linear(task), recipe, seed)
    adapted, rate = started(replace(task, rows=part), method, recipe, seed)
    if method.technique.trains:
        check_gradients(adapted, task.collate([part[0]]))
    scale = rate_scale(task, method, recipe)
    return Job(adapted, task.kind, rate, part, task.collate, folder, task.weights, watch, scale), kept


def started(task: Task, method: Method, recipe: Recipe, seed: int) -> tuple[Any, float]:
    """The task's model, changed: its classifier as the recipe starts it, the method added; and the rate."""
    sure = start_classifier(task, recipe, seed, method.technique.trains)
    return with_method(task, method, recipe, seed, sure)


def start_classifier(task: Task, recipe: Recipe, seed: int, trains: bool = True) -> bool:
    """Fit the classifier of the task's model as the recipe says; whether it is sure, so that little is left
    to learn. trains: whether anything is to be trained from there."""
    layer = _linear(task)
    if recipe.start == "random" or layer is None:
        return True
    to_train = trains and recipe.start == "closed-form"
    found = features_of(task.model, layer, task.rows, task.collate)
    return fit_head(task.kind, layer, *found, seed, task.weights, to_train).sure or not to_train


def with_method(task: Task, method: Method, recipe: Recipe, seed: int, sure: bool) -> tuple[Any, float]:
    """The task's model with the method added, and the rate for a classifier that is `sure`, or not."""
    layer = _linear(task)
    adapted = adapt(task.model, method, task.kind, seed, calibration_batches(task.rows, task.collate))
    return adapted, method.rate if layer is None else recipe.rate_of(method, sure)


def rate_scale(task: Task, method: Method, recipe: Recipe) -> Callable[[str], float]:
    """The rate of a parameter relative to the method's or the classifier's, by its name."""
    return recipe.scale_of(method, _linear(task) is not None)


def _linear(task: Task) -> nn.Linear | None:
    return linear_classifier(task.model, classifier_names(task.model, task.kind))


def _settled(
    adapted: Any, task: Task, start: Tensors, loss: Callable[[], float], seed: int
) -> dict[str, float]:
    """Keep the best share of what was learnt; where that is nothing, fit the classifier to all rows."""
    share, losses = best_share(adapted, start, trained_tensors(adapted), loss)
    if share == 0:
        _fit_again(adapted, task, seed)
    return {"kept": share, "validation_loss": losses[share], "validation_loss_at_start": losses[0.0]}


def _fit_again(adapted: Any, task: Task, seed: int, to_train: bool = False) -> None:
    """Fit the classifier to all rows, where it has a closed form."""
    if _linear(task) is not None:
        layer = trained_classifier(adapted)
        found = features_of(adapted, layer, task.rows, task.collate)
        fit_head(task.kind, layer, *found, seed, task.weights, to_train)


def _parts(task: Task, layer: nn.Module | None, recipe: Recipe, seed: int) -> tuple[Any, Any]:
    """The rows to train on and those kept apart, None where there are none."""
    if recipe.validation == "none":
        return task.rows, None
    if recipe.validation == "unlike" and layer is not None:
        features, _ = features_of(task.model, layer, task.rows, task.collate)
        chosen, kept = unlike_part(features, _strata(task), seed)
    else:
        chosen, kept = held_out(_strata(task), _KEPT_APART, seed, "validation")
    if not kept:
        raise AttangentError(
            f"of {len(task.rows)} rows, one for each label, none can be kept apart to choose by; give at "
            "least two rows of a label, or leave out --validation, --search and the method auto"
        )
    return _taken(task.rows, chosen), _taken(task.rows, kept)


def _strata(task: Task) -> list[int]:
    """What is kept in proportion: the class of each row; one for all where there are no classes."""
    if not NEEDS[task.kind].classifier or NEEDS[task.kind].values:
        return [0] * len(task.rows)
    return [int(task.rows[i]["labels"]) for i in range(len(task.rows))]


def _taken(rows: Any, places: list[int]) -> Any:
    return [rows[i] for i in places] if isinstance(rows, list) else Subset(rows, places)
