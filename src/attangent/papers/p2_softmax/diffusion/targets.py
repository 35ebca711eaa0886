"""Targets with known densities and posterior means at every time, and noised data drawn from them."""

import math
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.special import i0e, i1e

from attangent._core.arrays import as_double, as_matrix
from attangent._core.checks import check_positive, check_size
from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent.papers.p2_softmax.diffusion.process import ForwardProcess, Spacing, Times, times_of

Points = Float[Tensor, "points d"]


@runtime_checkable
class Target(Protocol):
    """A distribution of x(0) for which E[x(0) | x(t)] is known.

    Attributes:
        d: The dimension of x.
    """

    @property
    def d(self) -> int: ...
    def draw(self, n: int, rng: torch.Generator) -> Points: ...
    def log_density(self, process: ForwardProcess, t: Times, x: Points) -> Float[Tensor, " points"]:
        """Return log p_t(x)."""
        ...

    def posterior_mean(self, process: ForwardProcess, t: Times, x: Points) -> Points:
        """Return E[x(0) | x(t) = x]."""
        ...


@dataclass(frozen=True, eq=False)
class GaussianMixture:
    """p_0 = sum_k weight_k N(mean_k, U_k diag(variance_k) U_k') in any dimension.

    At time t component k is N(alpha mean_k, alpha^2 Sigma_k + (1 - alpha^2) I). The posterior mean is a
    softmax over the components of their linear posterior means. For equal spherical components it is a
    softmax network in alpha x / variance. Build a mixture with `spherical`, `ring` or `full`.

    Args:
        weights: (k,), positive; they are scaled to the sum 1.
        means: (k, d).
        variances: (k, d), along the columns of `axes`.
        axes: (k, d, d) orthogonal matrices U_k; None for the coordinate axes.

    Example:
        >>> GaussianMixture.ring(modes=4).means.shape
        torch.Size([4, 2])
    """

    weights: Tensor
    means: Tensor
    variances: Tensor
    axes: Tensor | None = None

    def __post_init__(self) -> None:
        k, d = self.means.shape
        if self.weights.shape != (k,) or (self.weights <= 0).any():
            raise AttangentError(f"weights are {self.weights.tolist()}; pass {k} positive numbers")
        if self.variances.shape != (k, d) or not (self.variances > 0).all():
            raise AttangentError("variances must be positive, one per component and direction")
        object.__setattr__(self, "weights", self.weights / self.weights.sum())

    @classmethod
    def spherical(cls, means: Any, sd: float = 0.1, weights: Any = None) -> "GaussianMixture":
        """Return components of standard deviation `sd` around the rows of `means` (k, d)."""
        means = as_matrix("means", means)
        variances = torch.full_like(means, check_positive("sd", sd) ** 2)
        return cls(_weights(weights, len(means)), means, variances)

    @classmethod
    def ring(cls, modes: int = 4, radius: float = 0.7, sd: float = 0.1) -> "GaussianMixture":
        """Return equal modes evenly spaced on a circle in the plane."""
        check_positive("radius", radius)
        angles = (torch.arange(check_size("modes", modes)).double() + 0.5) * (2 * math.pi / modes)
        return cls.spherical(radius * torch.stack([angles.cos(), angles.sin()], dim=1), sd)

    @classmethod
    def full(cls, means: Any, covariances: Any, weights: Any = None) -> "GaussianMixture":
        """Return components with covariance matrices (k, d, d)."""
        means = as_matrix("means", means)
        covariances = as_double("covariances", covariances)
        k, d = means.shape
        if covariances.shape != (k, d, d):
            raise AttangentError(f"covariances has shape {tuple(covariances.shape)}; expected {(k, d, d)}")
        variances, axes = torch.linalg.eigh((covariances + covariances.mT) / 2)
        return cls(_weights(weights, k), means, variances, axes)

    @property
    def d(self) -> int:
        return self.means.shape[1]

    def draw(self, n: int, rng: torch.Generator) -> Points:
        """Draw n points of x(0)."""
        component = torch.multinomial(self.weights, check_size("n", n), replacement=True, generator=rng)
        spread = self.variances[component].sqrt() * torch.randn(n, self.d, generator=rng, dtype=torch.float64)
        if self.axes is not None:
            spread = torch.einsum("nij,nj->ni", self.axes[component], spread)
        return self.means[component] + spread

    def log_density(self, process: ForwardProcess, t: Times, x: Points) -> Float[Tensor, " points"]:
        """Return log p_t(x)."""
        z, variance, _ = self._centred(process, t, x)
        return torch.logsumexp(self._joint(z, variance), dim=1)

    def posterior_mean(self, process: ForwardProcess, t: Times, x: Points) -> Points:
        """Return sum_k r_k(x) (mean_k + U_k [alpha variance_k / (alpha^2 variance_k + 1 - alpha^2)] z_k)."""
        z, variance, alpha = self._centred(process, t, x)
        share = torch.softmax(self._joint(z, variance), dim=1)
        pulled = alpha[:, None, None] * self.variances / variance * z
        if self.axes is not None:
            pulled = torch.einsum("kij,nkj->nki", self.axes, pulled)
        return (share[:, :, None] * (self.means + pulled)).sum(dim=1)

    def at(self, process: ForwardProcess, t: float) -> "GaussianMixture":
        """Return the distribution of x(t), which is a mixture again."""
        time = torch.tensor(float(t), dtype=torch.float64)
        alpha = process.alpha(time)
        variances = alpha**2 * self.variances + process.variance(time)
        return GaussianMixture(self.weights, alpha * self.means, variances, self.axes)

    def _centred(self, process: ForwardProcess, t: Times, x: Points) -> tuple[Tensor, Tensor, Tensor]:
        """Return z_k = U_k'(x - alpha mean_k) and its variances, both (points, k, d), and alpha (points,)."""
        t = times_of(t, x)
        alpha = process.alpha(t)
        z = x[:, None, :] - alpha[:, None, None] * self.means
        if self.axes is not None:
            z = torch.einsum("kji,nkj->nki", self.axes, z)
        variance = alpha.square()[:, None, None] * self.variances + process.variance(t)[:, None, None]
        return z, variance, alpha

    def _joint(self, z: Tensor, variance: Tensor) -> Tensor:
        """Return log(weight_k p_t(x | k)) (points, k)."""
        quadratic = (z.square() / variance + torch.log(2 * math.pi * variance)).sum(dim=2)
        return self.weights.log() - 0.5 * quadratic


def _weights(weights: Any, k: int) -> Tensor:
    return torch.ones(k, dtype=torch.float64) if weights is None else as_double("weights", weights)


@dataclass(frozen=True)
class Rings:
    """x(0) = r_k (cos u, sin u) + sd z with u uniform and the circle k drawn evenly.

    Let v = alpha^2 sd^2 + 1 - alpha^2 and kappa = alpha r |x| / v. The density of x(t) on circle k is
    exp(-(|x|^2 + alpha^2 r^2) / (2 v)) I_0(kappa) / (2 pi v). The mean of the point on the circle given x is
    r I_1(kappa) / I_0(kappa) towards x.

    Args:
        radii: The radii r_k.
        sd: The standard deviation of the noise around the circles.

    Example:
        >>> Rings((0.3, 0.7)).draw(5, torch.Generator().manual_seed(0)).shape
        torch.Size([5, 2])
    """

    radii: tuple[float, ...] = (0.7,)
    sd: float = 0.05

    def __post_init__(self) -> None:
        if not self.radii:
            raise AttangentError("radii is empty; pass at least one radius")
        for radius in self.radii:
            check_positive("radius", radius)
        check_positive("sd", self.sd)

    @property
    def d(self) -> int:
        return 2

    def draw(self, n: int, rng: torch.Generator) -> Points:
        """Draw n points of x(0)."""
        angle = 2 * math.pi * torch.rand(check_size("n", n), generator=rng, dtype=torch.float64)
        which = torch.randint(0, len(self.radii), (n,), generator=rng)
        circle = torch.stack([angle.cos(), angle.sin()], dim=1) * self._radii[which, None]
        return circle + self.sd * torch.randn(n, 2, generator=rng, dtype=torch.float64)

    def log_density(self, process: ForwardProcess, t: Times, x: Points) -> Float[Tensor, " points"]:
        """Return log p_t(x)."""
        return torch.logsumexp(self._joint(*self._polar(process, t, x)), dim=1)

    def posterior_mean(self, process: ForwardProcess, t: Times, x: Points) -> Points:
        """Return c + alpha sd^2 / v (x - alpha c), c being the mean of the point on the circles."""
        length, alpha, v = self._polar(process, t, x)
        kappa = self._kappa(length, alpha, v)
        towards = self._radii * i1e(kappa) / i0e(kappa)
        share = torch.softmax(self._joint(length, alpha, v), dim=1)
        direction = x / length.clamp(min=torch.finfo(x.dtype).tiny)
        circle = (share * towards).sum(dim=1, keepdim=True) * direction
        return circle + alpha * self.sd**2 / v * (x - alpha * circle)

    @property
    def _radii(self) -> Tensor:
        return torch.tensor(self.radii, dtype=torch.float64)

    def _kappa(self, length: Tensor, alpha: Tensor, v: Tensor) -> Tensor:
        return alpha * self._radii * length / v

    def _polar(self, process: ForwardProcess, t: Times, x: Points) -> tuple[Tensor, Tensor, Tensor]:
        """Return |x|, alpha and v, all (points, 1)."""
        t = times_of(t, x)
        alpha = process.alpha(t)[:, None]
        return x.norm(dim=1, keepdim=True), alpha, alpha**2 * self.sd**2 + process.variance(t)[:, None]

    def _joint(self, length: Tensor, alpha: Tensor, v: Tensor) -> Tensor:
        """Return log p_t(x, circle k) (points, k)."""
        # i0e carries exp(-kappa), which completes the square and cannot overflow
        square = (length - alpha * self._radii).square() / (2 * v)
        bessel = torch.log(i0e(self._kappa(length, alpha, v)))
        return bessel - square - torch.log(2 * math.pi * v) - math.log(len(self.radii))


@dataclass(frozen=True, eq=False)
class ScoreData:
    """Triples (t_i, x(t_i)_i, y_i): the label y_i = x(0)_i is noisy, the true one is E[x(0) | x(t)].

    Args:
        t: (points,), the times.
        x: (points, d), the noised points.
        y: (points, d), the labels.
    """

    t: Float[Tensor, " points"]
    x: Float[Tensor, "points d"]
    y: Float[Tensor, "points d"]

    def __len__(self) -> int:
        return len(self.x)

    @property
    def d(self) -> int:
        return self.x.shape[1]

    def with_labels(self, y: Float[Tensor, "points d"]) -> "ScoreData":
        """Return the same points with other labels."""
        return replace(self, y=y)

    def clean(self, target: Target, process: ForwardProcess) -> "ScoreData":
        """Return the same points with their true labels E[x(0) | x(t)]."""
        return self.with_labels(target.posterior_mean(process, self.t, self.x))


def noised_data(
    points: Any, process: ForwardProcess, *, copies: int = 1, seed: int = 0, spacing: Spacing = "log"
) -> ScoreData:
    """Noise each row of your data `copies` times, each time to another random time.

    Args:
        points: (n, d), the clean points; validate on other points than you train on.
        process: The forward process.
        copies: Noised copies per point.
        seed: Seed of the times and the noise.
        spacing: Whether times are uniform in t or in log t.

    Returns:
        Data of n copies rows.

    Example:
        >>> len(noised_data([[0.0, 1.0], [1.0, 0.0]], ForwardProcess(), copies=3))
        6
    """
    x0 = as_matrix("points", points).repeat(check_size("copies", copies), 1)
    rng = generator(seed, "diffusion data")
    t = process.draw_times(len(x0), rng, spacing)
    return ScoreData(t, process.noised(x0, t, rng), x0)


def draw_data(
    target: Target, process: ForwardProcess, n: int, *, seed: int = 0, spacing: Spacing = "log"
) -> ScoreData:
    """Draw x(0) ~ p_0, t between T0 and T and x(t) ~ p_{t|0} (Section 6.1).

    Args:
        target: The distribution p_0.
        process: The forward process.
        n: How many triples to draw.
        seed: Seed of points, times and noise.
        spacing: Whether times are uniform in t or in log t.

    Returns:
        n triples (t, x(t), x(0)).

    Example:
        >>> from attangent.papers.p2_softmax.diffusion import GaussianMixture
        >>> data = draw_data(GaussianMixture.ring(modes=4), ForwardProcess(), n=100, seed=0)
        >>> data.x.shape, data.y.shape
        (torch.Size([100, 2]), torch.Size([100, 2]))
    """
    points = target.draw(n, generator(seed, "diffusion points"))
    return noised_data(points, process, seed=seed, spacing=spacing)
