"""The forward process dx = -g x/2 dt + sqrt(g) dB (P2 Eq. 3), its schedules g and its times."""

import math
from dataclasses import dataclass
from typing import Literal, Protocol, get_args, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from attangent._core.checks import check_choice, check_positive, check_size
from attangent._core.errors import AttangentError

Spacing = Literal["log", "uniform"]
Times = float | Float[Tensor, ""] | Float[Tensor, " points"]
"""One time for all points, or one per point."""


@runtime_checkable
class Schedule(Protocol):
    """A bounded, almost everywhere continuous g > 0 (Assumption 6.3)."""

    def g(self, t: Float[Tensor, "*times"]) -> Float[Tensor, "*times"]: ...
    def integral(self, t: Float[Tensor, "*times"]) -> Float[Tensor, "*times"]:
        """Return the integral of g from 0 to t."""
        ...


@dataclass(frozen=True)
class ConstantSchedule:
    """g(t) = level.

    Args:
        level: The value of g, above 0.

    Example:
        >>> ConstantSchedule(2.0).integral(torch.tensor(3.0))
        tensor(6.)
    """

    level: float = 1.0

    def __post_init__(self) -> None:
        check_positive("level", self.level)

    def g(self, t: Float[Tensor, "*times"]) -> Float[Tensor, "*times"]:
        return torch.full_like(t, self.level)

    def integral(self, t: Float[Tensor, "*times"]) -> Float[Tensor, "*times"]:
        return self.level * t


@dataclass(frozen=True)
class LinearSchedule:
    """g(t) = first + (last - first) t / T up to T, then last.

    Args:
        first: g(0), above 0.
        last: g(T), above 0.
        T: The time from which g is constant.

    Example:
        >>> LinearSchedule(first=1.0, last=3.0, T=2.0).integral(torch.tensor(2.0))
        tensor(4.)
    """

    first: float
    last: float
    T: float

    def __post_init__(self) -> None:
        for name in ("first", "last", "T"):
            check_positive(name, getattr(self, name))

    def g(self, t: Float[Tensor, "*times"]) -> Float[Tensor, "*times"]:
        return self.first + (self.last - self.first) * t.clamp(max=self.T) / self.T

    def integral(self, t: Float[Tensor, "*times"]) -> Float[Tensor, "*times"]:
        rising = t.clamp(max=self.T)
        slope = (self.last - self.first) / self.T
        return self.first * rising + slope * rising.square() / 2 + self.last * (t - rising)


@dataclass(frozen=True)
class ForwardProcess:
    """x(t) = alpha x(0) + sqrt(1 - alpha^2) z with alpha = exp(-1/2 int_0^t g) and z ~ N(0, I) (Section 6.1).

    Args:
        schedule: The weighting g.
        T: The last time, when hardly anything of the data is left.
        T0: The first time, above 0 because the score of concentrated data is infinite at 0.

    Example:
        >>> process = ForwardProcess(T=5.0)
        >>> process.alpha(torch.tensor([0.0, 2.0]))
        tensor([1.0000, 0.3679])
    """

    schedule: Schedule = ConstantSchedule(1.0)
    T: float = 5.0
    T0: float = 0.02

    def __post_init__(self) -> None:
        check_positive("T", self.T)
        check_positive("T0", self.T0)
        if self.T0 >= self.T:
            raise AttangentError(f"T0 is {self.T0:g} and T is {self.T:g}; T0 must be below T")

    def alpha(self, t: Float[Tensor, "*times"]) -> Float[Tensor, "*times"]:
        """Return exp(-1/2 int_0^t g), the factor of x(0) at time t."""
        return torch.exp(-0.5 * self.schedule.integral(t))

    def variance(self, t: Float[Tensor, "*times"]) -> Float[Tensor, "*times"]:
        """Return 1 - alpha^2, the variance of the noise at time t."""
        # expm1 keeps all digits at small t, where 1 - alpha^2 would cancel
        return -torch.expm1(-self.schedule.integral(t))

    def noised(self, x0: Float[Tensor, "points d"], t: Times, rng: torch.Generator) -> Tensor:
        """Draw x(t) (points, d) given x(0)."""
        t = times_of(t, x0)
        noise = torch.randn(x0.shape, generator=rng, dtype=torch.float64)
        return self.alpha(t)[:, None] * x0 + self.variance(t).sqrt()[:, None] * noise

    def score(
        self, posterior_mean: Float[Tensor, "points d"], t: Times, x: Float[Tensor, "points d"]
    ) -> Float[Tensor, "points d"]:
        """Return grad log p_t(x) = (alpha E[x(0) | x(t) = x] - x) / (1 - alpha^2)."""
        t = times_of(t, x)
        return (self.alpha(t)[:, None] * posterior_mean - x) / self.variance(t)[:, None]

    def grid(self, steps: int) -> Float[Tensor, " times"]:
        """Return steps + 1 times from T down to T0, evenly spaced in log t."""
        check_size("steps", steps)
        return self._between(torch.linspace(1, 0, steps + 1, dtype=torch.float64), "log")

    def draw_times(self, n: int, rng: torch.Generator, spacing: Spacing = "log") -> Float[Tensor, " n"]:
        """Draw n times from T0 to T: uniformly like the paper, or log-uniformly to cover small times."""
        check_size("n", n)
        return self._between(torch.rand(n, generator=rng, dtype=torch.float64), spacing)

    def _between(self, share: Tensor, spacing: Spacing) -> Tensor:
        """Return the times at shares 0..1 of the way from T0 to T, measured in t or in log t."""
        check_choice("spacing", spacing, get_args(Spacing))
        if spacing == "uniform":
            return self.T0 + (self.T - self.T0) * share
        return self.T0 * torch.exp(share * math.log(self.T / self.T0))


def times_of(t: Times, x: Tensor) -> Tensor:
    """Return `t` as float64 times (points,), one per row of x."""
    return torch.as_tensor(t, dtype=torch.float64).expand(len(x))
