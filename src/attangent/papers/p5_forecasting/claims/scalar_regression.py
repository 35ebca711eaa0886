"""The regression problem and the constants that the kernel claims of P5 share."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.audit import Hypothesis, Settings
from attangent.kernels import Trajectory
from attangent.papers.common.bounds import LOG10_E
from attangent.papers.p5_forecasting.theory.attention_model import ScalarAttention
from attangent.papers.p5_forecasting.theory.ssm import ResidualSSM

CONSTANT = 2.0
"""Constant for the O(.) around B and D; the exponent O(B^2 D) then is 2^3 B^2 D."""


@dataclass(frozen=True)
class ScalarRegression:
    """Windows x with their next value y, an untrained model, its kernel and spectrum."""

    X: Tensor
    y: Tensor
    network: ScalarAttention
    kernel: Tensor
    eigenvalues: Tensor

    @classmethod
    def of(cls, X: Tensor, y: Tensor, network: ScalarAttention) -> "ScalarRegression":
        H = network.kernel(X)
        return cls(X, y, network, H, torch.linalg.eigvalsh(H))

    @property
    def lambda_min(self) -> float:
        return self.eigenvalues[0].item()

    @property
    def log10_lambda(self) -> float:
        return math.log10(max(self.lambda_min, 1e-300))

    @property
    def lambda_max(self) -> float:
        return self.eigenvalues[-1].item()

    def rate(self, factor: float) -> float:
        """factor / lambda_max: descent is stable up to factor 2."""
        return factor / self.lambda_max


def scalar_regression(settings: Settings, seed: int) -> ScalarRegression:
    X, y = ResidualSSM(settings.d, settings.noise, seed).sample(settings.n, generator(seed, "windows"))
    network = ScalarAttention(settings.d, settings.m, 1.0, settings.get("init", "symmetric"), seed)
    return ScalarRegression.of(X, y[:, None], network)


def sizes_of_data_and_weights(settings: Settings) -> tuple[float, float]:
    """B = sqrt((1 + noise^2) log(nN/delta)) with N = d, and D = sqrt(log(m/delta)), both at least 1."""
    B = math.sqrt((1 + settings.noise**2) * math.log(settings.n * settings.d / settings.delta))
    return max(B, 1.0), max(math.sqrt(math.log(settings.m / settings.delta)), 1.0)


def exponent(settings: Settings) -> float:
    """log10 of exp(O(B^2 D))."""
    B, D = sizes_of_data_and_weights(settings)
    return settings.get("constant", CONSTANT) ** 3 * B**2 * D * LOG10_E


def log10_poly(settings: Settings) -> float:
    """log10 of exp(B^2 + D)."""
    B, D = sizes_of_data_and_weights(settings)
    return (B**2 + D) * LOG10_E


def asked(p: ScalarRegression, settings: Settings, part: str = "") -> tuple[Hypothesis, ...]:
    """Width and rate of Lemma H.1 with poly(exp(B^2), exp(D)) read as exp(B^2) exp(D)."""
    rate = p.log10_lambda - 4 * math.log10(settings.n) - math.log10(settings.d) - log10_poly(settings)
    return (
        *asked_in_the_limit(p, settings, part),
        Hypothesis("learning rate", "<=", rate, math.log10(p.rate(settings.rate)), log10=True, part=part),
    )


def asked_in_the_limit(p: ScalarRegression, settings: Settings, part: str = "") -> tuple[Hypothesis, ...]:
    """A positive definite kernel, and the width of Lemma H.1, which sizes of m approach."""
    width = (
        -3 * p.log10_lambda + 7 * math.log10(settings.n) + 2 * math.log10(settings.d) + log10_poly(settings)
    )
    return (
        Hypothesis("lambda_min of H* above round-off", ">=", 1e-13 * p.lambda_max, p.lambda_min, part=part),
        Hypothesis("width m", ">=", width, math.log10(settings.m), log10=True, part=part, in_limit=True),
    )


PAIR = {"candidates": 60, "pair_steps": 120}
"""How many windows the best-conditioned pair is chosen from, and how many steps it is trained for."""


@dataclass(frozen=True)
class Converged:
    """A network trained to convergence on two windows: the problem, the run, and what longer training could
    move.

        `remaining` bounds how far a weight moves in all steps up to m / (eta lambda v_min).
    """

    problem: ScalarRegression
    run: Trajectory
    remaining: float

    @property
    def output_change(self) -> float:
        """|F(t) - F(0)|."""
        p = self.problem
        return (self.run.final.forward(p.X) - p.network.forward(p.X)).norm().item()


def converge(settings: Settings, seed: int) -> Converged:
    """Train on the best-conditioned pair of windows, which is the same for every width."""
    drawn = scalar_regression(settings | {"n": settings.candidates, "m": 256}, seed)
    rows = _best_pair(drawn.kernel)
    network = ScalarAttention(settings.d, settings.m, 1.0, "symmetric", seed)
    p = ScalarRegression.of(drawn.X[rows], drawn.y[rows], network)
    rate = p.rate(settings.rate)
    run = network.descend(p.X, p.y, rate, settings.pair_steps)
    v_min = p.X.var(dim=1, correction=0).min().item()
    needed = settings.m / (rate * p.lambda_min * v_min)
    return Converged(p, run, needed * rate * run.final.gradient(p.X, p.y).abs().max().item())


def _best_pair(kernel: Tensor) -> list[int]:
    """Return the two points whose 2 x 2 kernel has the largest ratio of eigenvalues."""
    a = kernel.diagonal()[:, None]
    b = kernel.diagonal()[None]
    spread = ((a - b).square() / 4 + kernel.square()).sqrt()
    ratios = (((a + b) / 2 - spread) / ((a + b) / 2 + spread)).triu(1)
    return [int(index) for index in divmod(int(ratios.argmax()), len(kernel))]
