"""Measure how far the tangent kernel moves in training: predictions hold as long as it barely does."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from attangent._core.checks import check_size
from attangent._core.display import brief, table_html
from attangent._core.errors import AttangentError
from attangent._core.plots import check_picture, finished, in_style, one_panel
from attangent.kernels.modules.dense import tangent_kernel
from attangent.kernels.modules.functional import Output, Points

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from transformers import TrainerCallback


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
        # Remember the mode of every module: a frozen part may be in eval mode during training.
        training = [module for module in model.modules() if module.training]
        model.eval()
        try:
            kernel = tangent_kernel(model, self.points, params=self.params, trace=True, output=self.output)
        finally:
            for module in training:
                module.training = True
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
