"""The weighting g(t) > 0 of the forward process (P2 Eq. 3) with its integral."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from attangent._core.arrays import as_double
from attangent._core.checks import check_positive, check_size
from attangent._core.errors import AttangentError
from attangent._core.memory import check_memory


class Schedule(Protocol):
    """A bounded, almost everywhere continuous g (Assumption 6.3)."""

    def g(self, t: Tensor) -> Tensor: ...
    def integral(self, t: Tensor) -> Tensor:
        """The integral of g from 0 to t."""
        ...


@dataclass(frozen=True)
class ConstantSchedule:
    """g(t) = level."""

    level: float = 1.0

    def __post_init__(self) -> None:
        check_positive("level", self.level)

    def g(self, t: Tensor) -> Tensor:
        return torch.full_like(t, self.level)

    def integral(self, t: Tensor) -> Tensor:
        return self.level * t


@dataclass(frozen=True)
class LinearSchedule:
    """g(t) = first + (last - first) t / T up to T, then last: slow noising first where last > first."""

    first: float
    last: float
    T: float

    def __post_init__(self) -> None:
        for name in ("first", "last", "T"):
            check_positive(name, getattr(self, name))

    def g(self, t: Tensor) -> Tensor:
        return self.first + (self.last - self.first) * t.clamp(max=self.T) / self.T

    def integral(self, t: Tensor) -> Tensor:
        t = as_double("t", t)
        if (t < 0).any():
            raise AttangentError(f"t goes down to {t.min():g}: expected times from 0 on")
        rising = t.clamp(max=self.T)
        slope = (self.last - self.first) / self.T
        return self.first * rising + slope * rising.square() / 2 + self.last * (t - rising)


@dataclass(frozen=True)
class NumericSchedule:
    """Any g given as a function of a tensor of times, integrated by Gauss-Legendre panels up to T.

    Exact to round-off where g is smooth; name the places where it jumps in `jumps`.
    """

    function: Callable[[Tensor], Tensor]
    T: float
    jumps: tuple[float, ...] = ()
    panels: int = 64
    _nodes: Tensor = field(init=False, repr=False, compare=False)
    _weights: Tensor = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_positive("T", self.T)
        check_memory("the integral's table", panels=check_size("panels", self.panels), nodes=12)
        nodes, weights = np.polynomial.legendre.leggauss(12)
        object.__setattr__(self, "_nodes", torch.as_tensor(nodes + 1) / 2)
        object.__setattr__(self, "_weights", torch.as_tensor(weights) / 2)
        lowest = self.g(torch.linspace(0, self.T, 1001, dtype=torch.float64)).min()
        if not lowest > 0:
            raise AttangentError(
                f"g falls to {lowest:.3g} before T={self.T:g}, expected it above 0 throughout"
            )

    def g(self, t: Tensor) -> Tensor:
        return torch.as_tensor(self.function(t)).double().expand_as(t)

    def integral(self, t: Tensor) -> Tensor:
        t = t.double()
        if t.numel() == 0:
            return t
        if (t > self.T * (1 + 1e-12)).any():
            raise AttangentError(f"t goes up to {t.max():g}, but this schedule was given up to T={self.T:g}")
        edges, sums = self._table
        panel = (torch.searchsorted(edges, t.contiguous(), right=True) - 1).clamp(0, len(edges) - 2)
        return sums[panel] + self._panel(edges[panel], t)

    def _panel(self, start: Tensor, stop: Tensor) -> Tensor:
        """The integral of g between pairs of times with no jump between them."""
        width = (stop - start)[..., None]
        values = self.g((start[..., None] + width * self._nodes).reshape(-1)).reshape(*width.shape[:-1], -1)
        return (width * self._weights * values).sum(dim=-1)

    @cached_property
    def _table(self) -> tuple[Tensor, Tensor]:
        even = torch.linspace(0, self.T, self.panels + 1, dtype=torch.float64)
        inside = [jump for jump in self.jumps if 0 < jump < self.T]
        edges = torch.cat([even, torch.tensor(inside, dtype=torch.float64)]).unique()
        sums = self._panel(edges[:-1], edges[1:]).cumsum(0)
        return edges, torch.cat([torch.zeros(1, dtype=torch.float64), sums])
