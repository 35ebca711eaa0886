"""What rows kept apart say: which of two ways is clearly better, and how long to train.

A few dozen rows tell little. A way that is chosen for being ahead by chance does worse on new rows than the
usual one would, so that it has to be ahead by more than chance explains, and by enough to matter.
"""

import json
import math
import statistics
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from attangent._core.errors import AttangentError
from attangent._core.files import write_json
from attangent.tuning.processes import is_first_process

PARTS = 8
"""How often a run is scored on the rows kept apart."""
PATIENCE = 3
"""A run ends once an earlier part has been clearly better than each of the last so many."""
_FILE = "validation.json"
LEAST_GAIN = 0.01
"""What matters: one answer of a hundred, or a hundredth of the variance of numbers."""


def clearly_better(errors: Sequence[float], usual: Sequence[float]) -> bool:
    """Whether mean(u - e) > max(its standard error, LEAST_GAIN) over rows, with the errors e and the usual u.

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


class Record:
    """What each row kept apart got wrong, by step, kept in the run's folder. Step 0 is the start.

    What is written is the same however often the run was cut off, since a run that goes on repeats its steps
    to the digit.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.steps, self.errors = _read(folder / _FILE)

    def add(self, step: int, errors: list[float]) -> None:
        """Note the errors after this step."""
        lost = not all(map(math.isfinite, errors))
        self.errors[step] = [math.inf] * len(errors) if lost else errors
        if is_first_process():
            self.folder.mkdir(parents=True, exist_ok=True)
            written = {str(place): values for place, values in self.errors.items()}
            write_json(self.folder / _FILE, {"steps": self.steps, "errors": written})

    def mean(self, step: int) -> float:
        return statistics.fmean(self.errors[step])

    @property
    def last(self) -> int:
        return max(self.errors)

    @property
    def kept(self) -> int:
        """The step to stop at: the last, or the best of those that are clearly better than it."""
        return self._kept(self.last)

    def reached(self, part: int) -> bool:
        """Whether so many parts of the run are done."""
        return self.steps > 0 and step_of_part(part, self.steps) in self.errors

    def is_over(self, step: int) -> bool:
        """Whether the run ends at this step: by its length, for having done better before, or lost."""
        if step >= self.steps or math.isinf(self.mean(step)):
            return True
        latest = sorted(place for place in self.errors if place <= step)[-PATIENCE:]
        best = self._kept(step)
        return best < latest[0] and all(self._beats(best, place) for place in latest)

    def _kept(self, step: int) -> int:
        ahead = [place for place in self.errors if place < step and self._beats(place, step)]
        return min(ahead, key=lambda place: (self.mean(place), place)) if ahead else step

    def _beats(self, first: int, second: int) -> bool:
        return clearly_better(self.errors[first], self.errors[second])


def step_of_part(part: int, steps: int) -> int:
    """The step after which `part` of a run's parts are done.

    >>> [step_of_part(part, 50) for part in (1, 2, 8)]
    [6, 12, 50]
    """
    return max(steps * part // PARTS, min(part, steps))


def _read(path: Path) -> tuple[int, dict[int, list[float]]]:
    if not path.is_file():
        return 0, {}
    try:
        found = json.loads(path.read_text())
        errors = {int(step): [float(e) for e in values] for step, values in found["errors"].items()}
        return int(found["steps"]), errors
    except (ValueError, TypeError, KeyError, AttributeError):
        raise AttangentError(f"{path} is not a run's; start in another folder") from None


@cache
def _callback_class() -> type[Any]:
    from transformers import TrainerCallback

    class Guard(TrainerCallback):
        """Scores after each part of a run, writes a checkpoint there, and ends the run when it is time."""

        def __init__(self, record: Record, errors: Callable[[], list[float]], until: int):
            self.record, self.errors, self.until = record, errors, until

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            step, steps = state.global_step, state.max_steps
            self.record.steps = steps
            if step in {step_of_part(part, steps) for part in range(1, PARTS + 1)}:
                self.record.add(step, self.errors())
                control.should_save = True
                reached = step >= step_of_part(self.until, steps)
                control.should_training_stop = reached or self.record.is_over(step)

    return Guard


def guard(record: Record, errors: Callable[[], list[float]], until: int = PARTS) -> Any:
    """A callback for transformers' Trainer that keeps the record and ends the run after `until` parts."""
    return _callback_class()(record, errors, until)


@cache
def _halt_class() -> type[Any]:
    from transformers import TrainerCallback

    class Halt(TrainerCallback):
        def __init__(self, share: float):
            self.share = share

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            control.should_training_stop = state.global_step >= max(round(self.share * state.max_steps), 1)

    return Halt


def halt(share: float) -> Any:
    """A callback for transformers' Trainer that ends the run after this share of its steps."""
    return _halt_class()(share)
