"""A ReLU network of equal size, to compare with."""

import math
from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor

from attangent._core.checks import check_size
from attangent._core.memory import check_memory
from attangent._core.random import generator
from attangent.papers.p2_softmax.diffusion.dataset import ScoreData
from attangent.papers.p2_softmax.diffusion.estimator import ScoreEstimator
from attangent.papers.p2_softmax.diffusion.features import InputMap, PaperInputs
from attangent.papers.p2_softmax.diffusion.process import ForwardProcess
from attangent.papers.p2_softmax.diffusion.softmax import SoftmaxScore
from attangent.papers.p2_softmax.diffusion.training import Adam, train


@dataclass(eq=False)
class MLPScore(ScoreEstimator):
    """F(t, x) = V max(U z + b, 0) + c, z = inputs(t, x), all weights trained by Adam."""

    process: ForwardProcess
    hidden: int = 128
    inputs: InputMap = field(default_factory=PaperInputs)
    trainer: Adam = field(default_factory=lambda: Adam(rate=0.01))
    """Its rate is used as it is: these outputs carry no factor of width."""
    keep: tuple[int, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        check_memory("the hidden layer", hidden=check_size("hidden", self.hidden))

    @classmethod
    def sized_like(cls, softmax: SoftmaxScore, d: int, trainer: Adam) -> Self:
        """As many trained numbers as the softmax network has, the same inputs and seed."""
        columns = softmax.inputs.columns(d)
        hidden = max(1, round((columns * softmax.m - d) / (columns + 1 + d)))
        return cls(softmax.process, hidden, softmax.inputs, trainer, softmax.keep, softmax.seed)

    def fit(self, data: ScoreData, validation: ScoreData | None = None) -> Self:
        data.check_beside(validation)
        weights = self._draw(self.inputs.columns(data.d), data.d)
        X = self.inputs(self.process, data.t, data.x)

        def gradients() -> list[Tensor]:
            free = [weight.detach().requires_grad_() for weight in weights]
            loss = 0.5 * (_forward(free, X) - data.y).square().sum()
            return list(torch.autograd.grad(loss, free))

        def validate() -> float:
            assert validation is not None
            Z = self.inputs(self.process, validation.t, validation.x)
            return (_forward(weights, Z) - validation.y).square().sum(dim=1).mean().item()

        optimiser = self.trainer.optimiser(weights, lambda: 1.0, 1)
        watch = None if validation is None else validate
        self.course = train(weights, gradients, optimiser, self.trainer, watch, self.keep)
        self._d = data.d
        return self._use(self.course.best_step)

    @property
    def size(self) -> int:
        """How many numbers are trained."""
        return sum(weight.numel() for weight in self._weights)

    def _use(self, step: int) -> Self:
        self._weights, self.step = self.course.weights(step), step
        return self

    def _draw(self, columns: int, d: int) -> list[Tensor]:
        """He initialisation of the hidden layer, a small output layer, no offsets."""
        rng = generator(self.seed, "mlp weights")

        def normal(rows: int, into: int, deviation: float) -> Tensor:
            return deviation * torch.randn(rows, into, generator=rng, dtype=torch.float64)

        check_memory("the weights", hidden=self.hidden, columns=columns + d)
        U = normal(self.hidden, columns, math.sqrt(2 / columns))
        V = normal(d, self.hidden, math.sqrt(1 / self.hidden))
        return [U, U.new_zeros(self.hidden), V, V.new_zeros(d)]

    def _mean(self, t: Tensor, x: Tensor) -> Tensor:
        return _forward(self._weights, self.inputs(self.process, t, x))


def _forward(weights: list[Tensor], X: Tensor) -> Tensor:
    U, b, V, c = weights
    return torch.relu(X @ U.T + b) @ V.T + c
