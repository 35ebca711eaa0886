"""What every score estimator offers: fit, posterior_mean, score."""

import copy
from abc import ABC, abstractmethod
from typing import Any, Self

from torch import Tensor

from attangent._core.errors import AttangentError
from attangent.papers.p2_softmax.diffusion._inputs import as_points, as_times
from attangent.papers.p2_softmax.diffusion.dataset import ScoreData
from attangent.papers.p2_softmax.diffusion.mixture import Target
from attangent.papers.p2_softmax.diffusion.process import ForwardProcess


class ScoreEstimator(ABC):
    """F(t, x), an estimate of E[x(0) | x(t) = x], and the score (alpha F - x) / (1 - alpha^2)."""

    process: ForwardProcess
    _d: int | None = None

    @property
    def d(self) -> int:
        """The dimension of the data, known once the estimator is fitted."""
        return self._require_fitted()

    def at(self, step: int) -> Self:
        """The estimator after `step` steps of its training, where they were kept."""
        self._require_fitted()
        return copy.copy(self)._use(step)

    def _require_fitted(self) -> int:
        if self._d is None:
            raise AttangentError(f"this {type(self).__name__} is not fitted: call fit(data) first")
        return self._d

    def _use(self, step: int) -> Self:
        """Answer with the weights of this step from now on."""
        raise AttangentError(f"{type(self).__name__} is not trained in steps")

    @abstractmethod
    def fit(self, data: ScoreData, validation: ScoreData | None = None) -> Self:
        """Learn from noisy labels; with `validation`, stop where its noisy labels are fitted best."""

    @abstractmethod
    def _mean(self, t: Tensor, x: Tensor) -> Tensor:
        """The estimate at checked points."""

    def posterior_mean(self, t: Any, x: Any) -> Tensor:
        """F(t, x) (points, d); t is one time or one for each point."""
        x = as_points("x", x, self.d)
        return self._mean(as_times(t, len(x)), x)

    def score(self, t: Any, x: Any) -> Tensor:
        """The estimate of grad log p_t(x) (points, d)."""
        x = as_points("x", x, self.d)
        return self.process.score(self.posterior_mean(t, x), t, x)


class ExactScore(ScoreEstimator):
    """The true score of a known target; `fit` has nothing to learn."""

    def __init__(self, process: ForwardProcess, target: Target):
        self.process, self.target, self._d = process, target, target.d

    def fit(self, data: ScoreData, validation: ScoreData | None = None) -> Self:
        return self

    def _mean(self, t: Tensor, x: Tensor) -> Tensor:
        return self.target.posterior_mean(self.process, t, x)


def relative_error(estimator: ScoreEstimator, target: Target, test: ScoreData) -> float:
    """E|F - F*|^2 / E|F*|^2 over the points of `test`, F* = E[x(0) | x(t)]; their labels are not used."""
    true = target.posterior_mean(estimator.process, test.t, test.x)
    found = estimator.posterior_mean(test.t, test.x)
    return ((found - true).square().sum() / true.square().sum()).item()


def label_loss(estimator: ScoreEstimator, data: ScoreData) -> float:
    """The mean of |F - y|^2 over the noisy labels: what can be measured without knowing the target."""
    return (estimator.posterior_mean(data.t, data.x) - data.y).square().sum(dim=1).mean().item()


def score_error(estimator: ScoreEstimator, target: Target, test: ScoreData) -> float:
    """E[lambda(t) |s - grad log p_t|^2] with lambda(t) = 1 - alpha^2, the usual weighting (P2 Eq. 5)."""
    process = estimator.process
    true = ExactScore(process, target).score(test.t, test.x)
    squares = (estimator.score(test.t, test.x) - true).square().sum(dim=1)
    return (process.variance(test.t) * squares).mean().item()
