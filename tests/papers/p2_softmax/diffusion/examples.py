"""A small problem that the tests of the room share."""

import math

import torch

from attangent.papers.p2_softmax.diffusion import (
    Descent,
    ForwardProcess,
    GaussianMixture,
    Rings,
    SoftmaxScore,
    draw_data,
)

PROCESS = ForwardProcess()
TARGET = GaussianMixture.ring()
DATA = draw_data(TARGET, PROCESS, 120, seed=0)
VALIDATION = draw_data(TARGET, PROCESS, 120, seed=1)
TEST = draw_data(TARGET, PROCESS, 500, seed=2)


def tilted(d: int = 3) -> GaussianMixture:
    """Three components with covariances of their own."""
    rng = torch.Generator().manual_seed(d)
    A = torch.randn(3, d, d, generator=rng, dtype=torch.float64)
    means = torch.randn(3, d, generator=rng, dtype=torch.float64)
    covariances = 0.1 * (A @ A.mT + torch.eye(d, dtype=torch.float64))
    return GaussianMixture.full(means, covariances, torch.tensor([1.0, 2.0, 3.0]))


TARGETS = {
    "ring of modes": TARGET,
    "Gaussian": GaussianMixture.spherical([[0.3, -0.2]], 0.4),
    "tilted, d=3": tilted(3),
    "one dimension": GaussianMixture.spherical([[-1.0], [0.5]], 0.2, [0.3, 0.7]),
    "rings": Rings((0.3, 0.7), 0.05),
}


def softmax(m: int = 64, steps: int = 40, **changes) -> SoftmaxScore:
    options = {"trainer": Descent(steps, 1.5), "seed": 3, **changes}
    return SoftmaxScore(PROCESS, m, **options)


def circle_of_modes(radius: float, sd: float, modes: int = 400) -> GaussianMixture:
    """A numeric reference for a ring: so many modes that they cannot be told apart."""
    angles = torch.arange(modes).double() * (2 * math.pi / modes)
    return GaussianMixture.spherical(radius * torch.stack([angles.cos(), angles.sin()], dim=1), sd)
