"""The regression problem and the constants that the kernel claims of P1 share."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attangent.audit.claim import Settings
from attangent.audit.finding import Hypothesis
from attangent.audit.papers.p2.problem import LOG10_E
from attangent.kernels import PrefixNetwork, Trajectory, prefix_limit, unit_data


@dataclass(frozen=True)
class Spectrum:
    """A kernel with the ends of its spectrum."""

    kernel: Tensor
    lambda_min: float
    lambda_max: float

    @classmethod
    def of(cls, kernel: Tensor) -> "Spectrum":
        eigenvalues = torch.linalg.eigvalsh(kernel)
        return cls(kernel, eigenvalues[0].item(), eigenvalues[-1].item())


@dataclass(frozen=True)
class PrefixProblem:
    """Data, an untrained prefix network, and its kernels at the start: exact, and that of Definition G.1."""

    X: Tensor
    Y: Tensor
    network: PrefixNetwork
    exact: Spectrum
    paper: Spectrum

    @property
    def size(self) -> int:
        """n d, the number of outputs over all points."""
        return self.Y.numel()

    @property
    def residual(self) -> Tensor:
        """F(0) - Y."""
        return self.network.forward(self.X) - self.Y

    def rate(self, factor: float) -> float:
        """The learning rate factor / (m lambda_max) of the exact kernel; descent is stable up to factor 2."""
        return factor / (self.network.m * self.exact.lambda_max)

    def contraction(self, factor: float, spectrum: Spectrum) -> float:
        """m eta lambda at this rate with the lambda of one of the kernels."""
        return factor * spectrum.lambda_min / self.exact.lambda_max

    def train(self, settings: Settings, **record: Any) -> Trajectory:
        return self.network.descend(self.X, self.Y, self.rate(settings.rate), settings.steps, **record)


def ordinary_problem(settings: Settings, seed: int) -> PrefixProblem:
    """Points on the sphere, targets in the ball."""
    X, Y = unit_data(settings.n, settings.d, settings.d, seed)
    return _problem(settings, seed, settings.get("x_norm", 1.0) * X, Y)


def hard_problem(settings: Settings, seed: int) -> PrefixProblem:
    """Data for which the printed kernel promises too much.

    Among `candidates` sets of points the one whose infinitely wide kernels have the smallest ratio of
    lambda_min, exact to printed; the targets lie along the slowest direction of the exact kernel.
    """
    draws = [
        unit_data(settings.n, settings.d, settings.d, 1000 * seed + i)[0] for i in range(settings.candidates)
    ]
    X = min(draws, key=lambda points: limit_ratio(points, settings.sigma))
    p = _problem(settings, seed, X, torch.zeros(settings.n, settings.d, dtype=torch.float64))
    slowest = torch.linalg.eigh(p.exact.kernel).eigenvectors[:, 0].reshape(settings.d, settings.n).T
    return PrefixProblem(X, slowest / slowest.norm(dim=1).max(), p.network, p.exact, p.paper)


def limit_ratio(X: Tensor, sigma: float) -> float:
    """lambda_min of the exact kernel over that of the printed one, both at infinite width."""
    exact, paper = (
        torch.linalg.eigvalsh(prefix_limit(X, sigma=sigma, kind=kind))[0] for kind in ("exact", "paper")
    )
    return (exact / paper).item()


def _problem(settings: Settings, seed: int, X: Tensor, Y: Tensor) -> PrefixProblem:
    init = settings.get("init", "symmetric")
    network = PrefixNetwork(settings.d, settings.m, settings.sigma, init, seed)
    exact, paper = (Spectrum.of(network.kernel(X, kind=kind)) for kind in ("exact", "paper"))
    return PrefixProblem(X, Y, network, exact, paper)


@dataclass(frozen=True)
class PrefixConstants:
    """The constants of Definition I.1 with C at its infimum 10 and Omega(1) read as 1, as decimal logarithms.

    Where the paper writes poly(n, d, e^B) the power is the one its proofs use.
    """

    B: float
    log10_width: float
    """lambda^-2 n^2 d^2 e^(30 B) sqrt(log(nd/delta)) (Lemma H.2)."""
    log10_rate: float
    """lambda / (m n^2 d^2 e^(16 B)) (Lemma I.4)."""
    log10_radius: float
    """R = lambda / (16 sqrt(nd) e^(22 B)) (Claim G.4)."""
    log10_movement: float
    """D = 2 lambda^-1 e^(20 B) sqrt(nd) |Y - F(0)|_F / m (Definition I.1)."""


def prefix_constants(p: PrefixProblem, settings: Settings) -> PrefixConstants:
    nd, m = p.size, settings.m
    log_nd = math.log(nd / settings.delta)
    B = max(settings.get("C", 10.0) * settings.sigma * math.sqrt(log_nd), 1.0)
    log_lambda = log10(p.paper.lambda_min)
    start = p.residual.norm().item()
    e = B * LOG10_E
    return PrefixConstants(
        B=B,
        log10_width=-2 * log_lambda + 2 * math.log10(nd) + 30 * e + 0.5 * math.log10(log_nd),
        log10_rate=log_lambda - math.log10(m) - 2 * math.log10(nd) - 16 * e,
        log10_radius=log_lambda - math.log10(16 * math.sqrt(nd)) - 22 * e,
        log10_movement=math.log10(2 * math.sqrt(nd) * start / m) - log_lambda + 20 * e,
    )


def properties(p: PrefixProblem, settings: Settings) -> tuple[Hypothesis, ...]:
    """The general conditions of Definition I.1 against what is run here."""
    needed = prefix_constants(p, settings)
    return (
        *in_unit_ball(p),
        Hypothesis("lambda_min of H* above round-off", ">=", 1e-12 * p.paper.lambda_max, p.paper.lambda_min),
        Hypothesis("width m", ">=", needed.log10_width, math.log10(settings.m), log10=True),
        Hypothesis("learning rate", "<=", needed.log10_rate, math.log10(p.rate(settings.rate)), log10=True),
        Hypothesis("D below R", "<=", needed.log10_radius, needed.log10_movement, log10=True),
    )


def log10(value: float) -> float:
    """The decimal logarithm, minus infinity at zero."""
    return math.log10(value) if value > 0 else -math.inf


def in_unit_ball(p: PrefixProblem) -> tuple[Hypothesis, ...]:
    slack = 1 + 1e-12
    return (
        Hypothesis("largest |x|", "<=", slack, p.X.norm(dim=1).max().item()),
        Hypothesis("largest |y|", "<=", slack, p.Y.norm(dim=1).max().item()),
    )
