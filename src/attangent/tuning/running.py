"""Train one method: fit the classifier in closed form, add the method, train, average with a refit."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attangent._core.errors import AttangentError
from attangent.tuning.completions import BaseTexts, BestEpoch
from attangent.tuning.encoding import calibration_batches
from attangent.tuning.loading import check_gradients
from attangent.tuning.methods import Method, adapt
from attangent.tuning.prepared import PreparedTask
from attangent.tuning.request import Start, TrainingSettings
from attangent.tuning.start import features_of, fit_head, linear_classifier
from attangent.tuning.tasks import classifier_names, trained_classifier
from attangent.tuning.trainer import StepReport, make_trainer
from attangent.tuning.training import train, training_cost

# Factor on the default learning rate if the classifier's start leaves little to learn.
_GENTLE = 0.25
# Factor on the learning rate of a classifier that starts in closed form, near its optimum.
_NEAR = 0.2


@dataclass(frozen=True)
class ClosedForm:
    """The classifier that needs no training: a fit to the frozen model's features.

    Attributes:
        outputs: Its outputs for the rows to score on.
        seconds: Time of the fit.
    """

    outputs: Float[Tensor, "rows classes"]
    seconds: float


@dataclass(frozen=True)
class TrainedMethod:
    """A trained model with its trainer, its metrics and the closed-form classifier that it started from."""

    model: Any
    trainer: Any
    metrics: dict[str, Any]
    closed_form: ClosedForm | None = None


@dataclass(frozen=True)
class StartedMethod:
    """A method added to a model that is ready to train.

    Attributes:
        task: The task; its model is the adapted one.
        rate: Learning rate of the method.
        training: The settings, with the learning rate of the classifier.
        closed_form: The classifier in closed form, if there is one and there are rows to score on.
        refits: Whether the classifier is averaged with one in closed form after the training.
    """

    task: PreparedTask
    rate: float
    training: TrainingSettings
    closed_form: ClosedForm | None = None
    refits: bool = False


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
        method: The method.
        training: Length and speed of the training.
        start: Initial classifier.
        folder: Folder of the checkpoints.
        report: Called after each step with its number, the number of steps and the loss.

    Returns:
        The trained model with its metrics.
    """
    texts = BaseTexts.sampled(task.model, task, training.seed) if task.kind == "causal-lm" else None
    began = time.perf_counter()
    started = start_method(task, method, training, start)
    seconds = time.perf_counter() - began
    trainer = make_trainer(
        started.task,
        started.rate,
        started.training,
        folder,
        rate_scale=method.technique.rate_scale,
        report=report,
        penalty=None if texts is None else texts.penalty,
    )
    best = BestEpoch(folder, task.evaluate) if task.kind == "causal-lm" and len(task.evaluate) else None
    if best is not None:
        best.watch(trainer)
    cost = train(trainer) if method.technique.trains else training_cost(trainer, seconds)
    if started.refits and method.technique.trains:
        _average_with_refit(started.task, training.seed)
    metrics = {"learning_rate": started.rate, **cost, **({} if best is None else best.restore(trainer))}
    if texts is not None:
        metrics["base_texts_perplexity_ratio"] = texts.perplexity_ratio(started.task.model)
    return TrainedMethod(started.task.model, trainer, metrics, started.closed_form)


def start_method(
    task: PreparedTask, method: Method, training: TrainingSettings, start: Start
) -> StartedMethod:
    """Fit the initial classifier, add the method to the task's model, and set the learning rates."""
    rate = method.rate
    if task.kind == "causal-lm" and method.learning_rate is None:
        rate *= method.technique.completion_factor
    closed_form = None
    layer = None
    if start != "random":
        layer = linear_classifier(task.model, classifier_names(task.model, task.kind))
    if layer is None and task.kind != "causal-lm" and not method.technique.trains:
        raise AttangentError(
            f"the classifier of {type(task.model).__name__} is not one linear layer, which the method "
            f"{method.name} needs; choose another one, such as lora."
        )
    if layer is not None:
        confident, closed_form = _fit_start(task, layer, training.seed, method.technique.trains)
        if method.learning_rate is None:
            rate *= _GENTLE if confident else method.technique.bold
        training = replace(training, head_rate=_NEAR * (training.head_rate or rate))
    batches = calibration_batches(task.train, task.collate)
    adapted = adapt(task.model, method, task.kind, training.seed, batches)
    if method.technique.trains:
        check_gradients(adapted, task.collate([task.train[0]]))
    refits = layer is not None and task.kind == "classification"
    return StartedMethod(replace(task, model=adapted), rate, training, closed_form, refits)


def _average_with_refit(task: PreparedTask, seed: int) -> None:
    """Average the trained linear classifier with one that is fitted to the tuned features in closed form.

    W <- (W + W') / 2 and b <- (b + b') / 2, which averages the two classifiers' logits.
    """
    layer = trained_classifier(task.model)
    features, targets = features_of(task.model, layer, task.train, task.collate)
    refit = nn.Linear(layer.in_features, layer.out_features, bias=layer.bias is not None)
    fit_head(task.kind, refit, features, targets, seed, task.class_weights)
    with torch.no_grad():
        for trained, fitted in zip(layer.parameters(), refit.parameters(), strict=True):
            trained.lerp_(fitted.to(trained), 0.5)


def _fit_start(
    task: PreparedTask, layer: nn.Linear, seed: int, leave_error: bool
) -> tuple[bool, ClosedForm | None]:
    """Fit the classifier; return whether it is confident, and its outputs for the rows to score on."""
    began = time.perf_counter()
    features, targets = features_of(task.model, layer, task.train, task.collate)
    fit = fit_head(task.kind, layer, features, targets, seed, task.class_weights, leave_error)
    seconds = time.perf_counter() - began
    if not len(task.evaluate):
        return fit.confident, None
    features, _ = features_of(task.model, layer, task.evaluate, task.collate)
    return fit.confident, ClosedForm(fit.outputs(features), seconds)
