"""The forward process dx = -g x/2 dt + sqrt(g) dB (P2 Eq. 3) and its times."""

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from attangent._core.arrays import fitted
from attangent._core.checks import check_choice, check_positive, check_size
from attangent._core.errors import AttangentError
from attangent._core.memory import check_memory
from attangent.papers.p2_softmax.diffusion._inputs import as_points, as_times
from attangent.papers.p2_softmax.diffusion.schedule import ConstantSchedule, Schedule

Spacing = Literal["log", "uniform"]


@dataclass(frozen=True)
class ForwardProcess:
    """x(t) = alpha x(0) + sqrt(1 - alpha^2) z with alpha = exp(-1/2 int_0^t g) and z ~ N(0, I) (Section 6.1).

    Times run from T0, where the score of concentrated data is still finite, to T, where hardly anything of
    the data is left.

    >>> process = ForwardProcess(T=5.0)
    >>> process.alpha(torch.tensor([0.0, 2.0]))
    tensor([1.0000, 0.3679])
    """

    schedule: Schedule = ConstantSchedule(1.0)  # noqa: RUF009 (frozen)
    T: float = 5.0
    T0: float = 0.02

    def __post_init__(self) -> None:
        check_positive("T", self.T)
        check_positive("T0", self.T0)
        if self.T0 >= self.T:
            raise AttangentError(f"T0 is {self.T0:g} and T is {self.T:g}, expected T0 below T")

    def alpha(self, t: Tensor) -> Tensor:
        """What is left of x(0) at time t."""
        return torch.exp(-0.5 * self.schedule.integral(t))

    def variance(self, t: Tensor) -> Tensor:
        """1 - alpha^2, the variance of the noise at time t, exact for small t too."""
        return -torch.expm1(-self.schedule.integral(t))

    def noised(self, x0: Any, t: Any, rng: torch.Generator) -> Tensor:
        """A draw of x(t) given x(0), one row a point."""
        x0 = as_points("x0", x0)
        t = as_times(t, len(x0))
        noise = torch.randn(x0.shape, generator=rng, dtype=torch.float64)
        return self.alpha(t)[:, None] * x0 + self.variance(t).sqrt()[:, None] * noise

    def score(self, posterior_mean: Tensor, t: Any, x: Tensor) -> Tensor:
        """grad log p_t(x) = (alpha E[x(0) | x(t) = x] - x) / (1 - alpha^2)."""
        x = as_points("x", x)
        posterior_mean = fitted("posterior_mean", posterior_mean, x, *x.shape)
        t = as_times(t, len(x))
        if (self.variance(t) <= 0).any():
            raise AttangentError("t is 0 somewhere, where the data have no density: expected times above 0")
        return (self.alpha(t)[:, None] * posterior_mean - x) / self.variance(t)[:, None]

    def place(self, share: Tensor, spacing: Spacing = "log") -> Tensor:
        """Times at shares 0..1 of the way from T0 to T, even in t or in log t."""
        check_choice("spacing", spacing, get_args(Spacing))
        if spacing == "uniform":
            return self.T0 + (self.T - self.T0) * share
        return self.T0 * torch.exp(share * math.log(self.T / self.T0))

    def grid(self, steps: int, spacing: Spacing = "log") -> Tensor:
        """steps + 1 times from T down to T0, as the samplers walk them."""
        check_memory("the times", steps=check_size("steps", steps))
        return self.place(torch.linspace(1, 0, steps + 1, dtype=torch.float64), spacing)

    def draw_times(self, n: int, rng: torch.Generator, spacing: Spacing = "log") -> Tensor:
        """n random times. The paper draws them uniformly; log-uniform ones see the small times too."""
        check_memory("the times", n=check_size("n", n))
        return self.place(torch.rand(n, generator=rng, dtype=torch.float64), spacing)
