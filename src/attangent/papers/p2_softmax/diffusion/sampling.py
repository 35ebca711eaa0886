"""Sampling by the backward SDE or the probability-flow ODE (P2 Section 6.1), and their quality."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations, pairwise, product
from typing import Literal, Protocol, get_args, runtime_checkable

import torch
from jaxtyping import Float
from scipy.special import gammaincinv
from torch import Tensor

from attangent._core.checks import check_choice, check_positive, check_size
from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent.papers.p2_softmax.diffusion.process import ForwardProcess, Times
from attangent.papers.p2_softmax.diffusion.targets import GaussianMixture, Points

Method = Literal["sde", "ode"]
_BATCH = 4096


@runtime_checkable
class Scorer(Protocol):
    """Anything with a score at diffusion time t, where t = 0 is clean data."""

    @property
    def d(self) -> int: ...
    def score(self, t: Times, x: Points) -> Points: ...


def sample(
    score: Scorer, process: ForwardProcess, n: int, method: Method = "sde", *, steps: int = 200, seed: int = 0
) -> Float[Tensor, "n d"]:
    """Draw samples of x(T0), walking back from N(0, I) at time T.

    Let u = T - t be the time that the backward process has run. The SDE is
    dy = g (y/2 + s(y, t)) du + sqrt(g) dB, with the score evaluated at t = T - u. The paper prints
    s(y(u), u), the score of clean data at the time of most noise. The ODE dy = g (y + s(y, t)) / 2 du has the
    same marginals and no noise. Steps are measured in the integral of g: all schedules are walked like g = 1.

    Args:
        score: An estimator.
        process: The forward process.
        n: How many samples to draw.
        method: `sde` takes Euler-Maruyama steps, `ode` Heun steps.
        steps: Steps from T to T0, evenly spaced in log t.
        seed: Seed of the start and of the noise.

    Returns:
        Samples that carry the noise of time T0. `estimator.posterior_mean(process.T0, samples)` estimates the
        clean points, which are more spread out than these estimates.

    Example:
        >>> from attangent.papers.p2_softmax.diffusion import ExactScore, ForwardProcess, GaussianMixture
        >>> process, target = ForwardProcess(), GaussianMixture.ring(modes=4)
        >>> sample(ExactScore(process, target), process, n=50, steps=20).shape
        torch.Size([50, 2])
    """
    check_size("n", n)
    check_choice("method", method, get_args(Method))
    times = process.grid(steps)
    walk = _euler_maruyama if method == "sde" else _heun
    rng = generator(seed, f"sampling by {method}")
    batches = torch.randn(n, score.d, generator=rng, dtype=torch.float64).split(_BATCH)
    return torch.cat([walk(batch, score.score, process, times, rng) for batch in batches])


def _euler_maruyama(
    y: Tensor, score: Callable, process: ForwardProcess, times: Tensor, rng: torch.Generator
) -> Tensor:
    for t, step in _steps(process, times):
        noise = torch.randn(y.shape, generator=rng, dtype=y.dtype)
        y = y + step * (0.5 * y + score(t, y)) + step.sqrt() * noise
    return y


def _heun(y: Tensor, score: Callable, process: ForwardProcess, times: Tensor, rng: torch.Generator) -> Tensor:
    for (t, step), end in zip(_steps(process, times), times[1:], strict=True):
        slope = 0.5 * (y + score(t, y))
        guess = y + step * slope
        y = y + 0.5 * step * (slope + 0.5 * (guess + score(end, guess)))
    return y


def _steps(process: ForwardProcess, times: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return (time at the start of a step, integral of g over the step) from T down to T0."""
    return [(t, process.schedule.integral(t) - process.schedule.integral(end)) for t, end in pairwise(times)]


def sliced_wasserstein(
    a: Float[Tensor, "n d"], b: Float[Tensor, "n d"], projections: int = 64, seed: int = 0
) -> float:
    """Return the root of the mean over directions of the squared Wasserstein-2 distance of the projections.

    Two true samples of the same size are not at distance 0: compare with that floor.

    Args:
        a: Samples.
        b: Other samples, as many as in `a`.
        projections: The number of random directions.
        seed: Seed of the directions.

    Returns:
        The distance.

    Example:
        >>> points = torch.randn(200, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        >>> sliced_wasserstein(points, points)
        0.0
    """
    check_size("projections", projections)
    return _distance(*(_projected(x, projections, seed) for x in (a, b)))


def _projected(x: Tensor, projections: int = 64, seed: int = 0) -> Tensor:
    """Return the points along random directions, sorted (projections, points)."""
    rng = generator(seed, "slices")
    directions = torch.randn(projections, x.shape[1], generator=rng, dtype=torch.float64)
    return (directions / directions.norm(dim=1, keepdim=True) @ x.T).sort(dim=1).values


def _distance(a: Tensor, b: Tensor) -> float:
    return (a - b).square().mean().sqrt().item()


def mmd(a: Float[Tensor, "n d"], b: Float[Tensor, "m d"], bandwidth: float | None = None) -> float:
    """Estimate the squared maximum mean discrepancy with the kernel exp(-|x - y|^2 / (2 bandwidth^2)).

    Args:
        a: Two or more samples.
        b: Two or more other samples.
        bandwidth: The width of the kernel, by default the median distance between the samples.

    Returns:
        The estimate; for samples of one distribution it is 0 on average and sometimes negative.

    Raises:
        AttangentError: If the bandwidth is not above 0.
    """
    between = torch.cdist(a, b)
    scale = check_positive("bandwidth", between.median().item() if bandwidth is None else bandwidth)
    within = sum(_mean_off_diagonal(_gaussian(torch.cdist(x, x), scale)) for x in (a, b))
    return (within - 2 * _gaussian(between, scale).mean()).item()


def _gaussian(distance: Tensor, scale: float) -> Tensor:
    return torch.exp(-0.5 * (distance / scale).square())


def _mean_off_diagonal(K: Tensor) -> Tensor:
    n = len(K)
    return (K.sum() - K.diagonal().sum()) / (n * (n - 1))


@dataclass(frozen=True)
class Coverage:
    """Where samples lie among the modes of a mixture.

    Attributes:
        covered: Number of modes with at least half of the samples expected there.
        modes: The number of modes.
        strays: Fraction of samples outside the ellipsoids that hold 99 % of each component.
        imbalance: Half the sum over modes of |share - weight| without strays; 0 is balanced.
    """

    covered: int
    modes: int
    strays: float
    imbalance: float


def mode_coverage(samples: Float[Tensor, "n d"], target: GaussianMixture) -> Coverage:
    """Assign each sample to its nearest component and count.

    Args:
        samples: The samples.
        target: The mixture at the time of the samples, `mixture.at(process, t)`.

    Returns:
        Which modes the samples reach, and how evenly.
    """
    z = samples[:, None, :] - target.means
    if target.axes is not None:
        z = torch.einsum("kji,nkj->nki", target.axes, z)
    distance, nearest = (z.square() / target.variances).sum(dim=2).min(dim=1)
    inside = distance <= 2 * float(gammaincinv(target.d / 2, 0.99))  # the 99 % quantile of chi^2
    counts = torch.bincount(nearest[inside], minlength=len(target.means)).double()
    share = counts / counts.sum().clamp(min=1)
    return Coverage(
        covered=int((counts >= 0.5 * target.weights * len(samples)).sum()),
        modes=len(target.means),
        strays=1 - inside.double().mean().item(),
        imbalance=0.5 * (share - target.weights).abs().sum().item(),
    )


@dataclass(frozen=True)
class SampleQuality:
    """Mean sliced Wasserstein distance of samples to true ones, and of true ones to each other.

    Attributes:
        distance: From samples to true samples.
        floor: From true samples to true samples.
    """

    distance: float
    floor: float

    @property
    def ratio(self) -> float:
        """distance / floor, 1 if the samples cannot be distinguished from true ones."""
        return self.distance / self.floor


def sample_quality(
    samples: Float[Tensor, "n d"], truth: Float[Tensor, "m d"], groups: int = 8
) -> SampleQuality:
    """Compare samples with true ones, averaging over pairs of groups to reduce the noise.

    Args:
        samples: The samples.
        truth: True samples.
        groups: Number of groups into which both are cut; compare only results with groups of equal size.

    Returns:
        The distance and its floor.

    Raises:
        AttangentError: If there are not two groups, or not two samples per group.
    """
    if groups < 2:
        raise AttangentError(f"groups is {groups}, expected at least 2")
    size = min(len(samples), len(truth)) // groups
    if size < 2:
        raise AttangentError(
            f"{len(samples)} samples and {len(truth)} true ones cannot fill {groups} groups; pass more"
        )
    drawn, true = ([_projected(group) for group in x[: groups * size].split(size)] for x in (samples, truth))
    return SampleQuality(_mean_distance(product(drawn, true)), _mean_distance(combinations(true, 2)))


def _mean_distance(pairs: Iterable[tuple[Tensor, Tensor]]) -> float:
    distances = [_distance(a, b) for a, b in pairs]
    return sum(distances) / len(distances)
