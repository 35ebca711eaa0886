"""The error of a trained softmax estimator, split as in P2 Claim G.1."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent.papers.p2_softmax.diffusion.estimator import ScoreEstimator
from attangent.papers.p2_softmax.diffusion.kernel import KernelScore
from attangent.papers.p2_softmax.diffusion.networks import Descent, SoftmaxScore
from attangent.papers.p2_softmax.diffusion.targets import ScoreData, Target

TERMS = ("coupling", "mismatch", "stopping", "approximation")


@dataclass(frozen=True)
class SampleMean:
    """A mean over test points and its standard error.

    Attributes:
        mean: The mean.
        error: The standard error of the mean.
    """

    mean: float
    error: float

    @classmethod
    def of(cls, values: Float[Tensor, " points"]) -> "SampleMean":
        """Return the mean of at least two values."""
        return cls(values.mean().item(), (values.std() / len(values) ** 0.5).item())


@dataclass(frozen=True)
class ErrorTerms:
    """E|F_nn - F*|^2 at one step and the four terms of Claim G.1, over the test points.

    F_ntk is the kernel predictor after as many steps with the same labels. F~_ntk is the one with the pseudo
    labels F_H(x_i) + y_i - F*(x_i), for a function F_H of the kernel's Hilbert space.

    Attributes:
        step: The training step.
        total: |F_nn - F*|^2.
        coupling: |F_nn - F_ntk|^2: the network is not its kernel.
        mismatch: |F_ntk - F~_ntk|^2: the labels come from F*, not from F_H.
        stopping: |F~_ntk - F_H|^2: trained too briefly, or long enough to learn the noise of the labels.
        approximation: |F_H - F*|^2: the kernel's functions of this norm do not reach the target.
        excess: total minus the sum of the four terms, point by point; above 0 the claim fails.
        scale: E|F*|^2; divide by it to get relative errors.
    """

    step: int
    total: SampleMean
    coupling: SampleMean
    mismatch: SampleMean
    stopping: SampleMean
    approximation: SampleMean
    excess: SampleMean
    scale: float

    @property
    def terms(self) -> dict[str, SampleMean]:
        """The four terms by name."""
        return {name: getattr(self, name) for name in TERMS}

    @property
    def printed_bound(self) -> float:
        """The sum of the terms, as Claim G.1 prints it."""
        return sum(term.mean for term in self.terms.values())

    @property
    def bound(self) -> float:
        """Four times the sum: |a + b + c + d|^2 <= 4 (|a|^2 + |b|^2 + |c|^2 + |d|^2)."""
        return 4 * self.printed_bound

    @property
    def largest(self) -> str:
        """The name of the largest term."""
        return max(TERMS, key=lambda name: self.terms[name].mean)


def error_terms(
    model: SoftmaxScore,
    target: Target,
    data: ScoreData,
    test: ScoreData,
    steps: Sequence[int],
    reference: KernelScore,
) -> list[ErrorTerms]:
    """Split the error of a network trained by `Descent` into the terms of Claim G.1.

    Args:
        model: The network, fitted to `data`.
        target: The known distribution of x(0).
        data: The training data.
        test: The points over which means are taken; the labels are not used.
        steps: Checkpoints of the model.
        reference: F_H, for instance from `hilbert_function`.

    Returns:
        The terms at each of `steps`.

    Raises:
        AttangentError: If the model was not trained by `Descent`, or a step is not a checkpoint.
    """
    if not isinstance(model.trainer, Descent):
        raise AttangentError("the terms compare a network with its kernel; train the model by Descent")
    networks = [model.at(step) for step in steps]
    true = target.posterior_mean(model.process, test.t, test.x)
    noise = data.y - target.posterior_mean(model.process, data.t, data.x)
    pseudo_labels = reference.posterior_mean(data.t, data.x) + noise
    kernel = KernelScore.like(model, model.trainer.rate).fit(data)
    relabelled = kernel.relabelled(pseudo_labels)

    def at(estimator: ScoreEstimator) -> Tensor:
        return estimator.posterior_mean(test.t, test.x)

    reached = at(reference)
    return [
        _terms(step, at(network), at(kernel.at(step)), at(relabelled.at(step)), reached, true)
        for step, network in zip(steps, networks, strict=True)
    ]


def _terms(
    step: int, network: Tensor, kernel: Tensor, relabelled: Tensor, reached: Tensor, true: Tensor
) -> ErrorTerms:
    chain = [network, kernel, relabelled, reached, true]
    squares = [(a - b).square().sum(dim=1) for a, b in pairwise(chain)]
    total = (network - true).square().sum(dim=1)
    return ErrorTerms(
        step=step,
        total=SampleMean.of(total),
        **dict(zip(TERMS, map(SampleMean.of, squares), strict=True)),
        excess=SampleMean.of(total - torch.stack(squares).sum(dim=0)),
        scale=true.square().sum(dim=1).mean().item(),
    )


def hilbert_function(
    model: SoftmaxScore, target: Target, points: ScoreData, steps: int, rate: float = 1.0
) -> KernelScore:
    """Return a function F_H of the model's kernel space: kernel descent on the true labels of `points`.

    Args:
        model: The network whose kernel is taken.
        target: The known distribution of x(0).
        points: Times and points; the labels are not used.
        steps: Steps of descent; more of them give a larger norm R_H (`squared_norm`) and a closer fit.
        rate: The learning rate in units of 1 / lambda_max.

    Returns:
        The fitted kernel estimator.
    """
    clean = points.clean(target, model.process)
    return KernelScore.like(model, rate, steps).fit(clean)
