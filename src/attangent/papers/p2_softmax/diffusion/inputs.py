"""Maps of (t, x(t)) into the unit ball, where Assumption 6.1 wants the inputs of the network.

The choice of map matters more than the choice of model: see docs/diffusion.md.
"""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from attangent._core.checks import check_positive
from attangent.papers.p2_softmax.diffusion.process import ForwardProcess

Times = Float[Tensor, " points"]
Points = Float[Tensor, "points d"]
Inputs = Float[Tensor, "points columns"]


@runtime_checkable
class InputMap(Protocol):
    """(t, x) -> inputs (points, columns) with |input| <= 1.

    Attributes:
        columns: Function from the dimension d of x to the number of columns.
    """

    def __call__(self, process: ForwardProcess, t: Times, x: Points) -> Inputs: ...
    def columns(self, d: int) -> int: ...


@dataclass(frozen=True)
class PaperInputs:
    """(constant, time u, x / reach) scaled into the ball: the paper's (t, x(t)) with a constant coordinate.

    u runs from 0 at T0 to 1 at T in log t. Without the constant, F(W, 0) = 0 for every W. This map assumes
    nothing about the data, but the network learns small times last: there the target changes within the width
    of the noise.

    Args:
        reach: Points farther from the origin are moved back to this distance.
        constant: The constant coordinate.
        time: The factor of u.
    """

    reach: float = 2.0
    constant: float = 0.5
    time: float = 0.5

    def __post_init__(self) -> None:
        for name in ("reach", "constant", "time"):
            check_positive(name, getattr(self, name))

    def columns(self, d: int) -> int:
        return d + 2

    def __call__(self, process: ForwardProcess, t: Times, x: Points) -> Inputs:
        near = x / self.reach
        near = near / near.norm(dim=1, keepdim=True).clamp(min=1.0)
        return _into_ball(process, t, near, self.constant, self.time)


@dataclass(frozen=True)
class NaturalInputs:
    """(constant, time u, squashed gain alpha x / (1 - alpha^2 + floor)): the argument of a mixture's softmax.

    The posterior mean of a mixture with spherical components of variance v is a softmax that is linear in
    alpha x / (alpha^2 v + 1 - alpha^2); `floor` stands for v. z -> z / (1 + |z|) maps it into the ball.
    Small times are enlarged, so this map is usually the better one. A high gain bends the map, which costs
    accuracy if the posterior mean is linear, as for a single wide Gaussian.

    Args:
        gain: The factor of alpha x before squashing.
        floor: The variance v that the map assumes.
        constant: The constant coordinate.
        time: The factor of u.
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

    def __call__(self, process: ForwardProcess, t: Times, x: Points) -> Inputs:
        z = self.gain * process.alpha(t)[:, None] * x / (process.variance(t)[:, None] + self.floor)
        return _into_ball(process, t, z / (1 + z.norm(dim=1, keepdim=True)), self.constant, self.time)


def _into_ball(process: ForwardProcess, t: Times, x: Points, constant: float, time: float) -> Inputs:
    """Return (constant, time u, x) scaled to a norm of at most 1 for |x| <= 1; u is linear in log t."""
    u = torch.log(t.clamp(process.T0, process.T) / process.T0) / math.log(process.T / process.T0)
    inputs = torch.cat([torch.full_like(u, constant)[:, None], time * u[:, None], x], dim=1)
    return inputs / math.sqrt(constant**2 + time**2 + 1)
