"""SGD with spherical Gaussian noise and weight decay (Eq. 4), with its exact split into signal and noise."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attangent._core.checks import check_between, check_positive, check_size, check_steps
from attangent._core.errors import AttangentError
from attangent._core.progress import Bars
from attangent._core.random import generator
from attangent.papers.p3_two_stage.theory.attention import Losses, ReluAttention, Weights, losses
from attangent.papers.p3_two_stage.theory.data import Prompts, QPrompts


@dataclass(frozen=True)
class ConstantRate:
    """`steps` steps at one learning rate."""

    rate: float
    steps: int

    def __post_init__(self) -> None:
        check_positive("rate", self.rate)
        check_steps("steps", self.steps)


@dataclass(frozen=True)
class NoisySGD:
    """U <- (1 - eta lam) U - eta (grad L(U) + xi) with xi ~ N(0, tau_xi^2) and U_0 ~ N(0, tau_0^2) (Eq. 4).

    `noise_std` is tau_xi; left out it is tau_0 sqrt(1 - (1 - eta lam)^2) / eta with the first stage's eta,
    which keeps the noise weights at the standard deviation tau_0 (the technical assumption in Lemma 7's
    proof). Decay and noise act on W and V; the bias of that variant takes plain gradient steps from 0.
    """

    stages: tuple[ConstantRate, ...]
    weight_decay: float
    init_std: float
    noise_std: float | None = None
    record_every: int = 1

    def __post_init__(self) -> None:
        check_positive("weight_decay", self.weight_decay)
        check_between("init_std", self.init_std, 0.0, 1e6)
        check_size("record_every", self.record_every)
        if self.noise_std is not None:
            check_between("noise_std", self.noise_std, 0.0, 1e6)
        if not self.stages:
            raise AttangentError("stages is empty, expected at least one ConstantRate(rate, steps)")
        for stage in self.stages:
            if stage.rate * self.weight_decay >= 1:
                raise AttangentError(
                    f"rate * weight_decay is {stage.rate * self.weight_decay:g}, expected below 1 "
                    "(Proposition 4): take a smaller rate"
                )

    @property
    def xi_std(self) -> float:
        """tau_xi."""
        if self.noise_std is not None:
            return self.noise_std
        return stationary_noise(self.init_std, self.stages[0].rate, self.weight_decay)

    @property
    def steps(self) -> int:
        return sum(stage.steps for stage in self.stages)

    def rates(self) -> Iterator[float]:
        """The learning rate of every step."""
        for stage in self.stages:
            yield from (stage.rate for _ in range(stage.steps))

    @property
    def ends(self) -> tuple[int, ...]:
        """The step at which each stage ends: t_1, t_1 + t_2, ..."""
        return tuple(sum(stage.steps for stage in self.stages[: i + 1]) for i in range(len(self.stages)))


def stationary_noise(std: float, rate: float, weight_decay: float) -> float:
    """The tau_xi that keeps the noise weights at `std`: std sqrt(1 - (1 - eta lam)^2) / eta."""
    return std * math.sqrt(1 - (1 - rate * weight_decay) ** 2) / rate


@dataclass(frozen=True, eq=False)
class Moment:
    """The state after a step: signal and noise weights, their sum being the model's, and the losses."""

    step: int
    signal: Weights
    noise: Weights
    losses: Losses

    @property
    def weights(self) -> Weights:
        return self.signal.plus(self.noise)


Observer = Callable[[int, float, Weights, Weights], None]
"""Sees every step before it is taken: its number and rate, the gradient and the noise xi."""


@dataclass(frozen=True, eq=False)
class Course:
    """What was recorded: losses, norms and traces (records, runs) at `steps`, and the end of every stage."""

    steps: Tensor
    times: Tensor
    """(records,): the sum of the learning rates so far."""
    losses: Losses
    norm_W: Tensor
    norm_V: Tensor
    trace_W: Tensor
    trace_V: Tensor
    singular_W: Tensor
    """(records, runs, d): singular values of the whole W, first head."""
    singular_V: Tensor
    ends: tuple[Moment, ...]
    start: Moment

    def at(self, step: int) -> int:
        """The record of this step."""
        return int((self.steps == step).nonzero()[0])


def train(
    model: ReluAttention,
    prompts: Prompts | QPrompts,
    config: NoisySGD,
    *,
    seed: int = 0,
    observer: Observer | None = None,
    quiet: bool = True,
) -> Course:
    """Train the runs of `model` at once, each on its own prompts and noise; the model keeps the last weights.

    The signal starts at 0 and takes the gradients, the noise starts at U_0 and takes xi (Proposition 1).
    """
    rng = generator(seed, "noise of SGD")
    signal, noise = model.weights.map(torch.zeros_like), model.weights
    moments: list[Moment] = []
    ends = {0, *config.ends}
    with Bars(quiet) as bars:
        for step, rate in enumerate([*config.rates(), 0.0]):
            h, g, gradient = model.evaluate(prompts, signal.plus(noise))
            xi = _xi(noise, config.xi_std, rng)
            if step % config.record_every == 0 or step in ends:
                moments.append(Moment(step, signal, noise, losses(h, g, prompts)))
            if observer is not None:
                observer(step, rate, gradient, xi)
            if step < config.steps:
                signal, noise = _step(signal, noise, gradient, xi, rate, config.weight_decay)
                bars.show("training", step + 1, config.steps)
    model.weights = signal.plus(noise)
    return _course(moments, config)


def _step(
    signal: Weights, noise: Weights, gradient: Weights, xi: Weights, rate: float, decay: float
) -> tuple[Weights, Weights]:
    kept = 1 - rate * decay
    bias = signal.bias - rate * gradient.bias
    signal = Weights(kept * signal.W - rate * gradient.W, kept * signal.V - rate * gradient.V, bias)
    return signal, Weights(kept * noise.W - rate * xi.W, kept * noise.V - rate * xi.V, noise.bias)


def _xi(like: Weights, std: float, rng: torch.Generator) -> Weights:
    W, V = (std * torch.randn(part.shape, generator=rng, dtype=torch.float64) for part in like[:2])
    return Weights(W, V, torch.zeros_like(like.bias))


def _course(moments: list[Moment], config: NoisySGD) -> Course:
    """Norms are of the signal over all heads; traces and singular values of the whole W and V."""
    by_step = {moment.step: moment for moment in moments}
    measured = Losses(*(torch.stack(parts) for parts in zip(*(m.losses for m in moments), strict=True)))
    W, V = (torch.stack([m.weights[i][..., 0, :, :] for m in moments]) for i in (0, 1))
    return Course(
        torch.tensor(list(by_step)),
        torch.tensor([0.0, *config.rates()], dtype=torch.float64).cumsum(0)[list(by_step)],
        measured,
        torch.stack([m.signal.W.flatten(-3).norm(dim=-1) for m in moments]),
        torch.stack([m.signal.V.flatten(-3).norm(dim=-1) for m in moments]),
        _trace(W),
        _trace(V),
        torch.linalg.svdvals(W),
        torch.linalg.svdvals(V),
        tuple(by_step[end] for end in config.ends),
        by_step[0],
    )


def _trace(matrices: Tensor) -> Tensor:
    return matrices.diagonal(dim1=-2, dim2=-1).sum(-1)
