"""How far the tangent kernel of a model moves in training: small where a prediction from the start holds."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from attangent._core.checks import check_size
from attangent._core.display import brief, table_html
from attangent._core.errors import AttangentError
from attangent._core.plots import check_picture, finished, in_style, one_panel
from attangent.kernels.functional import Output, Points
from attangent.kernels.module_kernel import tangent_kernel

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from transformers import TrainerCallback


class KernelDrift:
    """|K(t) - K(0)|_F / |K(0)|_F of a model on fixed points, read as training goes on.

    K is the kernel summed over outputs (`tangent_kernel(trace=True)`), of the parameters that `params` names.

    >>> layer = torch.nn.Linear(2, 1)
    >>> drift = KernelDrift(torch.eye(2))
    >>> drift.read(layer, 0), drift.read(layer, 1)  # a linear model's kernel stays as it is
    (0.0, 0.0)
    """

    def __init__(
        self, points: Points, params: str | Sequence[str] | None = None, output: Output | None = None
    ):
        self.points, self.params, self.output = points, params, output
        self.first: Tensor | None = None
        self.steps: list[int] = []
        self.values: list[float] = []

    def read(self, model: nn.Module, step: int) -> float:
        """Measure at this step, in eval mode; the first reading is the kernel that later ones are held to."""
        kernel = self._kernel(model)
        self.first = kernel if self.first is None else self.first
        value = float((kernel - self.first).norm() / self.first.norm())
        self.steps.append(step)
        self.values.append(value)
        return value

    def _kernel(self, model: nn.Module) -> Tensor:
        training = [module for module in model.modules() if module.training]
        model.eval()
        try:
            found = tangent_kernel(model, self.points, params=self.params, trace=True, output=self.output)
        finally:
            for module in training:
                module.training = True
        if not torch.isfinite(found).all() or not found.any():
            raise AttangentError(
                "the kernel is zero or not finite: name other points, or parameters that count"
            )
        return found.detach().double().cpu()

    def __repr__(self) -> str:
        last = self.values[-1] if self.values else None
        return brief(self, readings=len(self.values), last=last)

    def _repr_html_(self) -> str:
        rows = list(zip(self.steps, self.values, strict=True))
        note = "0: the kernel is that of the start, and so is what it predicts"
        return table_html("Drift of the kernel", ("step", "relative change"), rows, [note])

    @in_style
    def plot(self, path: str | PathLike[str] | None = None) -> "Figure":
        """Draw the drift over the steps; also to a file, where one is named."""
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
    """A callback for `transformers.Trainer(callbacks=[...])` that reads the drift every so many steps.

    A line at the end says how far the kernel moved; `plot` names the file of a picture.
    """
    check_size("every", every)
    if plot is not None:
        check_picture(plot)
    from transformers import TrainerCallback

    class DriftCallback(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            drift.read(given["model"], state.global_step)

        def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            if state.global_step % every == 0:
                drift.read(given["model"], state.global_step)

        def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            if drift.steps[-1] != state.global_step:
                drift.read(given["model"], state.global_step)
            if state.is_world_process_zero:
                say(f"the tangent kernel moved by {drift.values[-1]:.1%} in {state.global_step} steps")
                if plot is not None:
                    drift.plot(plot)

    return DriftCallback()
