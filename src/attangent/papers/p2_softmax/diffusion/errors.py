"""The error of a trained softmax estimator, split as in P2 Claim G.1."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from attangent._core.arrays import as_double
from attangent._core.errors import AttangentError
from attangent._core.memory import check_memory
from attangent.papers.p2_softmax.diffusion.dataset import ScoreData
from attangent.papers.p2_softmax.diffusion.estimator import ScoreEstimator
from attangent.papers.p2_softmax.diffusion.kernel import KernelScore
from attangent.papers.p2_softmax.diffusion.mixture import Target
from attangent.papers.p2_softmax.diffusion.softmax import SoftmaxScore
from attangent.papers.p2_softmax.diffusion.training import Descent


@dataclass(frozen=True)
class Estimate:
    """A mean over test points with the standard error of it."""

    mean: float
    error: float

    @classmethod
    def of(cls, values: Tensor) -> "Estimate":
        if values.ndim != 1 or len(values) < 2:
            raise AttangentError(f"values have shape {tuple(values.shape)}, expected two or more numbers")
        check_memory("values", values=len(values))
        values = as_double("values", values)
        return cls(values.mean().item(), (values.std() / len(values) ** 0.5).item())


@dataclass(frozen=True)
class ErrorTerms:
    """E|F_nn - F*|^2 at one step and the four terms of Claim G.1, over the test points.

    F_ntk is the kernel predictor after as many steps with the same labels, F~_ntk the one with the pseudo
    labels F_H(x_i) + y_i - F*(x_i), F_H a function of the kernel's Hilbert space.
    """

    step: int
    total: Estimate
    coupling: Estimate
    """|F_nn - F_ntk|^2: the network is not its kernel."""
    mismatch: Estimate
    """|F_ntk - F~_ntk|^2: the labels come from F*, not from F_H."""
    stopping: Estimate
    """|F~_ntk - F_H|^2: trained too short, or so long that the noise of the labels is learned."""
    approximation: Estimate
    """|F_H - F*|^2: the kernel's functions of this norm do not reach the target."""
    excess: Estimate
    """total - (coupling + mismatch + stopping + approximation), point by point: above 0 breaks the claim."""
    scale: float
    """E|F*|^2: divide by it for relative errors."""

    @property
    def terms(self) -> dict[str, Estimate]:
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
        """The term that hurts most."""
        return max(TERMS, key=lambda name: self.terms[name].mean)


TERMS = ("coupling", "mismatch", "stopping", "approximation")


def error_terms(
    model: SoftmaxScore,
    target: Target,
    data: ScoreData,
    test: ScoreData,
    steps: Sequence[int],
    reference: KernelScore,
) -> list[ErrorTerms]:
    """The terms at each of `steps`, checkpoints of `model`, which was fitted to `data` by `Descent`.

    `reference` is F_H: `hilbert_function` makes one. `test` gives the points over which means are taken; its
    labels are not used.
    """
    if not isinstance(model.trainer, Descent):
        raise AttangentError("the terms compare a network with its kernel: train the model by Descent")
    networks = [model.at(step) for step in steps]
    true = target.posterior_mean(model.process, test.t, test.x)
    noise = data.y - target.posterior_mean(model.process, data.t, data.x)
    pseudo = data.with_labels(reference.posterior_mean(data.t, data.x) + noise)
    kernel = KernelScore.like(model, model.trainer.rate).fit(data)
    relabelled = kernel.relabelled(pseudo.y)

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
    parts = [(a - b).square().sum(dim=1) for a, b in pairwise(chain)]
    total = (network - true).square().sum(dim=1)
    return ErrorTerms(
        step=step,
        total=Estimate.of(total),
        **dict(zip(TERMS, map(Estimate.of, parts), strict=True)),
        excess=Estimate.of(total - torch.stack(parts).sum(dim=0)),
        scale=true.square().sum(dim=1).mean().item(),
    )


def hilbert_function(
    model: SoftmaxScore, target: Target, points: ScoreData, steps: int, rate: float = 1.0
) -> KernelScore:
    """A function F_H of the model's kernel space: kernel descent on the true labels of `points`.

    The more steps, the larger its norm R_H (`squared_norm`) and the nearer it is to the target.
    """
    clean = points.clean(target, model.process)
    return KernelScore.like(model, rate, steps).fit(clean)
