"""Maps of (t, x(t)) into the unit ball, as Assumption 6.1 wants the inputs of the network.

Which one is used matters more than which model reads it: see docs/diffusion.md.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from attangent._core.checks import check_positive
from attangent.papers.p2_softmax.diffusion.process import ForwardProcess


class InputMap(Protocol):
    """(t, x) -> inputs (points, columns) with |input| <= 1."""

    def __call__(self, process: ForwardProcess, t: Tensor, x: Tensor) -> Tensor: ...
    def columns(self, d: int) -> int: ...


@dataclass(frozen=True)
class PaperInputs:
    """(constant, time u, x / reach) scaled into the ball: the paper's (t, x(t)) with a constant coordinate.

    u runs from 0 at T0 to 1 at T in log t. Without the constant F(W, 0) = 0 whatever W is. Points beyond
    `reach` are drawn back to it. Nothing is assumed of the data; small times, where the target changes within
    the width of the noise, are learned last.
    """

    reach: float = 2.0
    constant: float = 0.5
    time: float = 0.5

    def __post_init__(self) -> None:
        for name in ("reach", "constant", "time"):
            check_positive(name, getattr(self, name))

    def columns(self, d: int) -> int:
        return d + 2

    def __call__(self, process: ForwardProcess, t: Tensor, x: Tensor) -> Tensor:
        near = x / self.reach
        near = near / near.norm(dim=1, keepdim=True).clamp(min=1.0)
        return _into_ball(process, t, near, self.constant, self.time)


@dataclass(frozen=True)
class NaturalInputs:
    """(constant, time u, squashed gain alpha x / (1 - alpha^2 + floor)): what the softmax of a mixture reads.

    The posterior mean of a mixture with spherical components of variance v is a softmax that is linear in
    alpha x / (alpha^2 v + 1 - alpha^2); `floor` stands for v. z -> z / (1 + |z|) brings it into the ball.
    Take it first: small times are seen enlarged. A high gain bends the map, which costs accuracy where the
    posterior mean is linear, as for a single wide Gaussian.
    """

    gain: float = 0.3
    floor: float = 0.05
    constant: float = 0.5
    time: float = 0.3

    def __post_init__(self) -> None:
        for name in ("gain", "floor", "constant", "time"):
            check_positive(name, getattr(self, name))

    def columns(self, d: int) -> int:
        return d + 2

    def __call__(self, process: ForwardProcess, t: Tensor, x: Tensor) -> Tensor:
        z = self.gain * process.alpha(t)[:, None] * x / (process.variance(t)[:, None] + self.floor)
        return _into_ball(process, t, z / (1 + z.norm(dim=1, keepdim=True)), self.constant, self.time)


def _into_ball(process: ForwardProcess, t: Tensor, x: Tensor, constant: float, time: float) -> Tensor:
    """(constant, time u, x) scaled so that its norm is at most 1 where |x| is; u is the share of log t."""
    u = torch.log(t.clamp(process.T0, process.T) / process.T0) / math.log(process.T / process.T0)
    inputs = torch.cat([torch.full_like(u, constant)[:, None], time * u[:, None], x], dim=1)
    return inputs / math.sqrt(constant**2 + time**2 + 1)
