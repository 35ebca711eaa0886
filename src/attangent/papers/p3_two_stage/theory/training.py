"""SGD with spherical Gaussian noise and weight decay (Eq. 4), with its exact split into signal and noise."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attangent._core.checks import check_between, check_positive, check_size, check_steps
from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent.papers.p3_two_stage.theory.attention import Losses, ReluAttention, ReluWeights, losses
from attangent.papers.p3_two_stage.theory.data import QPrompts, TwoStagePrompts


@dataclass(frozen=True)
class ConstantRate:
    """A stage of training at one learning rate.

    Args:
        rate: The learning rate.
        steps: How many steps to take.
    """

    rate: float
    steps: int

    def __post_init__(self) -> None:
        check_positive("rate", self.rate)
        check_steps("steps", self.steps)


@dataclass(frozen=True)
class NoisySGD:
    """U <- (1 - eta lam) U - eta (grad L(U) + xi) with xi ~ N(0, tau_xi^2) and U_0 ~ N(0, tau_0^2) (Eq. 4).

    Decay and noise act on W and V; the bias of the variant `bias` takes plain gradient steps from 0.

    Args:
        stages: The learning rates, stage by stage.
        weight_decay: lam.
        init_std: tau_0.
        noise_std: tau_xi; by default tau_0 sqrt(1 - (1 - eta lam)^2) / eta with the first stage's eta, which
            keeps the noise weights at the standard deviation tau_0 (the technical assumption in Lemma 7's
            proof).
        record_every: Steps between records.
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
            raise AttangentError("stages is empty; pass at least one ConstantRate(rate, steps)")
        for stage in self.stages:
            if stage.rate * self.weight_decay >= 1:
                raise AttangentError(
                    f"rate * weight_decay is {stage.rate * self.weight_decay:g}, expected below 1 "
                    "(Proposition 4); use a smaller rate"
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
        """Yield the learning rate of every step."""
        for stage in self.stages:
            yield from (stage.rate for _ in range(stage.steps))

    @property
    def ends(self) -> tuple[int, ...]:
        """The step at which each stage ends: t_1, t_1 + t_2, ..."""
        return tuple(sum(stage.steps for stage in self.stages[: i + 1]) for i in range(len(self.stages)))


def stationary_noise(std: float, rate: float, weight_decay: float) -> float:
    """Return the tau_xi that keeps the noise weights at `std`: std sqrt(1 - (1 - eta lam)^2) / eta."""
    return std * math.sqrt(1 - (1 - rate * weight_decay) ** 2) / rate


@dataclass(frozen=True, eq=False)
class Moment:
    """The state after a step: signal and noise weights, whose sum is the model's, and the losses."""

    step: int
    signal: ReluWeights
    noise: ReluWeights
    losses: Losses

    @property
    def weights(self) -> ReluWeights:
        return self.signal.plus(self.noise)


Observer = Callable[[int, float, ReluWeights, ReluWeights], None]
"""Sees every step before it is taken: its number and rate, the gradient and the noise xi."""


@dataclass(frozen=True, eq=False)
class TrainingRecord:
    """Losses and norms at the recorded steps, and the state at the start and at the end of every stage.

    Attributes:
        steps: The recorded steps.
        times: The sums of the learning rates up to these steps.
        losses: The losses.
        norm_W: Norm of the signal weights W over all heads.
        norm_V: Norm of the signal weights V over all heads.
        singular_W: Singular values of the first head of W, signal and noise together.
        singular_V: Singular values of the first head of V, signal and noise together.
        ends: The state at the end of every stage.
        start: The state before training.
    """

    steps: Int[Tensor, " records"]
    times: Float[Tensor, " records"]
    losses: Losses
    norm_W: Float[Tensor, "records *runs"]
    norm_V: Float[Tensor, "records *runs"]
    singular_W: Float[Tensor, "records *runs d"]
    singular_V: Float[Tensor, "records *runs d"]
    ends: tuple[Moment, ...]
    start: Moment

    def at(self, step: int) -> int:
        """Return the index of the record of this step."""
        return int((self.steps == step).nonzero()[0])


def train(
    model: ReluAttention,
    prompts: TwoStagePrompts | QPrompts,
    config: NoisySGD,
    *,
    seed: int = 0,
    observer: Observer | None = None,
) -> TrainingRecord:
    """Train the runs of `model` together, each on its own prompts and noise.

    The signal starts at 0 and takes the gradients, the noise starts at U_0 and takes xi (Proposition 1).

    Args:
        model: The attention; it holds the trained weights afterwards.
        prompts: The training prompts, with the same runs as the model.
        config: Learning rates, weight decay and noise.
        seed: Seed of the noise.
        observer: Called with step, rate, gradient and noise before every step.

    Returns:
        Losses and norms along the way.

    Example:
        >>> from attangent.papers.p3_two_stage import TwoStageData
        >>> data = TwoStageData(d=4, L=5)
        >>> config = NoisySGD((ConstantRate(1.0, 3),), weight_decay=0.1, init_std=0.1)
        >>> train(ReluAttention(4, std=0.1), data.sample(8), config).steps
        tensor([0, 1, 2, 3])
    """
    rng = generator(seed, "noise of SGD")
    signal = model.weights.map(torch.zeros_like)
    noise = model.weights
    moments: list[Moment] = []
    ends = {0, *config.ends}
    for step, rate in enumerate([*config.rates(), 0.0]):
        h, g, gradient = model.evaluate(prompts, signal.plus(noise))
        xi = _xi(noise, config.xi_std, rng)
        if step % config.record_every == 0 or step in ends:
            moments.append(Moment(step, signal, noise, losses(h, g, prompts)))
        if observer is not None:
            observer(step, rate, gradient, xi)
        if step < config.steps:
            signal, noise = _step(signal, noise, gradient, xi, rate, config.weight_decay)
    model.weights = signal.plus(noise)
    return _record(moments, config)


def _step(
    signal: ReluWeights, noise: ReluWeights, gradient: ReluWeights, xi: ReluWeights, rate: float, decay: float
) -> tuple[ReluWeights, ReluWeights]:
    shrink = 1 - rate * decay
    bias = signal.bias - rate * gradient.bias
    signal = ReluWeights(shrink * signal.W - rate * gradient.W, shrink * signal.V - rate * gradient.V, bias)
    return signal, ReluWeights(shrink * noise.W - rate * xi.W, shrink * noise.V - rate * xi.V, noise.bias)


def _xi(like: ReluWeights, std: float, rng: torch.Generator) -> ReluWeights:
    W, V = (std * torch.randn(tensor.shape, generator=rng, dtype=torch.float64) for tensor in like[:2])
    return ReluWeights(W, V, torch.zeros_like(like.bias))


def _record(moments: list[Moment], config: NoisySGD) -> TrainingRecord:
    by_step = {moment.step: moment for moment in moments}
    measured = Losses(*(torch.stack(values) for values in zip(*(m.losses for m in moments), strict=True)))
    W, V = (torch.stack([m.weights[i][..., 0, :, :] for m in moments]) for i in (0, 1))
    return TrainingRecord(
        torch.tensor(list(by_step)),
        torch.tensor([0.0, *config.rates()], dtype=torch.float64).cumsum(0)[list(by_step)],
        measured,
        torch.stack([m.signal.W.flatten(-3).norm(dim=-1) for m in moments]),
        torch.stack([m.signal.V.flatten(-3).norm(dim=-1) for m in moments]),
        torch.linalg.svdvals(W),
        torch.linalg.svdvals(V),
        tuple(by_step[end] for end in config.ends),
        by_step[0],
    )
