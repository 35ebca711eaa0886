"""The regression problem and the constants that the claims on the kernel share."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attangent.audit import Hypothesis, Settings
from attangent.audit.evidence import Relation
from attangent.kernels import Trajectory, unit_data
from attangent.papers.p1_prefix.network import (
    Guarantee,
    PrefixNetwork,
    concentration_bound,
    prefix_guarantee,
    prefix_limit,
)


@dataclass(frozen=True)
class Spectrum:
    """A kernel with its smallest and largest eigenvalue."""

    kernel: Tensor
    lambda_min: float
    lambda_max: float

    @classmethod
    def of(cls, kernel: Tensor) -> "Spectrum":
        eigenvalues = torch.linalg.eigvalsh(kernel)
        return cls(kernel, eigenvalues[0].item(), eigenvalues[-1].item())


@dataclass(frozen=True)
class PrefixRegression:
    """Data, an untrained prefix network, and its kernels at initialisation: exact, and of Definition G.1."""

    X: Tensor
    Y: Tensor
    network: PrefixNetwork
    exact: Spectrum
    paper: Spectrum

    @classmethod
    def draw(cls, settings: Settings, seed: int) -> "PrefixRegression":
        """Draw points on the unit sphere and targets in the unit ball."""
        X, Y = unit_data(settings.n, settings.d, settings.d, seed)
        return cls._of(settings, seed, settings.get("x_norm", 1.0) * X, Y)

    @classmethod
    def slow(cls, rho: float, settings: Settings, seed: int) -> "PrefixRegression":
        """Return the problem with the three points rho e_i and the targets `SLOW`.

        For infinite m and sigma = 1, lambda of the printed kernel is rho^2 e^(rho^2). That of the exact one
        is e^(rho^2) (1 + rho^2) - 1 - 2 rho^2 = 1.5 rho^4 + O(rho^6). Their ratio goes to 0 with rho.
        """
        return cls._of(settings | {"d": 3}, seed, rho * torch.eye(3, dtype=torch.float64), SLOW)

    @classmethod
    def _of(cls, settings: Settings, seed: int, X: Tensor, Y: Tensor) -> "PrefixRegression":
        init = settings.get("init", "symmetric")
        network = PrefixNetwork(settings.d, settings.m, settings.sigma, init, seed)
        exact, paper = (Spectrum.of(network.kernel(X, kind=kind)) for kind in ("exact", "paper"))
        return cls(X, Y, network, exact, paper)

    @property
    def size(self) -> int:
        """n d, the number of outputs over all points."""
        return self.Y.numel()

    @property
    def residual(self) -> Tensor:
        """F(0) - Y."""
        return self.network.forward(self.X) - self.Y

    def rate(self, factor: float) -> float:
        """factor / (m lambda_max) of the exact kernel; gradient descent is stable up to a factor of 2."""
        return factor / (self.network.m * self.exact.lambda_max)

    def contraction(self, factor: float, spectrum: Spectrum) -> float:
        """m eta lambda at this rate, with the lambda of one of the kernels."""
        return factor * spectrum.lambda_min / self.exact.lambda_max

    def bound(self, settings: Settings) -> float:
        """B with the constant C of the settings, by default its infimum 10."""
        C = settings.get("C", 10.0)
        return concentration_bound(self.size, self.network.sigma, settings.delta, C)

    def guarantee(self, settings: Settings) -> Guarantee:
        """Return the width, rate and radius that Theorem 3.2 requires."""
        return prefix_guarantee(self.network, self.X, self.Y, settings.delta, settings.get("C", 10.0))

    def train(self, settings: Settings, **record: Any) -> Trajectory:
        return self.network.descend(self.X, self.Y, self.rate(settings.rate), settings.steps, **record)

    @property
    def in_unit_ball(self) -> tuple[Hypothesis, ...]:
        lengths = {"|x|": self.X.norm(dim=1), "|y|": self.Y.norm(dim=1)}
        return tuple(
            Hypothesis(f"largest {name}", "<=", 1 + 1e-12, norms.max().item())
            for name, norms in lengths.items()
        )

    def conditions(self, settings: Settings) -> tuple[Hypothesis, ...]:
        """Compare the run with the general conditions of Definition I.1."""
        needed = self.guarantee(settings)
        least = 1e-12 * self.paper.lambda_max
        return (
            *self.in_unit_ball,
            Hypothesis("lambda_min(H*), above round-off", ">=", least, self.paper.lambda_min),
            _in_limit("width m", ">=", needed.log10_width, math.log10(self.network.m)),
            _in_limit("learning rate", "<=", needed.log10_rate, math.log10(self.rate(settings.rate))),
            _in_limit("D, below R", "<=", needed.log10_radius, needed.log10_movement),
        )


def _in_limit(name: str, relation: Relation, required: float, measured: float) -> Hypothesis:
    """Return a condition, in decimal logarithms, that is met as the prefix grows and the rate falls."""
    return Hypothesis(name, relation, required, measured, log10=True, in_limit=True)


SLOW = torch.tensor([[0, 1, -1], [-1, 0, 1], [1, -1, 0]], dtype=torch.float64) / math.sqrt(2)
"""Antisymmetric targets with zero row sums: an eigenvector of both kernels at the points rho e_i."""


def limit_ratio(X: Tensor, sigma: float) -> float:
    """lambda_min(exact) / lambda_min(printed), both for infinite m."""
    limits = (prefix_limit(X, sigma=sigma, kind=kind) for kind in ("exact", "paper"))
    exact, paper = (torch.linalg.eigvalsh(limit)[0] for limit in limits)
    return (exact / paper).item()
