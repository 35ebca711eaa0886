"""Assumption 1 at one dimension, and the mean gradient of the easy part."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attangent.audit import Settings
from attangent.papers.p3_two_stage.theory.attention import ReluAttention, ReluWeights
from attangent.papers.p3_two_stage.theory.data import TwoStageData, TwoStagePrompts
from attangent.papers.p3_two_stage.theory.training import ConstantRate, NoisySGD, TrainingRecord, train


@dataclass(frozen=True)
class Assumption1:
    """tau_0 and lambda of order 1/sqrt(log d), L = d^power + 1, and the quantities derived in the appendix.

    The norm of P tokens is 1 + gamma_0 here, not the paper's u + gamma_0: a P token is gamma_0 w* + e with
    |e| near 1.
    """

    d: int
    lambda_constant: float
    tau_constant: float
    power: float
    u: float
    r: float

    @classmethod
    def of(cls, settings: Settings, d: int) -> "Assumption1":
        return cls(d, settings.lambda_constant, settings.tau_constant, settings.power, settings.u, settings.r)

    @property
    def root_log(self) -> float:
        return math.sqrt(math.log(self.d))

    @property
    def weight_decay(self) -> float:
        return self.lambda_constant / self.root_log

    @property
    def init_std(self) -> float:
        return self.tau_constant / self.root_log

    @property
    def L(self) -> int:
        return round(self.d**self.power) + 1

    @property
    def hard(self) -> float:
        return self.u + self.r

    @property
    def easy_epsilon(self) -> float:
        """epsilon_(W,1) of Eq. 16, with the norm 1 + gamma_0 of a P token."""
        return self._epsilon(1 + 1 / math.sqrt(self.d))

    @property
    def hard_epsilon(self) -> float:
        """epsilon_(V,1) of Eq. 17, with the norm u + r of a Q token."""
        return self._epsilon(self.hard)

    def _epsilon(self, norm: float) -> float:
        """Return tau_0 norm^2 sqrt(d log d / L)."""
        return self.init_std * norm**2 * math.sqrt(self.d / self.L) * self.root_log

    def first_steps(self, rate: float) -> int:
        """Return t_1 = 1 / (eta_1 lambda)."""
        return max(1, round(1 / (rate * self.weight_decay)))

    def stage(self, rate: float, decay_times: float = 1.0, noise: float | None = None) -> NoisySGD:
        """Return a stage of `decay_times` / (rate lambda) steps, recorded at its start and end only."""
        steps = round(decay_times / (rate * self.weight_decay))
        stages = (ConstantRate(rate, steps),)
        return NoisySGD(stages, self.weight_decay, self.init_std, noise_std=noise, record_every=10**9)

    def data(self) -> TwoStageData:
        return TwoStageData(self.d, self.L, u=self.u, r=self.r)

    def start(self, settings: Settings, seed: int) -> tuple[ReluAttention, TwoStagePrompts]:
        """Return untrained attention with weights of this size, and the prompts of its runs."""
        model = ReluAttention(self.d, std=self.init_std, runs=settings.runs, seed=seed)
        return model, self.data().sample(settings.N, runs=settings.runs, seed=seed)


def train_and_watch(
    model: ReluAttention, prompts: TwoStagePrompts, config: NoisySGD, seed: int
) -> tuple[TrainingRecord, Tensor]:
    """Train, and return the norms (steps, 2, runs) of the gradients over W and V as well."""
    norms: list[Tensor] = []

    def observe(_step: int, _rate: float, gradient: ReluWeights, _xi: ReluWeights) -> None:
        norms.append(torch.stack([signal_norm(of_part) for of_part in gradient[:2]]))

    course = train(model, prompts, config, seed=seed, observer=observe)
    return course, torch.stack(norms)


def easy_slope(d: int) -> float:
    """Return mu = E y <w*, x_1> = gamma_0 + E|<w*, e>| = (1 + sqrt(2/pi)) / sqrt(d)."""
    return (1 + math.sqrt(2 / math.pi)) / math.sqrt(d)


def easy_pull(d: int) -> float:
    """Return mu^2 / 8: while answers are near 0 the mean gradient over W is -mu^2/8 w* w*'."""
    return easy_slope(d) ** 2 / 8


def signal_norm(matrices: Tensor) -> Tensor:
    """Return the Frobenius norm over all heads (runs,)."""
    return matrices.flatten(-3).norm(dim=-1)
