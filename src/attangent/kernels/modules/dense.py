"""The dense tangent kernel of any torch module, by torch.func in chunks, and how far it moves in training."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from os import PathLike
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import jacrev

from attangent._core.checks import check_size
from attangent._core.display import brief, table_html
from attangent._core.errors import AttangentError
from attangent._core.modules import eval_mode
from attangent._core.plots import check_picture, finished, in_style, one_panel
from attangent.kernels.checks import DEFAULT_MEMORY_LIMIT, check_limit, refuse_above
from attangent.kernels.modules.functional import (
    Functional,
    Output,
    Parameters,
    Points,
    differentiable_attention,
    per_point,
    take,
)
from attangent.kernels.tangent import blocks

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from transformers import TrainerCallback


def tangent_kernel(
    module: nn.Module,
    x1: Points,
    x2: Points | None = None,
    params: str | Sequence[str] | None = None,
    trace: bool = False,
    memory_limit: float = DEFAULT_MEMORY_LIMIT,
    output: Output | None = None,
) -> Float[Tensor, "rows columns"]:
    """Compute J(x1) J(x2)', where J holds the derivative of every output in every parameter of a module.

    It predicts how the module learns (`predict_training`). O is the number of outputs per point. Rows and
    columns are in output-major order, as for the networks of this package and `predict_training`. Jacobians
    are computed for as many points at a time as `memory_limit` allows, and for fewer parameters at a time if
    the Jacobian of one point does not fit.

    Args:
        module: Any module whose outputs depend on each point alone.
        x1: Points: a tensor (n1, ...), or a mapping of argument names to such tensors.
        x2: Points of the columns (n2, ...); None for x1.
        params: Parameters by name pattern such as "*.attn.*"; by default all that are trainable.
        trace: Sum over equal outputs.
        memory_limit: Most bytes to take.
        output: Picks a tensor (n, ...) from the module's output; by default a tensor or the logits.

    Returns:
        The kernel (O n1, O n2), or (n1, n2) with `trace`.

    Raises:
        AttangentError: If the module cannot be called with the points, depends on chance (call `eval()`),
            or the kernel with one parameter's Jacobian does not fit into `memory_limit`.

    Example:
        >>> tangent_kernel(torch.nn.Linear(3, 2), torch.eye(3)).shape
        torch.Size([6, 6])
    """
    function = Functional.of(module, params, output)
    n1 = function.check_points("x1", x1)
    n2 = n1 if x2 is None else function.check_points("x2", x2)
    limit = check_limit(memory_limit)
    with differentiable_attention():
        outputs = function.batch(function.parameters, take(x1, slice(0, 1))).shape[1]
        plan = _Plan.of(function.parameters, outputs, (n1, n2), trace, limit)
        return _Kernel(function, plan, x1, x2).matrix()


@dataclass(frozen=True)
class _Plan:
    """Which parameters and how many points to differentiate at a time."""

    groups: list[list[str]]
    chunk: int
    outputs: int
    points: tuple[int, int]
    trace: bool
    dtype: torch.dtype

    @classmethod
    def of(
        cls, parameters: Parameters, outputs: int, points: tuple[int, int], trace: bool, limit: float
    ) -> "_Plan":
        dtype = _result_type(parameters)
        n1, n2 = points
        result = dtype.itemsize * n1 * n2 * (1 if trace else outputs**2)
        per_weight = 2 * outputs * dtype.itemsize  # one point's Jacobian on either side, for one weight
        largest = max(value.numel() for value in parameters.values())
        refuse_above(
            limit,
            result + per_weight * largest,
            f"a kernel of {n1} x {n2} points with {outputs} outputs and a parameter of {largest} weights",
            "choose parameters with params=, outputs with output=, or take fewer points",
        )
        # What the result leaves is for Jacobians: first as many parameters, then as many points as fit.
        room = (limit - result) / per_weight
        groups = _packed({name: value.numel() for name, value in parameters.items()}, room)
        weights = max(sum(parameters[name].numel() for name in group) for group in groups)
        chunk = max(1, min(max(points), int(room // weights)))
        return cls(groups, chunk, outputs, points, trace, dtype)


def _result_type(parameters: Parameters) -> torch.dtype:
    """Return the widest dtype of the parameters, at least float32."""
    return reduce(torch.promote_types, (value.dtype for value in parameters.values()), torch.float32)


def _packed(sizes: dict[str, int], room: float) -> list[list[str]]:
    """Group names, in their order, into groups of at most `room` weights."""
    groups: list[list[str]] = [[]]
    filled = 0
    for name, size in sizes.items():
        if groups[-1] and filled + size > room:
            groups.append([])
            filled = 0
        groups[-1].append(name)
        filled += size
    return groups


@dataclass(frozen=True)
class _Kernel:
    function: Functional
    plan: _Plan
    x1: Points
    x2: Points | None

    def matrix(self) -> Tensor:
        n1, n2 = self.plan.points
        outputs = 1 if self.plan.trace else self.plan.outputs
        device = next(iter(self.function.parameters.values())).device
        kernel = torch.zeros(outputs, n1, outputs, n2, dtype=self.plan.dtype, device=device)
        for group in self.plan.groups:
            parameters = {name: self.function.parameters[name] for name in group}
            for i in blocks(n1, self.plan.chunk):
                self._add_rows(kernel, parameters, i)
        return kernel.flatten(2).flatten(0, 1)

    def _add_rows(self, kernel: Tensor, parameters: Parameters, i: slice) -> None:
        """Add what these parameters contribute to the rows of points i and, by symmetry, to their columns."""
        J1 = self._jacobians(parameters, take(self.x1, i))
        other = self.x1 if self.x2 is None else self.x2
        for j in blocks(self.plan.points[1], self.plan.chunk):
            # A symmetric kernel needs the blocks on and above the diagonal only.
            if self.x2 is None and j.start < i.start:
                continue
            # The diagonal block reuses J1; any other costs a second set of Jacobians.
            same = self.x2 is None and i == j
            block = self._product(J1, J1 if same else self._jacobians(parameters, take(other, j)))
            kernel[:, i, :, j] += block
            if self.x2 is None and not same:
                kernel[:, j, :, i] += block.permute(2, 3, 0, 1)

    def _product(self, J1: list[Tensor], J2: list[Tensor]) -> Tensor:
        """Sum J1 J2' over parameters (O, n1, O, n2); the trace has one output."""
        if self.plan.trace:
            traced = sum(left.flatten(1) @ right.flatten(1).T for left, right in zip(J1, J2, strict=True))
            return torch.as_tensor(traced)[None, :, None, :]
        full = sum(left.flatten(0, 1) @ right.flatten(0, 1).T for left, right in zip(J1, J2, strict=True))
        shape = (len(J1[0]), self.plan.outputs, len(J2[0]), self.plan.outputs)
        return torch.as_tensor(full).view(shape).permute(1, 0, 3, 2)

    def _jacobians(self, parameters: Parameters, x: Points) -> list[Tensor]:
        """Compute dF/dtheta at the points, one tensor (n, O, weights) per parameter."""
        by_name = per_point(jacrev(self.function.at_point), parameters, x)
        return [by_name[name].detach().flatten(2).to(self.plan.dtype) for name in parameters]


class KernelDrift:
    """|K(t) - K(0)|_F / |K(0)|_F of a model at fixed points during training.

    K is the kernel summed over outputs (`tangent_kernel(trace=True)`).

    Args:
        points: Points, as in `tangent_kernel`.
        params: Parameters by name pattern; by default all that are trainable.
        output: Picks a tensor (n, ...) from the model's output; by default a tensor or the logits.

    Example:
        >>> layer = torch.nn.Linear(2, 1)
        >>> drift = KernelDrift(torch.eye(2))
        >>> drift.read(layer, 0), drift.read(layer, 1)  # the kernel of a linear model is constant
        (0.0, 0.0)
    """

    def __init__(
        self, points: Points, params: str | Sequence[str] | None = None, output: Output | None = None
    ):
        self.points = points
        self.params = params
        self.output = output
        self.first: Tensor | None = None
        self.steps: list[int] = []
        self.values: list[float] = []

    def read(self, model: nn.Module, step: int) -> float:
        """Measure the drift since the first reading, in eval mode.

        Args:
            model: The model; its training mode is restored.
            step: The training step.

        Returns:
            The relative change of the kernel, 0 at the first reading.

        Raises:
            AttangentError: If the kernel is zero or not finite.
        """
        kernel = self._kernel(model)
        self.first = kernel if self.first is None else self.first
        value = float((kernel - self.first).norm() / self.first.norm())
        self.steps.append(step)
        self.values.append(value)
        return value

    def _kernel(self, model: nn.Module) -> Tensor:
        with eval_mode(model):
            kernel = tangent_kernel(model, self.points, params=self.params, trace=True, output=self.output)
        if not torch.isfinite(kernel).all() or not kernel.any():
            raise AttangentError(
                "the kernel is zero or not finite: choose other points, or parameters that affect the output"
            )
        return kernel.detach().double().cpu()

    def __repr__(self) -> str:
        last = self.values[-1] if self.values else None
        return brief(self, readings=len(self.values), last=last)

    def _repr_html_(self) -> str:
        rows = list(zip(self.steps, self.values, strict=True))
        note = "0 means that the kernel, and what it predicts, has not changed"
        return table_html("Drift of the kernel", ("step", "relative change"), rows, [note])

    @in_style
    def plot(self, path: str | PathLike[str] | None = None) -> "Figure":
        """Draw the drift over the steps.

        Args:
            path: File to write the figure to (.png, .svg or .pdf).

        Returns:
            The figure.

        Raises:
            AttangentError: If nothing was read yet.
        """
        if not self.values:
            raise AttangentError("there are no readings yet: train with the callback, or call read")
        figure, axes = one_panel()
        axes.plot(self.steps, self.values, "o-")
        axes.set(xlabel="step", ylabel="relative change", title="Drift of the tangent kernel", ylim=(0, None))
        return finished(figure, path)


def drift_callback(
    drift: KernelDrift,
    every: int = 50,
    plot: str | PathLike[str] | None = None,
    say: Callable[[str], None] = print,
) -> "TrainerCallback":
    """Return a callback for `transformers.Trainer(callbacks=[...])` that measures the drift.

    Args:
        drift: Where to record the readings.
        every: Steps between readings.
        plot: File for a figure at the end of training (.png, .svg or .pdf).
        say: Prints one line at the end of training.

    Returns:
        The callback.

    Raises:
        AttangentError: If `every` is below 1 or `plot` has another ending.

    Example:
        >>> callback = drift_callback(KernelDrift(torch.eye(2)), every=100)
    """
    check_size("every", every)
    if plot is not None:
        check_picture(plot)
    from transformers import TrainerCallback

    class DriftCallback(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **values: Any) -> None:
            drift.read(values["model"], state.global_step)

        def on_step_end(self, args: Any, state: Any, control: Any, **values: Any) -> None:
            if state.global_step % every == 0:
                drift.read(values["model"], state.global_step)

        def on_train_end(self, args: Any, state: Any, control: Any, **values: Any) -> None:
            if drift.steps[-1] != state.global_step:
                drift.read(values["model"], state.global_step)
            if state.is_world_process_zero:
                say(f"the tangent kernel moved by {drift.values[-1]:.1%} in {state.global_step} steps")
                if plot is not None:
                    drift.plot(plot)

    return DriftCallback()
