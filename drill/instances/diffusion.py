"""Processes, targets and trained scores."""

from collections.abc import Callable
from typing import Any

import torch


def _process() -> Any:
    from attangent.papers.p2_softmax.diffusion import ForwardProcess

    return ForwardProcess()


def _mixture() -> Any:
    from attangent.papers.p2_softmax.diffusion import GaussianMixture

    return GaussianMixture.ring()


def score_data(seed: int = 0) -> Any:
    from attangent.papers.p2_softmax.diffusion import draw_data

    return draw_data(_mixture(), _process(), 12, seed=seed)


def _adam() -> Any:
    from attangent.papers.p2_softmax.diffusion import Adam

    return Adam(steps=2, rate=0.1, quiet=True)


def softmax_score() -> Any:
    from attangent.papers.p2_softmax.diffusion import Descent, SoftmaxScore

    return SoftmaxScore(_process(), m=8, trainer=Descent(steps=2, quiet=True)).fit(score_data())


def kernel_score() -> Any:
    from attangent.papers.p2_softmax.diffusion import KernelScore

    return KernelScore(_process(), m=8, steps=2).fit(score_data())


def _mlp_score() -> Any:
    from attangent.papers.p2_softmax.diffusion import MLPScore

    return MLPScore(_process(), hidden=4, trainer=_adam()).fit(score_data())


def _exact_score() -> Any:
    from attangent.papers.p2_softmax.diffusion import ExactScore

    return ExactScore(_process(), _mixture())


def _numeric_schedule() -> Any:
    from attangent.papers.p2_softmax.diffusion import NumericSchedule

    return NumericSchedule(torch.ones_like, T=1.0)


INSTANCES: dict[str, Callable[[], Any]] = {
    "ForwardProcess": _process,
    "Target": _mixture,
    "GaussianMixture": _mixture,
    "Schedule": lambda: _process().schedule,
    "ScoreData": score_data,
    "Trainer": _adam,
    "SoftmaxScore": softmax_score,
    "ScoreEstimator": _exact_score,
    "ExactScore": _exact_score,
    "Scorer": _exact_score,
    "KernelScore": kernel_score,
    "MLPScore": _mlp_score,
    "NumericSchedule": _numeric_schedule,
}
