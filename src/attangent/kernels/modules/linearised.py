"""Train the tangent of a module, to check what a kernel predicts."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import jvp, vjp

from attangent._core.checks import check_positive, check_steps
from attangent._core.display import brief_fields
from attangent.kernels.checks import as_targets
from attangent.kernels.modules.functional import (
    Functional,
    Output,
    Parameters,
    Points,
    differentiable_attention,
)


@dataclass(frozen=True)
class LinearisedRun:
    """Gradient descent on 1/2 |F0 + J delta - Y|^2.

    Attributes:
        loss: Loss after 0, 1, ... steps (steps + 1,).
        change: delta after the last step, by parameter.
        function: The module as a function of its parameters.

    Example:
        >>> run = train_linearised(nn.Linear(2, 1), torch.eye(2), torch.ones(2, 1), rate=0.1, steps=3)
        >>> run.loss.shape, run.outputs(torch.ones(5, 2)).shape
        (torch.Size([4]), torch.Size([5, 1]))
    """

    loss: Float[Tensor, " times"]
    change: Parameters
    function: Functional

    __repr__ = brief_fields

    def outputs(self, x: Points) -> Float[Tensor, "n O"]:
        """Compute F0(x) + J(x) delta.

        Args:
            x: Points, as in `tangent_kernel`.

        Returns:
            Outputs (n, O).
        """
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
    """Train F0 + J delta, the tangent of `module` at its present parameters, by gradient descent.

    Each step costs one product with J and one with J'; no kernel is built. The losses equal those of
    `predict_training(tangent_kernel(module, x), F0 - y, rate)`.

    Args:
        module: Any module; it is copied and stays unchanged.
        x: Points, as in `tangent_kernel`.
        y: Targets (n, O).
        rate: Learning rate.
        steps: Number of steps.
        params: Parameters by name pattern; by default all that are trainable.
        output: Picks a tensor (n, ...) from the module's output; by default a tensor or the logits.

    Returns:
        Losses and the final change of the parameters.

    Raises:
        AttangentError: If the module cannot be called with x, or y does not fit its outputs.

    Example:
        >>> run = train_linearised(nn.Linear(2, 1), torch.eye(2), torch.ones(2, 1), rate=0.1, steps=3)
        >>> bool(run.loss[-1] < run.loss[0])
        True
    """
    function = Functional.of(copy.deepcopy(module), params, output)
    function.check_points("x", x)
    check_positive("rate", rate)
    check_steps("steps", steps)
    with differentiable_attention():
        # vjp keeps the graph of one forward pass; J' is then applied in every step without another.
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
    """Compute F0(x) and J(x) delta."""
    first, moved, *_ = jvp(
        lambda parameters: function.batch(parameters, x), (function.parameters,), (change,)
    )
    return first.detach(), moved.detach()
