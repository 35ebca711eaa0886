"""The interface of score estimators (fit, posterior_mean, score), the exact score, and errors."""

import copy
from abc import ABC, abstractmethod
from typing import TypeVar

from torch import Tensor

from attangent._core.errors import AttangentError
from attangent.papers.p2_softmax.diffusion.dataset import ScoreData
from attangent.papers.p2_softmax.diffusion.process import ForwardProcess, Times, times_of
from attangent.papers.p2_softmax.diffusion.targets import Points, Target

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
