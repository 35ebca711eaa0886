"""Stages of a Hugging Face training run: a callback that reads losses, names stages, and draws them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from attangent._core.errors import AttangentError
from attangent._core.plots import check_picture
from attangent.stages.detector.detector import StageDetector
from attangent.stages.detector.plots import plot_stages

if TYPE_CHECKING:
    from transformers import TrainerCallback

Losses = Callable[[nn.Module], Mapping[str, float]]


def stage_callback(
    detector: StageDetector,
    losses: Losses,
    every: int = 50,
    plot: str | Path | None = None,
    say: Callable[[str], None] = print,
) -> "TrainerCallback":
    """A callback for `transformers.Trainer(callbacks=[...])` that feeds the detector every so many steps.

    `losses(model)` returns the loss of each group; it is called in eval mode without gradients. Onsets and
    completions are said as they are found, a summary at the end; `plot` names the file of a picture.
    """
    if every < 1:
        raise AttangentError(f"every is {every}, expected at least 1 step")
    if plot is not None:
        check_picture(plot)
    from transformers import TrainerCallback

    class StageCallback(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            read(state, given["model"])

        def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            if state.global_step % every == 0:
                read(state, given["model"])

        def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            if state.is_world_process_zero:
                say(detector.summary())
                if plot is not None:
                    plot_stages(detector, plot)

    def read(state: Any, model: nn.Module) -> None:
        for event in detector.update(state.global_step, _read(model, losses)):
            if state.is_world_process_zero:
                say(str(event))

    return StageCallback()


def _read(model: nn.Module, losses: Losses) -> Mapping[str, float]:
    """The losses in eval mode; the modules' own modes come back."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.no_grad():
            return losses(model)
    finally:
        for module in training:
            module.training = True
