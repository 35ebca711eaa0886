"""Gaussian mixtures: targets whose densities, scores and posterior means are known at every time."""

import math
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from attangent._core.arrays import check_shape
from attangent._core.checks import check_between, check_positive, check_size
from attangent._core.display import brief_fields
from attangent._core.errors import AttangentError
from attangent._core.memory import check_memory
from attangent.papers.p2_softmax.diffusion._inputs import as_double, as_points, as_times
from attangent.papers.p2_softmax.diffusion.process import ForwardProcess

_DEVIATIONS = 1e-100, 1e100
"""Deviations whose squares are numbers above 0."""


class Target(Protocol):
    """A distribution of x(0) for which E[x(0) | x(t)] can be computed."""

    @property
    def d(self) -> int: ...
    def draw(self, n: int, rng: torch.Generator) -> Tensor: ...
    def log_density(self, process: ForwardProcess, t: Any, x: Any) -> Tensor:
        """log p_t(x) (points,)."""
        ...

    def posterior_mean(self, process: ForwardProcess, t: Any, x: Any) -> Tensor:
        """E[x(0) | x(t) = x] (points, d)."""
        ...


@dataclass(frozen=True, eq=False)
class GaussianMixture:
    """p_0 = sum_k weight_k N(mean_k, U_k diag(variance_k) U_k') in any dimension.

    At time t component k is N(alpha mean_k, alpha^2 Sigma_k + (1 - alpha^2) I), so that the posterior mean is
    a softmax over the components of their linear posterior means: for equal spherical components a softmax
    network in alpha x / variance. Build one with `spherical`, `ring`, `gaussian`, `around` or `full`.
    """

    weights: Tensor
    means: Tensor
    variances: Tensor
    """(k, d), along the columns of `axes`."""
    axes: Tensor | None = None
    """(k, d, d) orthogonal matrices; None means the coordinate axes."""

    __repr__ = brief_fields

    def __post_init__(self) -> None:
        check_shape("means", self.means, "k", "d")
        k, d = self.means.shape
        if self.weights.shape != (k,) or (self.weights <= 0).any():
            raise AttangentError(
                f"weights has shape {tuple(self.weights.shape)}, expected {k} positive numbers"
            )
        if self.variances.shape != (k, d) or not (self.variances > 0).all():
            raise AttangentError("variances should be positive, one for each component and direction")
        object.__setattr__(self, "weights", self.weights / self.weights.sum())

    @classmethod
    def spherical(cls, means: Any, sd: float = 0.1, weights: Any = None) -> "GaussianMixture":
        """Components of equal deviation `sd` around the rows of `means`."""
        means = as_points("means", means)
        variances = torch.full_like(means, check_between("sd", sd, *_DEVIATIONS) ** 2)
        return cls(_weights(weights, len(means)), means, variances)

    @classmethod
    def ring(cls, modes: int = 4, radius: float = 0.7, sd: float = 0.1) -> "GaussianMixture":
        """Equal modes evenly spaced on a circle in the plane; the defaults are the data of the audit."""
        check_positive("radius", radius)
        check_memory("the modes", modes=check_size("modes", modes), d=2)
        angles = (torch.arange(modes).double() + 0.5) * (2 * math.pi / modes)
        return cls.spherical(radius * torch.stack([angles.cos(), angles.sin()], dim=1), sd)

    @classmethod
    def gaussian(cls, mean: Any, sd: float) -> "GaussianMixture":
        """A single Gaussian."""
        return cls.spherical(as_double("mean", mean)[None], sd)

    @classmethod
    def around(cls, points: Any, sd: float) -> "GaussianMixture":
        """The density estimate around data of your own: a reference with an exact score."""
        return cls.spherical(points, sd)

    @classmethod
    def full(cls, means: Any, covariances: Any, weights: Any = None) -> "GaussianMixture":
        """Components with covariance matrices (k, d, d)."""
        means = as_points("means", means)
        covariances = as_double("covariances", covariances)
        k, d = means.shape
        if covariances.shape != (k, d, d):
            raise AttangentError(f"covariances has shape {tuple(covariances.shape)}, expected {(k, d, d)}")
        variances, axes = torch.linalg.eigh((covariances + covariances.mT) / 2)
        return cls(_weights(weights, k), means, variances, axes)

    @property
    def d(self) -> int:
        return self.means.shape[1]

    def draw(self, n: int, rng: torch.Generator) -> Tensor:
        """n points of x(0)."""
        check_memory("the points", n=check_size("n", n), d=self.d if self.axes is None else self.d**2)
        component = torch.multinomial(self.weights, n, replacement=True, generator=rng)
        spread = self.variances[component].sqrt() * torch.randn(n, self.d, generator=rng, dtype=torch.float64)
        if self.axes is not None:
            spread = torch.einsum("nij,nj->ni", self.axes[component], spread)
        return self.means[component] + spread

    def log_density(self, process: ForwardProcess, t: Any, x: Any) -> Tensor:
        return torch.logsumexp(self._joint(*self._parts(process, t, x)), dim=1)

    def posterior_mean(self, process: ForwardProcess, t: Any, x: Any) -> Tensor:
        """sum_k r_k(x) (mean_k + U_k [alpha variance_k / (alpha^2 variance_k + 1 - alpha^2)] z_k)."""
        z, variance, alpha = self._parts(process, t, x)
        share = torch.softmax(self._joint(z, variance, alpha), dim=1)
        pulled = alpha[:, None, None] * self.variances / variance * z
        if self.axes is not None:
            pulled = torch.einsum("kij,nkj->nki", self.axes, pulled)
        return (share[:, :, None] * (self.means + pulled)).sum(dim=1)

    def at(self, process: ForwardProcess, t: float) -> "GaussianMixture":
        """The distribution of x(t), a mixture again."""
        time = torch.tensor(float(t), dtype=torch.float64)
        alpha, noise = process.alpha(time), process.variance(time)
        return GaussianMixture(self.weights, alpha * self.means, alpha**2 * self.variances + noise, self.axes)

    def _parts(self, process: ForwardProcess, t: Any, x: Any) -> tuple[Tensor, Tensor, Tensor]:
        """z_k = U_k'(x - alpha mean_k) and its variances, both (points, k, d), and alpha (points,)."""
        x = as_points("x", x, self.d)
        t = as_times(t, len(x))
        alpha = process.alpha(t)
        z = x[:, None, :] - alpha[:, None, None] * self.means
        if self.axes is not None:
            z = torch.einsum("kji,nkj->nki", self.axes, z)
        variance = alpha.square()[:, None, None] * self.variances + process.variance(t)[:, None, None]
        return z, variance, alpha

    def _joint(self, z: Tensor, variance: Tensor, alpha: Tensor) -> Tensor:
        """log(weight_k p_t(x | k)) (points, k)."""
        quadratic = (z.square() / variance + torch.log(2 * math.pi * variance)).sum(dim=2)
        return self.weights.log() - 0.5 * quadratic


def _weights(given: Any, k: int) -> Tensor:
    """One weight a component, equal ones unless given."""
    return torch.ones(k, dtype=torch.float64) if given is None else as_double("weights", given)
