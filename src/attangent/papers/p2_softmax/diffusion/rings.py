"""Noisy circles in the plane: a target that is no mixture, with Bessel functions for its score."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.special import i0e, i1e

from attangent._core.checks import check_positive, check_size
from attangent._core.errors import AttangentError
from attangent._core.memory import check_memory
from attangent.papers.p2_softmax.diffusion._inputs import as_points, as_times
from attangent.papers.p2_softmax.diffusion.process import ForwardProcess


@dataclass(frozen=True)
class Rings:
    """x(0) = r_k (cos u, sin u) + sd z with u uniform and the circle k drawn evenly.

    With v = alpha^2 sd^2 + 1 - alpha^2 and kappa = alpha r |x| / v the density of x(t) on circle k is
    exp(-(|x|^2 + alpha^2 r^2) / (2 v)) I_0(kappa) / (2 pi v), and the mean of the point on the circle given x
    is r I_1(kappa) / I_0(kappa) towards x.
    """

    radii: tuple[float, ...] = (0.7,)
    sd: float = 0.05

    def __post_init__(self) -> None:
        if not self.radii:
            raise AttangentError("radii is empty, expected at least one radius")
        for radius in self.radii:
            check_positive("radius", radius)
        check_positive("sd", self.sd)

    @property
    def d(self) -> int:
        return 2

    def draw(self, n: int, rng: torch.Generator) -> Tensor:
        """n points of x(0)."""
        check_memory("the points", n=check_size("n", n), d=2)
        angle = 2 * math.pi * torch.rand(n, generator=rng, dtype=torch.float64)
        which = torch.randint(0, len(self.radii), (n,), generator=rng)
        circle = torch.stack([angle.cos(), angle.sin()], dim=1) * self._radii[which, None]
        return circle + self.sd * torch.randn(n, 2, generator=rng, dtype=torch.float64)

    def log_density(self, process: ForwardProcess, t: Any, x: Any) -> Tensor:
        return torch.logsumexp(self._joint(*self._parts(process, t, x)), dim=1)

    def posterior_mean(self, process: ForwardProcess, t: Any, x: Any) -> Tensor:
        """c + alpha sd^2 / v (x - alpha c), with c the mean of the point on the circles."""
        x = as_points("x", x, 2)
        length, alpha, v = self._parts(process, t, x)
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

    def _parts(self, process: ForwardProcess, t: Any, x: Any) -> tuple[Tensor, Tensor, Tensor]:
        """|x|, alpha and v, all (points, 1)."""
        x = as_points("x", x, 2)
        t = as_times(t, len(x))
        alpha = process.alpha(t)[:, None]
        return x.norm(dim=1, keepdim=True), alpha, alpha**2 * self.sd**2 + process.variance(t)[:, None]

    def _joint(self, length: Tensor, alpha: Tensor, v: Tensor) -> Tensor:
        """log p_t(x, circle k) (points, k); i0e carries exp(-kappa), which completes the square."""
        square = (length - alpha * self._radii).square() / (2 * v)
        bessel = torch.log(i0e(self._kappa(length, alpha, v)))
        return bessel - square - torch.log(2 * math.pi * v) - math.log(len(self.radii))
