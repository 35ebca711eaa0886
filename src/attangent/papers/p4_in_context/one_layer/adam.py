"""Adam, on the population loss or on sampled prompts as the paper's experiments do it (Section 4)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from attangent._core.checks import check_not_negative, check_positive, check_size, check_steps
from attangent._core.progress import Bars
from attangent._core.random import generator
from attangent.icl.tasks import IN_DOMAIN, Tasks
from attangent.papers.p4_in_context.one_layer.training import Recorder, Training, Watch, show_gap

if TYPE_CHECKING:
    from attangent.papers.p4_in_context.one_layer.attention import OneLayerAttention

Gradients = Callable[[], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Adam:
    """Adam with exact gradients. `prompts` is the size of a fixed pool of prompts, drawn once and passed
    through in batches; None means the population loss. The gap and what is watched are noted every
    `record_every` steps.
    """

    steps: int = 1000
    rate: float = 1e-2
    prompts: int | None = None
    batch: int = 256
    tasks: Tasks = IN_DOMAIN
    target: float = 0.0
    patience: int | None = None
    record_every: int = 10
    watch: Watch = field(default_factory=dict)
    seed: int = 0
    quiet: bool = False

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "record_every"):
            check_steps(name, getattr(self, name), least=1)
        check_positive("rate", self.rate)
        check_not_negative("target", self.target)
        if self.prompts is not None:
            check_size("prompts", self.prompts)

    def train(self, model: "OneLayerAttention") -> Training:
        gradients = self._gradients(model)
        optimizer = torch.optim.Adam([model.Q, model.w], lr=self.rate)
        recorder = Recorder("adam", self.target, self.patience, self.watch)
        with Bars(self.quiet) as bars:
            for step in range(self.steps + 1):
                noted = step % self.record_every == 0 or step == self.steps
                if (noted and recorder.note(step, model.gap(), model)) or step == self.steps:
                    break
                model.Q.grad, model.w.grad = gradients()
                optimizer.step()
                show_gap(bars, "adam", step + 1, self.steps, recorder.last)
        model.Q.grad = model.w.grad = None
        return recorder.result()

    def _gradients(self, model: "OneLayerAttention") -> Gradients:
        if self.prompts is None:
            return model.gradient
        rng = generator(self.seed, "icl training prompts")
        batches = _batches(model.dictionary.draw(self.prompts, self.tasks, rng).labels, self.batch, rng)
        return lambda: model.sampled_gradient(next(batches))


def _batches(labels: Tensor, size: int, rng: torch.Generator) -> Iterator[Tensor]:
    """The rows in batches, in a new order at every pass."""
    while True:
        for rows in torch.randperm(len(labels), generator=rng).split(size):
            yield labels[rows]
