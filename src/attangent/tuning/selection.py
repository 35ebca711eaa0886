"""Choose between methods on held-out rows (`--method auto`).

A few dozen rows say little. A method that is ahead by chance does worse on new rows than the preferred one.
It therefore has to be ahead by more than chance explains, and by enough to matter.
"""

import copy
import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch.utils.data import Subset

from attangent._core.errors import AttangentError
from attangent._core.files import write_json
from attangent.tuning.data.text import held_out
from attangent.tuning.methods import Method
from attangent.tuning.prepared import PreparedTask
from attangent.tuning.request import Start, TrainingSettings
from attangent.tuning.running import (
    StartedMethod,
    TrainedMethod,
    closed_form_layer,
    fit_to_rows,
    start_method,
)
from attangent.tuning.tasks import NEEDS, trained_classifier
from attangent.tuning.trainer import (
    StepReport,
    is_first_process,
    put_tensors,
    trained_tensors,
    trainer_callback,
)
from attangent.tuning.training import row_errors, train, training_cost

# Number of times a run is scored on the held-out rows.
PARTS = 8
# A run ends once an earlier part has been clearly better than each of this many last parts.
PATIENCE = 3
# Smallest gain that matters: one answer in a hundred, or a hundredth of the variance of numbers.
LEAST_GAIN = 0.01
_HELD_OUT = 0.2
_FILE = "validation.json"


@dataclass(frozen=True)
class CandidateTrial:
    """A method that was trained on some rows and scored on the others, ready to train on all rows.

    Attributes:
        started: The method with its adapted model at the start.
        share: Fraction of the run after which the method was best.
        errors: Errors of the held-out rows at that point.
        metrics: Summary of the trial.
        seconds: Time spent on it.
    """

    started: StartedMethod
    share: float
    errors: list[float]
    metrics: dict[str, Any]
    seconds: float


def choose_method(
    task: PreparedTask,
    method: Method,
    training: TrainingSettings,
    start: Start,
    folder: Path,
    report_for: Callable[[Method], StepReport | None] = lambda method: None,
) -> tuple[CandidateTrial, dict[str, float]]:
    """Try the candidates of a method; take the first unless a later one is clearly better.

    Args:
        task: The model, which is not changed, and its rows.
        method: A method with several candidates, such as `auto`.
        training: Length and speed of the training.
        start: Initial classifier.
        folder: Folder of the checkpoints.
        report_for: Returns the function that is called after each step of a candidate.

    Returns:
        The trial of the chosen method, and the held-out error of each candidate.
    """
    best: CandidateTrial | None = None
    errors = {}
    for candidate in method.technique.candidates(method, task.kind):
        copied = replace(task, model=copy.deepcopy(task.model))
        subfolder = folder / f"trying-{candidate.name}"
        trial = _try_method(copied, candidate, training, start, subfolder, report_for(candidate))
        errors[candidate.name] = trial.metrics["validation_error"]
        if best is None or clearly_better(trial.errors, best.errors):
            best = trial
    assert best is not None
    return best, errors


def train_choice(
    trial: CandidateTrial, task: PreparedTask, start: Start, folder: Path, report: StepReport | None = None
) -> TrainedMethod:
    """Train the chosen method on all rows for as long as was best in its trial."""
    method = trial.started.method
    model = trial.started.task.model
    if closed_form_layer(task, "closed-form") is not None and (trial.share == 0 or start != "random"):
        leave_error = trial.share > 0 and start == "closed-form"
        fit_to_rows(task, model, trained_classifier(model), trial.started.training.seed, leave_error)
    started = replace(trial.started, task=replace(task, model=model))
    trainer = started.trainer(folder / f"trying-{method.name}", report, _stop_after(trial.share))
    cost = train(trainer) if trial.share > 0 else training_cost(trainer)
    cost["seconds"] += trial.seconds
    return TrainedMethod(method, model, trainer, {**cost, **trial.metrics})


def _try_method(
    task: PreparedTask,
    method: Method,
    training: TrainingSettings,
    start: Start,
    folder: Path,
    report: StepReport | None,
) -> CandidateTrial:
    """Train a method on four fifths of the rows and find the best length of training on the others."""
    chosen, held = _split(task, training.seed)
    started = start_method(replace(task, train=chosen), method, training, start)
    initial = trained_tensors(started.task.model)
    folder = folder / f"rate-{started.rate:g}"
    trainer = started.trainer(folder)
    record = ValidationRecord(folder)
    record.add(0, row_errors(trainer, held, task.kind))
    seconds = 0.0
    if not record.steps or not record.is_over(record.last):
        callback = _score_parts(record, lambda: row_errors(trainer, held, task.kind))
        trainer = started.trainer(folder, report, callback)
        seconds = train(trainer, check_loss=False)["seconds"]
    put_tensors(started.task.model, initial)
    error = statistics.fmean(record.errors[record.best])
    metrics = {
        "learning_rate": started.rate,
        "trained_share": record.best / record.steps,
        "validation_error": error,
        "validation_error_at_start": statistics.fmean(record.errors[0]),
        "rates": {f"{started.rate:g}": error},
    }
    return CandidateTrial(started, metrics["trained_share"], record.errors[record.best], metrics, seconds)


def _split(task: PreparedTask, seed: int) -> tuple[Any, Any]:
    """Split the rows, with every class in proportion, into those to train and those to score on."""
    rows = task.train
    classes = [0] * len(rows)
    if NEEDS[task.kind].classifier and not NEEDS[task.kind].values:
        classes = [int(rows[i]["labels"]) for i in range(len(rows))]
    chosen, held = held_out(classes, _HELD_OUT, seed, "validation")
    if not held:
        raise AttangentError(
            f"{len(rows)} rows, one per label, leave none to choose a method by; add rows, or use another "
            "method than auto."
        )
    if isinstance(rows, list):
        return [rows[i] for i in chosen], [rows[i] for i in held]
    return Subset(rows, chosen), Subset(rows, held)


def clearly_better(errors: Sequence[float], usual: Sequence[float]) -> bool:
    """Return whether mean(u - e) > max(its standard error, LEAST_GAIN) over rows with errors e and usual u.

    Example:
        >>> clearly_better([0.1, 0.2, 0.1, 0.2], [0.5, 0.4, 0.6, 0.5])
        True
        >>> clearly_better([0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.3, 0.3])
        False
    """
    if not all(map(math.isfinite, errors)):
        return False
    if not all(map(math.isfinite, usual)):
        return True
    gains = [before - after for after, before in zip(errors, usual, strict=True)]
    chance = statistics.stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else math.inf
    return statistics.fmean(gains) > max(chance, LEAST_GAIN)


class ValidationRecord:
    """Errors of the held-out rows by step, saved in the run's folder; step 0 is the start.

    An interrupted run repeats its steps exactly, so the file does not depend on interruptions.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.steps, self.errors = _read_record(folder / _FILE)

    def add(self, step: int, errors: list[float]) -> None:
        """Save the errors after a step; a diverged run counts as infinitely wrong."""
        diverged = not all(map(math.isfinite, errors))
        self.errors[step] = [math.inf] * len(errors) if diverged else errors
        if is_first_process():
            self.folder.mkdir(parents=True, exist_ok=True)
            values = {str(number): values for number, values in self.errors.items()}
            write_json(self.folder / _FILE, {"steps": self.steps, "errors": values})

    @property
    def last(self) -> int:
        """The last recorded step."""
        return max(self.errors)

    @property
    def best(self) -> int:
        """The step to stop at: the last, or the best of those that are clearly better."""
        return self._best(self.last)

    def is_over(self, step: int) -> bool:
        """Return whether the run ends at this step: complete, past its best, or diverged."""
        if step >= self.steps or math.isinf(statistics.fmean(self.errors[step])):
            return True
        latest = sorted(number for number in self.errors if number <= step)[-PATIENCE:]
        best = self._best(step)
        return best < latest[0] and all(self._beats(best, number) for number in latest)

    def _best(self, step: int) -> int:
        ahead = [number for number in self.errors if number < step and self._beats(number, step)]
        return min(ahead, key=lambda number: (statistics.fmean(self.errors[number]), number), default=step)

    def _beats(self, first: int, second: int) -> bool:
        return clearly_better(self.errors[first], self.errors[second])


def _read_record(path: Path) -> tuple[int, dict[int, list[float]]]:
    if not path.is_file():
        return 0, {}
    try:
        content = json.loads(path.read_text())
        errors = {int(step): [float(e) for e in values] for step, values in content["errors"].items()}
        return int(content["steps"]), errors
    except (ValueError, TypeError, KeyError, AttributeError):
        raise AttangentError(f"{path} was not written by `attangent tune`; use another folder.") from None


def step_of_part(part: int, steps: int) -> int:
    """Return the step at which `part` of the run's parts are done.

    Example:
        >>> [step_of_part(part, 50) for part in (1, 2, 8)]
        [6, 12, 50]
    """
    return max(steps * part // PARTS, min(part, steps))


def _score_parts(record: ValidationRecord, errors: Callable[[], list[float]]) -> Any:
    """Score after each part of a run, write a checkpoint, and stop the run when it is over."""

    def on_step_end(args: Any, state: Any, control: Any, **_: Any) -> None:
        step = state.global_step
        record.steps = state.max_steps
        if step in {step_of_part(part, state.max_steps) for part in range(1, PARTS + 1)}:
            record.add(step, errors())
            control.should_save = True
            control.should_training_stop = record.is_over(step)

    return trainer_callback(on_step_end=on_step_end)


def _stop_after(share: float) -> Any:
    """Stop a run after this fraction of its steps."""

    def on_step_end(args: Any, state: Any, control: Any, **_: Any) -> None:
        control.should_training_stop = state.global_step >= max(round(share * state.max_steps), 1)

    return trainer_callback(on_step_end=on_step_end)
