"""Gradient descent and Adam on any list of weights, with checkpoints and the choice of the best one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attangent._core.checks import check_positive, check_size, check_steps
from attangent._core.errors import AttangentError


@dataclass(frozen=True)
class _TrainingSteps:
    steps: int = 300
    rate: float = 1.0

    def __post_init__(self) -> None:
        check_steps("steps", self.steps, least=1)
        check_positive("rate", self.rate)


@dataclass(frozen=True)
class Descent(_TrainingSteps):
    """Gradient descent on 1/2 sum |F - y|^2 at the learning rate `rate` / lambda_max(J J'), stable below 2.

    Args:
        steps: How many steps to take.
        rate: The learning rate in units of 1 / lambda_max.
    """

    def optimiser(
        self, weights: list[Tensor], curvature: Callable[[], float], width: int
    ) -> torch.optim.Optimizer:
        """Return SGD for weights of this curvature."""
        return torch.optim.SGD(weights, lr=self.rate / curvature())


@dataclass(frozen=True)
class AdamDescent(_TrainingSteps):
    """Adam on the same loss at the learning rate `rate` / width.

    Args:
        steps: How many steps to take.
        rate: The learning rate times the width; outputs carry a factor m, so rates must fall with it.
    """

    def optimiser(
        self, weights: list[Tensor], curvature: Callable[[], float], width: int
    ) -> torch.optim.Optimizer:
        """Return Adam for weights of a network of this width."""
        return torch.optim.Adam(weights, lr=self.rate / width)


def checkpoints(steps: int, count: int = 24) -> list[int]:
    """Return 0, `steps` and about `count` steps between them, evenly spaced in their logarithm.

    Args:
        steps: The last step.
        count: How many steps to place, before duplicates are dropped.

    Returns:
        Increasing steps.

    Example:
        >>> checkpoints(100, 3)
        [0, 1, 10, 100]
    """
    check_steps("steps", steps, least=1)
    check_size("count", count)
    spaced = torch.logspace(0, torch.log10(torch.tensor(float(steps))).item(), count, dtype=torch.float64)
    return sorted({0, steps, *(min(steps, round(step)) for step in spaced.tolist())})


@dataclass(frozen=True, eq=False)
class TrainingHistory:
    """A training run: the weights at its checkpoints, and which of them to use.

    Attributes:
        snapshots: The weights by step.
        validation: The mean of |F - y|^2 over the validation labels by step; empty without validation data.
    """

    snapshots: dict[int, list[Tensor]]
    validation: dict[int, float]

    @property
    def best_step(self) -> int:
        """The checkpoint with the smallest validation loss, or the last one without validation data."""
        if not self.validation:
            return max(self.snapshots)
        return min(self.validation, key=lambda step: self.validation[step])

    def weights(self, step: int) -> list[Tensor]:
        """Return the weights at a checkpoint."""
        if step not in self.snapshots:
            steps = ", ".join(map(str, self.snapshots))
            raise AttangentError(f"step {step} is not a checkpoint; expected one of {steps}")
        return self.snapshots[step]


def train(
    weights: list[Tensor],
    gradients: Callable[[], list[Tensor]],
    optimiser: torch.optim.Optimizer,
    steps: int,
    validate: Callable[[], float] | None = None,
    keep: Sequence[int] = (),
) -> TrainingHistory:
    """Move `weights` in place along `gradients()`; record them at checkpoints and the steps in `keep`."""
    recorded = {*checkpoints(steps), *keep}
    history = TrainingHistory({}, {})
    for step in range(steps + 1):
        if step in recorded:
            _record(history, step, weights, validate)
        if step < steps:
            for weight, gradient in zip(weights, gradients(), strict=True):
                weight.grad = gradient
            optimiser.step()
    return history


def _record(
    history: TrainingHistory, step: int, weights: list[Tensor], validate: Callable[[], float] | None
) -> None:
    if not all(torch.isfinite(weight).all() for weight in weights):
        raise AttangentError(f"training diverged before step {step}; use a smaller rate")
    history.snapshots[step] = [weight.detach().clone() for weight in weights]
    if validate is not None:
        history.validation[step] = validate()
