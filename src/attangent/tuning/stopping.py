"""Early stopping: the loss on rows kept apart after each eighth of a run, and the weights of the least."""

import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from torch import Tensor

from attangent._errors import AttangentError
from attangent._files import write_json, writing
from attangent.tuning.checkpoints import put_tensors, trained_tensors
from attangent.tuning.processes import is_first_process

PARTS = 8
"""How often a run is scored on the rows kept apart."""
PATIENCE = 3
"""A run ends after so many scores without a new least loss."""
_LOSSES, _BEST = "validation.json", "best.safetensors"


class Record:
    """The losses of one run by step, kept in its folder, with the weights of the least.

    Step 0 is the start. What is written is the same however often the run was cut off, since a run that goes
    on repeats its steps to the digit.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.steps, self.losses = _read(folder / _LOSSES)

    def add(self, step: int, loss: float, model: Any) -> None:
        """Note the loss after this step; the weights too where it is the least so far."""
        loss = loss if math.isfinite(loss) else math.inf
        least = all(loss < other for place, other in self.losses.items() if place < step)
        self.losses[step] = loss
        if is_first_process():
            self.folder.mkdir(parents=True, exist_ok=True)
            if least and step > 0:
                _save(trained_tensors(model), self.folder / _BEST)
            losses = {str(place): value for place, value in self.losses.items()}
            write_json(self.folder / _LOSSES, {"steps": self.steps, "losses": losses})

    @property
    def best(self) -> int:
        """The step of least loss, the first of several."""
        return min(self.losses, key=lambda step: (self.losses[step], step))

    @property
    def last(self) -> int:
        return max(self.losses)

    def reached(self, part: int) -> bool:
        """Whether so many parts of the run are done."""
        return self.steps > 0 and step_of_part(part, self.steps) in self.losses

    def is_over(self, step: int) -> bool:
        """Whether the run ends at this step: by its length, for want of a new least loss, or lost."""
        seen = sorted(place for place in self.losses if place <= step)
        best = min(seen, key=lambda place: (self.losses[place], place))
        idle = len(seen) - 1 - seen.index(best)
        return step >= self.steps or idle >= PATIENCE or math.isinf(self.losses[seen[-1]])

    def put_best(self, model: Any, start: dict[str, Tensor]) -> None:
        """Give the model the weights of least loss, which may be those of the start."""
        from safetensors.torch import load_file

        put_tensors(model, load_file(self.folder / _BEST) if self.best > 0 else start)


def step_of_part(part: int, steps: int) -> int:
    """The step after which `part` of a run's parts are done.

    >>> [step_of_part(part, 50) for part in (1, 2, 8)]
    [6, 12, 50]
    """
    return max(steps * part // PARTS, min(part, steps))


def _read(path: Path) -> tuple[int, dict[int, float]]:
    if not path.is_file():
        return 0, {}
    try:
        found = json.loads(path.read_text())
        return int(found["steps"]), {int(step): float(loss) for step, loss in found["losses"].items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        raise AttangentError(f"{path} is not a run's; start in another folder") from None


def _save(tensors: dict[str, Tensor], path: Path) -> None:
    from safetensors.torch import save_file

    with writing(path) as unfinished:
        save_file(tensors, unfinished)


@cache
def _callback_class() -> type[Any]:
    from transformers import TrainerCallback

    class Guard(TrainerCallback):
        """Scores after each part of a run, writes a checkpoint there, and ends the run when it is time."""

        def __init__(self, record: Record, loss: Callable[[], float], until: int):
            self.record, self.loss, self.until = record, loss, until

        def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            step, steps = state.global_step, state.max_steps
            self.record.steps = steps
            if step in {step_of_part(part, steps) for part in range(1, PARTS + 1)}:
                self.record.add(step, self.loss(), model)
                control.should_save = True
                reached = step >= step_of_part(self.until, steps)
                control.should_training_stop = reached or self.record.is_over(step)

    return Guard


def guard(record: Record, loss: Callable[[], float], until: int = PARTS) -> Any:
    """A callback for transformers' Trainer that keeps the record and ends the run after `until` parts."""
    return _callback_class()(record, loss, until)
