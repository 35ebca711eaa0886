"""Inputs of a score network, the interface of estimators (fit, posterior_mean, score), and errors."""

import copy
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from attangent._core.checks import check_positive
from attangent._core.errors import AttangentError
from attangent.papers.p2_softmax.diffusion.process import ForwardProcess, Times, times_of
from attangent.papers.p2_softmax.diffusion.targets import Points, ScoreData, Target

Moments = Float[Tensor, " points"]
"""One time per point."""
Inputs = Float[Tensor, "points columns"]


@runtime_checkable
class InputMap(Protocol):
    """(t, x) -> inputs (points, columns) with |input| <= 1.

    Attributes:
        columns: Function from the dimension d of x to the number of columns.
    """

    def __call__(self, process: ForwardProcess, t: Moments, x: Points) -> Inputs: ...
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

    def __call__(self, process: ForwardProcess, t: Moments, x: Points) -> Inputs:
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

    def __call__(self, process: ForwardProcess, t: Moments, x: Points) -> Inputs:
        z = self.gain * process.alpha(t)[:, None] * x / (process.variance(t)[:, None] + self.floor)
        return _into_ball(process, t, z / (1 + z.norm(dim=1, keepdim=True)), self.constant, self.time)


def _into_ball(process: ForwardProcess, t: Moments, x: Points, constant: float, time: float) -> Inputs:
    """Return (constant, time u, x) scaled to a norm of at most 1 for |x| <= 1; u is linear in log t."""
    u = torch.log(t.clamp(process.T0, process.T) / process.T0) / math.log(process.T / process.T0)
    inputs = torch.cat([torch.full_like(u, constant)[:, None], time * u[:, None], x], dim=1)
    return inputs / math.sqrt(constant**2 + time**2 + 1)


E = TypeVar("E", bound="ScoreEstimator")


class ScoreEstimator(ABC):
    """F(t, x), an estimate of E[x(0) | x(t) = x], and the score (alpha F - x) / (1 - alpha^2).

    Attributes:
        process: The forward process.
    """

    process: ForwardProcess
    _d: int | None = None

    @property
    def d(self) -> int:
        """The dimension of the data, known once the estimator is fitted."""
        if self._d is None:
            raise AttangentError(f"this {type(self).__name__} is not fitted; call fit(data) first")
        return self._d

    def at(self: E, step: int) -> E:
        """Return the estimator after `step` steps of its training, which must be a checkpoint."""
        other = copy.copy(self)
        other._d = self.d  # raises if there is nothing to copy yet
        return other._use(step)

    def _use(self: E, step: int) -> E:
        """Answer with the weights of this step from now on."""
        raise AttangentError(f"{type(self).__name__} is not trained in steps")

    @abstractmethod
    def fit(self: E, data: ScoreData, validation: ScoreData | None = None) -> E:
        """Learn from noisy labels; with `validation`, keep the step that fits its noisy labels best."""

    @abstractmethod
    def _mean(self, t: Tensor, x: Tensor) -> Tensor:
        """Return the estimate at times (points,) and points (points, d)."""

    def posterior_mean(self, t: Times, x: Points) -> Points:
        """Return F(t, x); t is one time or one per point."""
        if x.ndim != 2 or x.shape[1] != self.d:
            raise AttangentError(f"x has shape {tuple(x.shape)}; expected (points, {self.d})")
        return self._mean(times_of(t, x), x)

    def score(self, t: Times, x: Points) -> Points:
        """Return the estimate of grad log p_t(x)."""
        return self.process.score(self.posterior_mean(t, x), t, x)


class ExactScore(ScoreEstimator):
    """The true score of a known target; `fit` has nothing to learn.

    Args:
        process: The forward process.
        target: The known distribution of x(0).
    """

    def __init__(self, process: ForwardProcess, target: Target):
        self.process = process
        self.target = target
        self._d = target.d

    def fit(self, data: ScoreData, validation: ScoreData | None = None) -> "ExactScore":
        return self

    def _mean(self, t: Tensor, x: Tensor) -> Tensor:
        return self.target.posterior_mean(self.process, t, x)


def relative_error(estimator: ScoreEstimator, target: Target, test: ScoreData) -> float:
    """Return E|F - F*|^2 / E|F*|^2 over the points of `test`, with F* = E[x(0) | x(t)].

    Args:
        estimator: A fitted estimator.
        target: The known distribution of x(0).
        test: Times and points; the labels are not used.

    Returns:
        The relative error, 0 for the exact score.
    """
    true = target.posterior_mean(estimator.process, test.t, test.x)
    estimate = estimator.posterior_mean(test.t, test.x)
    return ((estimate - true).square().sum() / true.square().sum()).item()


def label_loss(estimator: ScoreEstimator, data: ScoreData) -> float:
    """Return the mean of |F - y|^2 over noisy labels, which needs no known target.

    Args:
        estimator: A fitted estimator.
        data: Times, points and labels.

    Returns:
        The mean squared distance to the labels.
    """
    return (estimator.posterior_mean(data.t, data.x) - data.y).square().sum(dim=1).mean().item()


def score_error(estimator: ScoreEstimator, target: Target, test: ScoreData) -> float:
    """Return E[lambda(t) |s - grad log p_t|^2] with lambda(t) = 1 - alpha^2, the usual weighting (P2 Eq. 5).

    Args:
        estimator: A fitted estimator.
        target: The known distribution of x(0).
        test: Times and points; the labels are not used.

    Returns:
        The weighted error of the score.
    """
    process = estimator.process
    true = ExactScore(process, target).score(test.t, test.x)
    squares = (estimator.score(test.t, test.x) - true).square().sum(dim=1)
    return (process.variance(test.t) * squares).mean().item()
