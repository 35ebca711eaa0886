"""Gradient descent and Adam on any list of weights, with snapshots and early stopping."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from attangent._core.checks import check_positive, check_size, check_steps
from attangent._core.display import brief_fields
from attangent._core.errors import AttangentError
from attangent._core.progress import track

Weights = list[Tensor]


_HIGHEST_RATE = 1e6
"""Stable rates are of the size of 1; far above, weights stay finite while answers do not."""


class Trainer(Protocol):
    """A way to train: how many steps, and which optimiser for weights of this curvature and width."""

    @property
    def steps(self) -> int: ...
    @property
    def patience(self) -> int | None: ...
    @property
    def quiet(self) -> bool: ...
    def optimiser(self, weights: Weights, curvature: Callable[[], float], width: int) -> Any: ...


@dataclass(frozen=True)
class _Settings:
    steps: int = 300
    rate: float = 1.0
    patience: int | None = None
    """With validation data: stop after so many checkpoints without progress; None runs all steps."""
    quiet: bool = False

    def __post_init__(self) -> None:
        check_steps("steps", self.steps, least=1)
        if check_positive("rate", self.rate) > _HIGHEST_RATE:
            raise AttangentError(f"rate is {self.rate!r}, expected at most {_HIGHEST_RATE:g}")
        if self.patience is not None:
            check_size("patience", self.patience)


@dataclass(frozen=True)
class Descent(_Settings):
    """Gradient descent on 1/2 sum |F - y|^2 at the rate `rate` / lambda_max(J J'); stable below 2."""

    def optimiser(self, weights: Weights, curvature: Callable[[], float], width: int) -> Any:
        _check_weights(weights)
        return torch.optim.SGD(weights, lr=self.rate / curvature())


@dataclass(frozen=True)
class Adam(_Settings):
    """Adam on the same loss at the rate `rate` / width: outputs carry a factor m, so that rates must fall."""

    def optimiser(self, weights: Weights, curvature: Callable[[], float], width: int) -> Any:
        _check_weights(weights)
        check_size("width", width)
        return torch.optim.Adam(weights, lr=self.rate / width)


def _check_weights(weights: Weights) -> None:
    if not weights:
        raise AttangentError("weights is empty, expected at least one tensor to train")


def checkpoints(steps: int, count: int = 24) -> list[int]:
    """0, `steps` and about `count` steps between them, evenly spaced in their logarithm."""
    check_steps("steps", steps, least=1)
    check_size("count", count)
    spaced = torch.logspace(0, torch.log10(torch.tensor(float(steps))).item(), count, dtype=torch.float64)
    return sorted({0, steps, *(min(steps, round(step)) for step in spaced.tolist())})


@dataclass(frozen=True, eq=False)
class Course:
    """A training run: weights at its checkpoints, and which of them to use."""

    snapshots: dict[int, Weights]
    validation: dict[int, float]
    """The mean of |F - y|^2 over the validation labels; empty where there were none."""

    __repr__ = brief_fields

    @property
    def best_step(self) -> int:
        """The checkpoint with the least validation loss, the last one where nothing was validated."""
        if not self.validation:
            return max(self.snapshots)
        return min(self.validation, key=lambda step: self.validation[step])

    def weights(self, step: int) -> Weights:
        if step not in self.snapshots:
            raise AttangentError(
                f"step {step} was not kept, expected one of {', '.join(map(str, self.snapshots))}"
            )
        return self.snapshots[step]


def train(
    weights: Weights,
    gradients: Callable[[], Weights],
    optimiser: Any,
    trainer: Trainer,
    validate: Callable[[], float] | None = None,
    keep: Sequence[int] = (),
) -> Course:
    """Move `weights` in place by the gradients that `gradients()` finds in them.

    Weights that cease to be finite are refused: the rate was too high.
    """
    noted = set(checkpoints(trainer.steps)) | {step for step in keep if 0 <= step <= trainer.steps}
    course = Course({}, {})
    for step in track(range(trainer.steps + 1), "training", trainer.quiet):
        if step in noted:
            _note(course, step, weights, validate)
            if _stalled(course, step, trainer.patience):
                break
        if step < trainer.steps:
            for weight, gradient in zip(weights, gradients(), strict=True):
                weight.grad = gradient
            optimiser.step()
    return course


def _note(course: Course, step: int, weights: Weights, validate: Callable[[], float] | None) -> None:
    if not all(torch.isfinite(weight).all() for weight in weights):
        raise AttangentError(f"training diverged before step {step}: take a smaller rate")
    course.snapshots[step] = [weight.detach().clone() for weight in weights]
    if validate is not None:
        course.validation[step] = validate()


def _stalled(course: Course, step: int, patience: int | None) -> bool:
    """Whether `patience` checkpoints in a row, the last included, brought no progress."""
    if patience is None or not course.validation:
        return False
    since_best = [noted for noted in course.validation if noted > course.best_step]
    return len(since_best) >= patience
