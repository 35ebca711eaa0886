"""torch.optim's optimisers on one flat vector of parameters, several learning rates side by side."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from attangent._core.checks import (
    check_between,
    check_choice,
    check_not_negative,
    check_positive,
    check_steps,
)
from attangent._core.errors import AttangentError

Kind = Literal["sgd", "adam", "adamw"]
Decay = Literal["none", "linear", "cosine"]


@dataclass(frozen=True)
class Optimiser:
    """How a model is trained, whatever the model.

    kind: `sgd` (with `momentum`), `adam` or `adamw`, as in torch.optim.
    warmup: the share of all steps in which the rate rises from 0; then it falls as `decay` says.
    clip: the largest norm of the whole gradient; None for no limit.
    """

    steps: int
    kind: Kind = "adamw"
    momentum: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    warmup: float = 0.0
    decay: Decay = "linear"
    clip: float | None = None

    def __post_init__(self) -> None:
        check_steps("steps", self.steps, least=1)
        check_choice("kind", self.kind, get_args(Kind))
        check_choice("decay", self.decay, get_args(Decay))
        check_between("momentum", self.momentum, 0, 1)
        for beta in self.betas:
            if check_between("a beta", beta, 0, 1) == 1:
                raise AttangentError(f"betas are {self.betas}, expected numbers below 1")
        check_positive("eps", self.eps)
        check_not_negative("weight_decay", self.weight_decay)
        check_between("warmup", self.warmup, 0, 1)
        if self.clip is not None:
            check_positive("clip", self.clip)

    def factor(self, step: int) -> float:
        """By what the rate is multiplied in step 0, 1, ...: the schedules of transformers' Trainer."""
        warm = math.ceil(self.warmup * self.steps)
        if step < warm:
            return step / max(1, warm)
        share = (step - warm) / max(1, self.steps - warm)
        if self.decay == "linear":
            return max(0.0, 1 - share)
        return 0.5 * (1 + math.cos(math.pi * share)) if self.decay == "cosine" else 1.0


class OptimiserState:
    """Parameters theta (R, P), one row for each of R runs, with the moments of their gradients."""

    def __init__(self, settings: Optimiser, start: Tensor, rates: Tensor):
        """`rates` (R, P) or (R, 1) is each run's rate, for each weight of its own where groups differ."""
        self.settings, self.rates = settings, rates
        self.theta = start.expand(len(rates), -1).clone()
        self.first = torch.zeros_like(self.theta)
        self.second = torch.zeros_like(self.theta) if settings.kind != "sgd" else None
        self.count = 0

    def take(self, other: "OptimiserState", run: int) -> None:
        """Be where one run of the other state is."""
        self.theta, self.first = other.theta[run : run + 1].clone(), other.first[run : run + 1].clone()
        self.second = None if other.second is None else other.second[run : run + 1].clone()
        self.count = other.count

    def step(self, gradient: Tensor) -> None:
        """One step of every run along its gradient (R, P)."""
        settings = self.settings
        rates = self.rates * settings.factor(self.count)
        self.count += 1
        if settings.clip is not None:
            norms = gradient.norm(dim=1, keepdim=True)
            gradient = gradient * (settings.clip / (norms + 1e-6)).clamp(max=1)
        if settings.weight_decay and settings.kind == "adamw":
            self.theta -= rates * settings.weight_decay * self.theta
        elif settings.weight_decay:
            gradient = gradient + settings.weight_decay * self.theta
        self.theta -= rates * (self._momentum(gradient) if self.second is None else self._adam(gradient))

    def _momentum(self, gradient: Tensor) -> Tensor:
        self.first = gradient + self.settings.momentum * self.first
        return self.first

    def _adam(self, gradient: Tensor) -> Tensor:
        one, two = self.settings.betas
        assert self.second is not None
        self.first.lerp_(gradient, 1 - one)
        self.second.mul_(two).addcmul_(gradient, gradient, value=1 - two)
        root = (self.second / (1 - two**self.count)).sqrt_().add_(self.settings.eps)
        return (self.first / (1 - one**self.count)).div_(root)
