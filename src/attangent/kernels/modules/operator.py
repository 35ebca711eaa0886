"""The tangent of any torch module without its kernel: J J' as an operator, and training of F0 + J delta."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator
from torch import Tensor, nn
from torch.func import jvp, vjp

from attangent._core.checks import check_positive, check_size, check_steps
from attangent._core.display import brief_fields
from attangent.kernels.checks import as_targets
from attangent.kernels.modules.functional import (
    Functional,
    Output,
    Parameters,
    Points,
    differentiable_attention,
    take,
)
from attangent.kernels.tangent import blocks

Vector = NDArray[Any]


def tangent_operator(
    module: nn.Module,
    x: Points,
    params: str | Sequence[str] | None = None,
    output: Output | None = None,
    batch: int = 64,
) -> "TangentOperator":
    """Return K = J J', J = dF/dtheta of a module with O outputs at n points, without building K.

    The module may be any that autograd can differentiate twice: a transformers model with an adapter, a peft
    LoRA, a classifier. Rows are in output-major order.

    Args:
        module: Any module whose outputs depend on each point alone.
        x: Points: a tensor (n, ...), or a mapping of argument names to such tensors.
        params: Parameters by name pattern such as "*.attn.*"; by default all that are trainable.
        output: Picks a tensor (n, ...) from the module's output; by default a tensor or the logits.
        batch: Points to differentiate at a time. If it covers all points, their graph is stored between
            products, which halves the time of each.

    Returns:
        A square scipy LinearOperator of size O n.

    Raises:
        AttangentError: If the module cannot be called with x, or depends on chance (call `eval()`).

    Example:
        >>> from attangent.kernels import tangent_kernel
        >>> network = torch.nn.Linear(3, 2)
        >>> K = tangent_operator(network, torch.eye(3))
        >>> torch.allclose(torch.as_tensor(K @ np.eye(6)), tangent_kernel(network, torch.eye(3)).double())
        True
    """
    function = Functional.of(module, params, output)
    count = function.check_points("x", x)
    check_size("batch", batch)
    with differentiable_attention(), torch.no_grad():
        outputs = function.batch(function.parameters, take(x, slice(0, 1))).shape[1]
    return TangentOperator(function, x, count, outputs, batch)


class TangentOperator(LinearOperator):
    """K v = J (J'v), streamed over batches of points; `tangent_operator` makes one.

    Args:
        function: The module as a function of its parameters.
        x: Points.
        count: Number of points n.
        outputs: Outputs per point O.
        batch: Points to differentiate at a time.

    Example:
        >>> tangent_operator(torch.nn.Linear(3, 2), torch.eye(3)).shape
        (6, 6)
    """

    def __init__(self, function: Functional, x: Points, count: int, outputs: int, batch: int):
        self.function = function
        self.x = x
        self.batch = batch
        self.points = count
        self.outputs = outputs
        self._held: _Line | None = None
        super().__init__(np.dtype(np.float64), (outputs * count, outputs * count))

    def _matvec(self, x: Vector) -> Vector:
        columns = torch.as_tensor(np.ascontiguousarray(x, dtype=np.float64)).reshape(
            self.outputs, self.points
        )
        with differentiable_attention():
            return self._times(columns.T).T.reshape(-1).numpy()

    def _rmatvec(self, x: Vector) -> Vector:
        return self._matvec(x)

    def _times(self, cotangent: Tensor) -> Tensor:
        """Apply J J' to (n, O)."""
        gradient: tuple[Tensor, ...] | None = None
        for points, line in self._lines():
            pulled = line.pulled(cotangent[points])
            gradient = pulled if gradient is None else tuple(map(torch.add, gradient, pulled))
        assert gradient is not None
        return torch.cat([line.pushed(gradient).double().cpu() for _, line in self._lines()])

    def _lines(self) -> Iterator[tuple[slice, "_Line"]]:
        for points in blocks(self.points, self.batch):
            yield points, self._line(points)

    def _line(self, points: slice) -> "_Line":
        # With several batches the graphs of all would fill the memory that streaming saves.
        if self.points > self.batch:
            return _Line.of(self.function, take(self.x, points))
        if self._held is None:
            self._held = _Line.of(self.function, self.x)
        return self._held


@dataclass
class _Line:
    """F at some points with its graph: J'v by one backward pass, J u by a backward pass through that one."""

    outputs: Tensor
    parameters: tuple[Tensor, ...]
    _pullback: tuple[Tensor, tuple[Tensor, ...]] | None = None

    @classmethod
    def of(cls, function: Functional, x: Points) -> "_Line":
        parameters = {name: value.detach().requires_grad_() for name, value in function.parameters.items()}
        with torch.enable_grad():
            return cls(function.batch(parameters, x), tuple(parameters.values()))

    def pulled(self, cotangent: Tensor) -> tuple[Tensor, ...]:
        """Compute J'v for v (n, O)."""
        return torch.autograd.grad(
            self.outputs,
            self.parameters,
            cotangent.to(self.outputs),
            retain_graph=True,  # `pushed` and the next product need it again
            materialize_grads=True,
        )

    def pushed(self, tangent: tuple[Tensor, ...]) -> Tensor:
        """Compute J u (n, O) for a tangent u of the parameters."""
        # J'v is linear in v, so that the derivative of <J'v, u> in v is J u, whatever v. Double backward
        # works for operators that have no forward mode.
        if self._pullback is None:
            # Built once per batch: later products reuse the graph of the first backward pass.
            v = torch.zeros_like(self.outputs).requires_grad_()
            options: dict[str, Any] = {"create_graph": True, "materialize_grads": True}
            self._pullback = v, torch.autograd.grad(self.outputs, self.parameters, v, **options)
        v, pulled = self._pullback
        return torch.autograd.grad(pulled, v, tangent, retain_graph=True, materialize_grads=True)[0].detach()


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
