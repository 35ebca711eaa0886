"""Train one method: fit the classifier in closed form, add the method, train."""

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
from attangent.tuning.tasks import classifier_names
from attangent.tuning.trainer import StepReport, make_trainer
from attangent.tuning.training import train, training_cost

# Factor on the default learning rate if the classifier's start leaves little to learn.
_GENTLE = 0.25
# Factor on the learning rate of a classifier that starts in closed form, near its optimum.
_NEAR = 0.2


@dataclass(frozen=True)
class TrainedMethod:
    """A trained model with its method, its trainer and its metrics."""

    method: Method
    model: Any
    trainer: Any
    metrics: dict[str, Any]


@dataclass(frozen=True)
class StartedMethod:
    """A method added to a model that is ready to train.

    Attributes:
        method: The method.
        task: The task; its model is the adapted one.
        rate: Learning rate of the method.
        training: The settings, with the learning rate of the classifier.
    """

    method: Method
    task: PreparedTask
    rate: float
    training: TrainingSettings

    def trainer(self, folder: Path, report: StepReport | None = None, callback: Any = None) -> Any:
        """Build the trainer; see `make_trainer`."""
        scale = self.method.technique.rate_scale
        options = {"rate_scale": scale, "report": report, "callback": callback}
        return make_trainer(self.task, self.rate, self.training, folder, **options)


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
    started = start_method(task, method, training, start)
    trainer = started.trainer(folder, report)
    cost = train(trainer) if method.technique.trains else training_cost(trainer)
    return TrainedMethod(method, started.task.model, trainer, {"learning_rate": started.rate, **cost})


def start_method(
    task: PreparedTask, method: Method, training: TrainingSettings, start: Start
) -> StartedMethod:
    """Fit the initial classifier, add the method to the task's model, and set the learning rates."""
    rate = method.rate
    layer = closed_form_layer(task, start)
    if layer is not None:
        leave_error = method.technique.trains and start == "closed-form"
        confident = fit_to_rows(task, task.model, layer, training.seed, leave_error) or not leave_error
        if method.learning_rate is None:
            rate *= _GENTLE if confident else method.technique.bold
        training = replace(training, head_rate=_NEAR * (training.head_rate or rate))
    batches = calibration_batches(task.train, task.collate)
    adapted = adapt(task.model, method, task.kind, training.seed, batches)
    if method.technique.trains:
        check_gradients(adapted, task.collate([task.train[0]]))
    return StartedMethod(method, replace(task, model=adapted), rate, training)


def closed_form_layer(task: PreparedTask, start: Start) -> nn.Linear | None:
    """Return the classifier to fit in closed form, or None if there is none or the start is random."""
    if start == "random":
        return None
    return linear_classifier(task.model, classifier_names(task.model, task.kind))


def fit_to_rows(task: PreparedTask, model: Any, layer: nn.Linear, seed: int, leave_error: bool) -> bool:
    """Fit the classifier `layer` of `model` to the training rows; return whether it is confident."""
    features, targets = features_of(model, layer, task.train, task.collate)
    return fit_head(task.kind, layer, features, targets, seed, task.class_weights, leave_error).confident
