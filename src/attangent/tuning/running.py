"""Train one method: fit the classifier in closed form, add the method, train."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from attangent.tuning.encoding import calibration_batches
from attangent.tuning.loading import check_gradients
from attangent.tuning.methods import Method, adapt
from attangent.tuning.prepared import PreparedTask
from attangent.tuning.request import Start, TrainingSettings
from attangent.tuning.start import features_of, fit_head, linear_classifier
from attangent.tuning.tasks import classifier_names, is_head
from attangent.tuning.trainer import StepReport, make_trainer
from attangent.tuning.training import train, training_cost

_GENTLE = 0.25
"""Factor on the default learning rate if the classifier's start leaves little to learn."""
_NEAR = 0.2
"""Factor on the learning rate of a classifier that starts in closed form, near its optimum."""


@dataclass(frozen=True)
class TrainedMethod:
    """A trained model with its method, its trainer and its metrics."""

    method: Method
    model: Any
    trainer: Any
    metrics: dict[str, Any]


@dataclass(frozen=True)
class StartedMethod:
    """A task whose model is adapted and ready to train, with its learning rates.

    Attributes:
        task: The task; its model is the adapted one.
        rate: Learning rate of the method.
        rate_scale: Learning rate of a parameter, by name, relative to that of its group.
    """

    task: PreparedTask
    rate: float
    rate_scale: Callable[[str], float]


def run_method(
    task: PreparedTask,
    method: Method,
    training: TrainingSettings,
    start: Start,
    folder: Path,
    report: StepReport | None = None,
) -> TrainedMethod:
    """Train a method on the task's model, which is changed.

    Args:
        task: The model and its rows.
        method: The method; not `auto`.
        training: Length and speed of the training.
        start: Initial classifier.
        folder: Folder of the checkpoints.
        report: Called after each step with its number, the number of steps and the loss.

    Returns:
        The trained model with its metrics.
    """
    started = start_method(task, method, start, training.seed)
    trainer = make_trainer(
        started.task, started.rate, training, folder, rate_scale=started.rate_scale, report=report
    )
    cost = train(trainer) if method.technique.trains else training_cost(trainer)
    return TrainedMethod(method, started.task.model, trainer, {"learning_rate": started.rate, **cost})


def start_method(task: PreparedTask, method: Method, start: Start, seed: int) -> StartedMethod:
    """Fit the initial classifier, add the method to the task's model, and set the learning rates."""
    layer = closed_form_layer(task, start)
    rate = method.rate
    if layer is not None:
        leave_error = method.technique.trains and start == "closed-form"
        confident = fit_to_rows(task, task.model, layer, seed, leave_error) or not leave_error
        if method.learning_rate is None:
            rate *= _GENTLE if confident else method.technique.bold
    batches = calibration_batches(task.train, task.collate)
    adapted = adapt(task.model, method, task.kind, seed, batches)
    if method.technique.trains:
        check_gradients(adapted, task.collate([task.train[0]]))
    return StartedMethod(replace(task, model=adapted), rate, _rate_scale(method, layer is not None))


def closed_form_layer(task: PreparedTask, start: Start) -> nn.Linear | None:
    """Return the classifier to fit in closed form, or None if there is none or the start is random."""
    if start == "random":
        return None
    return linear_classifier(task.model, classifier_names(task.model, task.kind))


def fit_to_rows(task: PreparedTask, model: Any, layer: nn.Linear, seed: int, leave_error: bool) -> bool:
    """Fit the classifier `layer` of `model` to the training rows; return whether it is confident."""
    features, targets = features_of(model, layer, task.train, task.collate)
    return fit_head(task.kind, layer, features, targets, seed, task.class_weights, leave_error).confident


def _rate_scale(method: Method, closed_form: bool) -> Callable[[str], float]:
    scale = method.technique.rate_scale
    if not closed_form:
        return scale
    return lambda name: scale(name) * (_NEAR if is_head(name) else 1.0)
