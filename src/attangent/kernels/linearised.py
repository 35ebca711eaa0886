"""Training of a module that is replaced by its tangent: the check on what a kernel predicts."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import jvp, vjp

from attangent._core.checks import check_positive, check_steps
from attangent._core.display import brief_fields
from attangent.kernels._inputs import as_targets
from attangent.kernels.functional import (
    Functional,
    Output,
    Parameters,
    Points,
    differentiable_attention,
)


@dataclass(frozen=True)
class LinearisedRun:
    """Gradient descent on 1/2 |F0 + J delta - Y|^2; entry t of `loss` belongs to t steps."""

    loss: Tensor
    change: Parameters
    """delta after the last step, by parameter."""
    function: Functional

    __repr__ = brief_fields

    def outputs(self, x: Points) -> Tensor:
        """F0(x) + J(x) delta (n, O) at any points."""
        self.function.check_points("x", x)
        with differentiable_attention():
            first, moved = _tangent_line(self.function, x, self.change)
            return first + moved


def train_linearised(
    module: nn.Module,
    x: Points,
    y: Any,
    rate: float,
    steps: int,
    params: str | Sequence[str] | None = None,
    output: Output | None = None,
) -> LinearisedRun:
    """Train the tangent of `module` at its present parameters, which stay as they are (a copy is used).

    Each step costs one product with J and one with J'; no kernel is built. The losses are those that
    `predict_training(tangent_kernel(module, x), F0 - y, rate)` foresees.
    """
    function = Functional.of(copy.deepcopy(module), params, output)
    function.check_points("x", x)
    check_positive("rate", rate)
    check_steps("steps", steps)
    with differentiable_attention():
        first, pull, *_ = vjp(lambda parameters: function.batch(parameters, x), function.parameters)
        target = as_targets(y, first, first.shape[1], first)
        change = {name: torch.zeros_like(value) for name, value in function.parameters.items()}
        losses = []
        for step in range(steps + 1):
            residual = first + _tangent_line(function, x, change)[1] - target
            losses.append(0.5 * residual.square().sum())
            if step < steps:
                (gradient,) = pull(residual)
                change = {name: change[name] - rate * gradient[name] for name in change}
    return LinearisedRun(torch.stack(losses).double(), change, function)


def _tangent_line(function: Functional, x: Points, change: Parameters) -> tuple[Tensor, Tensor]:
    """F0(x) and J(x) delta."""
    first, moved, *_ = jvp(
        lambda parameters: function.batch(parameters, x), (function.parameters,), (change,)
    )
    return first.detach(), moved.detach()
