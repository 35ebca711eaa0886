"""The regression problem and the constants that the claims of P2 share."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attangent.audit import Hypothesis, Settings
from attangent.kernels import SoftmaxNetwork, Trajectory, unit_data
from attangent.papers.common.bounds import LOG10_E


@dataclass(frozen=True)
class SoftmaxRegression:
    """Data, an untrained network, its kernel H* and the ends of its spectrum."""

    X: Tensor
    Y: Tensor
    network: SoftmaxNetwork
    kernel: Tensor
    lambda_min: float
    lambda_max: float

    @property
    def size(self) -> int:
        """n d, the number of outputs over all points."""
        return self.Y.numel()

    def rate(self, factor: float) -> float:
        """Return the rate factor / (m lambda_max); the linearised descent is stable up to factor 2."""
        return factor / (self.network.m * self.lambda_max)

    def train(self, settings: Settings, **record: object) -> Trajectory:
        return self.network.descend(self.X, self.Y, self.rate(settings.rate), settings.steps, **record)


def softmax_regression(settings: Settings, seed: int) -> SoftmaxRegression:
    """Draw the problem of these settings: n, d, d_out, m, sigma, and optionally init and x_norm."""
    X, Y = unit_data(settings.n, settings.d, settings.d_out, seed)
    X = X * settings.get("x_norm", 1.0)
    init = settings.get("init", "symmetric")
    network = SoftmaxNetwork(settings.d, settings.d_out, settings.m, settings.sigma, init, seed)
    kernel = network.kernel(X)
    spectrum = torch.linalg.eigvalsh(kernel)
    return SoftmaxRegression(X, Y, network, kernel, spectrum[0].item(), spectrum[-1].item())


@dataclass(frozen=True)
class Constants:
    """The constants of Definition 4.1 and Theorem 4.2, with C at its infimum 10 and Omega(1) read as 1.

    Those that overflow are decimal logarithms.
    """

    B: float
    log10_width: float
    log10_rate: float
    log10_steps: float
    log10_radius: float
    """R = lambda / (2 n d e^(10 B))."""
    log10_movement: float
    """D = 4 e^(3 B) sqrt(n d) |F(0) - Y| / (m lambda)."""


def constants(problem: SoftmaxRegression, settings: Settings) -> Constants:
    nd = problem.size
    m = settings.m
    lam = problem.lambda_min
    log_nd = math.log(nd / settings.delta)
    B = max(settings.get("C", 10.0) * settings.sigma * math.sqrt(log_nd), 1.0)
    start = (problem.network.forward(problem.X) - problem.Y).norm().item()
    log_lam = math.log10(lam) if lam > 0 else -math.inf
    log10_exp_B = B * LOG10_E
    steps = -2 * log_lam + 2 * math.log10(nd) + 16 * log10_exp_B
    return Constants(
        B=B,
        log10_width=-2 * log_lam + 2 * math.log10(nd) + 18 * log10_exp_B + 2 * math.log10(log_nd),
        log10_rate=-1 + log_lam - math.log10(m) - 2 * math.log10(nd) - 16 * log10_exp_B,
        log10_steps=steps + math.log10(math.log(nd / settings.get("epsilon", 0.01))),
        log10_radius=log_lam - math.log10(2 * nd) - 10 * log10_exp_B,
        log10_movement=math.log10(4) + 3 * log10_exp_B + math.log10(math.sqrt(nd) * start / m) - log_lam,
    )


def theorem_hypotheses(problem: SoftmaxRegression, settings: Settings) -> tuple[Hypothesis, ...]:
    """Return the conditions of Theorem 4.2 with the values used here."""
    needed = constants(problem, settings)
    rate = math.log10(problem.rate(settings.rate))
    width = math.log10(problem.network.m)
    return (
        kernel_is_definite(problem),
        *data_in_ball(problem),
        Hypothesis("width m", ">=", needed.log10_width, width, log10=True, in_limit=True),
        Hypothesis("learning rate", "<=", needed.log10_rate, rate, log10=True, in_limit=True),
    )


def kernel_is_definite(problem: SoftmaxRegression) -> Hypothesis:
    return Hypothesis(
        "lambda_min of H* above round-off", ">=", 1e-12 * problem.lambda_max, problem.lambda_min
    )


def data_in_ball(problem: SoftmaxRegression) -> tuple[Hypothesis, ...]:
    slack = 1 + 1e-12
    return (
        Hypothesis("largest |x|", "<=", slack, problem.X.norm(dim=1).max().item()),
        Hypothesis("largest |y|", "<=", slack, problem.Y.norm(dim=1).max().item()),
    )
