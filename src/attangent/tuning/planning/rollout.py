"""Training runs carried out on tangents: AdamW in the model's own parameters, by small products."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attangent.kernels.modules import Optimiser
from attangent.kernels.modules.optimiser import OptimiserState
from attangent.tuning.encoding import token_counts
from attangent.tuning.order import SeededOrder
from attangent.tuning.planning.dropout import Noise
from attangent.tuning.planning.objective import Objective
from attangent.tuning.planning.tangents import Tangent
from attangent.tuning.trainer import optimiser
from attangent.tuning.training import Training

_CLIP = 1.0
"""The norm at which transformers' Trainer clips gradients by default."""


@dataclass(frozen=True)
class Course:
    """What is the same for all rates: the optimiser with its schedule, and the rows of each step."""

    optimiser: Optimiser
    batches: list[list[int]]
    epoch_of: list[int]
    epochs: float
    seed: int = 0

    @classmethod
    def of(cls, rows: Any, training: Training) -> "Course":
        """The steps that `tune` would take with this training, in the order of its seed."""
        per_step = training.batch * training.accumulate
        in_epoch = math.ceil(math.ceil(len(rows) / training.batch) / training.accumulate)
        steps = math.ceil(training.epochs * in_epoch)
        lengths = token_counts(rows) if training.by_length else None
        order = SeededOrder(len(rows), training.seed, lengths, per_step)
        batches: list[list[int]] = []
        epoch_of: list[int] = []
        for epoch in range(math.ceil(training.epochs)):
            order.set_epoch(epoch)
            places = list(order)
            cut = [places[i : i + per_step] for i in range(0, len(places), per_step)]
            batches += cut
            epoch_of += [epoch] * len(cut)
        settings = Optimiser(steps, weight_decay=training.weight_decay, warmup=training.warmup, clip=_CLIP)
        return cls(settings, batches[:steps], epoch_of[:steps], training.epochs, training.seed)

    @property
    def steps(self) -> int:
        return self.optimiser.steps

    def milestones(self, count: int) -> list[int]:
        """Steps that part the way of the rate, sum of its factors, into `count` + 1 like pieces."""
        parts = torch.arange(1, count + 1) / (count + 1)
        return (torch.searchsorted(self.way, parts) + 1).tolist()

    @property
    def way(self) -> Tensor:
        """The share of the whole way, sum of the rate's factors, that is done after each step (steps)."""
        done = torch.tensor([self.optimiser.factor(step) for step in range(self.steps)]).cumsum(0)
        return done / done[-1].clamp(min=1e-12)


def rates_by_weight(
    model: torch.nn.Module, rates: list[float], training: Training, scale: Callable[[str], float]
) -> Tensor:
    """The rate of each weight (R, P) in the optimiser that `tune` makes, for each rate of the method."""
    chosen = [parameter for parameter in model.parameters() if parameter.requires_grad]
    rows = []
    for rate in rates:
        groups = optimiser(model, rate, training, scale).param_groups
        own = {id(parameter): group["lr"] for group in groups for parameter in group["params"]}
        rows.append(torch.cat([torch.full((one.numel(),), own[id(one)]) for one in chosen]))
    return torch.stack(rows)


class Rollout:
    """R runs at different rates over the same rows, step by step."""

    def __init__(
        self,
        course: Course,
        start: Tensor,
        rates: Tensor,
        objective: Objective,
        targets: Tensor,
        noise: Noise | None = None,
    ):
        self.course, self.objective, self.targets, self.noise = course, objective, targets, noise
        self.state = OptimiserState(course.optimiser, start, rates)
        self.losses: list[Tensor] = []
        self._drawn: dict[int, Tensor] = {}

    @property
    def theta(self) -> Tensor:
        return self.state.theta

    def advance(self, tangent: Tangent, until: int) -> "Rollout":
        """Take steps along this tangent until so many are done."""
        while self.state.count < until:
            step = self.state.count
            rows = torch.as_tensor(self.course.batches[step])
            outputs, pull = tangent.at(self.theta, rows, self._noise(step, rows))
            losses, slopes = self.objective.slopes(outputs, self.targets[rows])
            self.losses.append(losses)
            self.state.step(pull(slopes))
        return self

    def _noise(self, step: int, rows: Tensor) -> Tensor | None:
        """What dropout adds in this step's rows."""
        if self.noise is None:
            return None
        epoch = self.course.epoch_of[step]
        if epoch not in self._drawn:
            self._drawn = {epoch: self.noise.of_epoch(epoch, self.course.seed)}
        return self._drawn[epoch][rows]
