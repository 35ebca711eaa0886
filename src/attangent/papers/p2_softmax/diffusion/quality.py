"""How good samples are: distances to true samples, and which modes they reach."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import torch
from scipy.special import gammaincinv
from torch import Tensor

from attangent._core.checks import check_positive, check_size
from attangent._core.errors import AttangentError
from attangent._core.memory import check_memory
from attangent._core.random import generator
from attangent.papers.p2_softmax.diffusion._inputs import as_points
from attangent.papers.p2_softmax.diffusion.mixture import GaussianMixture


def sliced_wasserstein(a: Any, b: Any, projections: int = 64, seed: int = 0) -> float:
    """The root of the mean over directions of the squared Wasserstein-2 distance of the projections.

    Two true samples of the same size are not at distance 0: compare with that floor.

    >>> points = torch.randn(200, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> bool(sliced_wasserstein(points, points) == 0)
    True
    """
    check_size("projections", projections)
    a = as_points("a", a)
    b = as_points("b", b, a.shape[1])
    if len(a) != len(b):
        raise AttangentError(f"a has {len(a)} points and b {len(b)}: give two samples of the same size")
    return _gap(*(_projected(x, projections, seed) for x in (a, b)))


def _projected(x: Tensor, projections: int = 64, seed: int = 0) -> Tensor:
    """The points along random directions, sorted (projections, points)."""
    rng = generator(seed, "slices")
    check_memory("the projections", projections=projections, points=max(x.shape))
    directions = torch.randn(projections, x.shape[1], generator=rng, dtype=torch.float64)
    return (directions / directions.norm(dim=1, keepdim=True) @ x.T).sort(dim=1).values


def _gap(a: Tensor, b: Tensor) -> float:
    return (a - b).square().mean().sqrt().item()


def mmd(a: Any, b: Any, bandwidth: float | None = None) -> float:
    """Squared maximum mean discrepancy with the kernel exp(-|x - y|^2 / (2 bandwidth^2)), unbiased.

    It is 0 on average, and so at times negative, for samples of one distribution. The bandwidth is the median
    distance between the samples unless given.
    """
    a = as_points("a", a)
    b = as_points("b", b, a.shape[1])
    if min(len(a), len(b)) < 2:
        raise AttangentError(f"a has {len(a)} points and b {len(b)}, expected at least 2 of each")
    between = torch.cdist(a, b)
    scale = between.median().item() if bandwidth is None else check_positive("bandwidth", bandwidth)
    if scale == 0:
        raise AttangentError("the median distance between a and b is 0: give a bandwidth above 0")
    inside = sum(_mean_off_diagonal(_gaussian(torch.cdist(x, x), scale)) for x in (a, b))
    return (inside - 2 * _gaussian(between, scale).mean()).item()


def _gaussian(distance: Tensor, scale: float) -> Tensor:
    return torch.exp(-0.5 * (distance / scale).square())


def _mean_off_diagonal(K: Tensor) -> Tensor:
    n = len(K)
    return (K.sum() - K.diagonal().sum()) / (n * (n - 1))


@dataclass(frozen=True)
class Coverage:
    """Where samples lie among the modes of a mixture."""

    covered: int
    """Modes with at least half of the samples that are due to them."""
    modes: int
    strays: float
    """The share of samples outside of the ellipsoids that hold 99 % of each component."""
    imbalance: float
    """Half the sum over modes of |share - weight|, strays left out: 0 is balanced."""


def mode_coverage(samples: Any, target: GaussianMixture) -> Coverage:
    """Each sample counted to its nearest component. Give the mixture at the samples' time: `target.at`."""
    samples = as_points("samples", samples, target.d)
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
    """Mean sliced Wasserstein distance of samples to true ones, beside that of true ones to each other."""

    distance: float
    floor: float

    @property
    def ratio(self) -> float:
        """1 where the samples cannot be told from true ones."""
        return self.distance / self.floor


def sample_quality(samples: Any, truth: Any, groups: int = 8) -> SampleQuality:
    """Samples and true samples cut into `groups` each: the mean over pairs of groups, to calm its noise.

    The floor depends on the size of a group, and so does the distance: compare only equal sizes.
    """
    samples = as_points("samples", samples)
    truth = as_points("truth", truth, samples.shape[1])
    size = min(len(samples), len(truth)) // groups
    if groups < 2 or size < 2:
        raise AttangentError(f"{len(samples)} samples and {len(truth)} true ones cannot fill {groups} groups")
    found, true = ([_projected(part) for part in x[: groups * size].split(size)] for x in (samples, truth))
    return SampleQuality(_mean_gap(product(found, true)), _mean_gap(combinations(true, 2)))


def _mean_gap(pairs: Iterable[tuple[Tensor, Tensor]]) -> float:
    gaps = [_gap(a, b) for a, b in pairs]
    return sum(gaps) / len(gaps)
