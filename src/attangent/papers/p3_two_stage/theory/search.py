"""The least K2 that general-purpose optimisers find, on prompts of their own."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import softplus

from attangent._core.checks import check_choice, check_positive, check_steps
from attangent._core.random import generator
from attangent.papers.p3_two_stage.theory.attention import ReluAttention, Variant, Weights
from attangent.papers.p3_two_stage.theory.data import QPrompts, TwoStageData
from attangent.papers.p3_two_stage.theory.floor import answers_by_counts

Method = Literal["adam", "lbfgs"]


def minimise_q_loss(
    data: TwoStageData,
    method: Method,
    variant: Variant = "paper",
    *,
    prompts: int = 1000,
    starts: int = 8,
    steps: int = 300,
    std: float = 1.0,
    rate: float = 0.3,
    seed: int = 0,
) -> Weights:
    """V, and the bias of that variant, with the least K2 that the method finds on drawn prompts.

    A random V may see no token with any query and then has no gradient, hence several `starts`; all of them
    are returned, along a leading axis. `steps` counts steps of Adam at `rate`, or iterations of L-BFGS.
    """
    check_choice("method", method, ("adam", "lbfgs"))
    check_steps("steps", steps, least=1)
    check_positive("rate", rate)
    drawn = data.sample_q(prompts, seed=generator(seed, "prompts of the search"))
    begin = ReluAttention(data.d, variant, std=std, runs=starts, seed=seed).weights
    if method == "adam":
        return _adam(begin, data, variant, drawn, steps, rate)
    found = [_lbfgs(begin.map(lambda part, i=i: part[i]), data, variant, drawn, steps) for i in range(starts)]
    return found[0].map(lambda *parts: torch.stack(parts), *found[1:])


def _adam(
    begin: Weights, data: TwoStageData, variant: Variant, drawn: QPrompts, steps: int, rate: float
) -> Weights:
    weights = begin.map(lambda part: part.clone().requires_grad_())
    optimiser = torch.optim.Adam(_trained(weights, variant), lr=rate)
    for _ in range(steps):
        _backward(optimiser, weights, data, variant, drawn)
        optimiser.step()
    return weights.map(Tensor.detach)


def _lbfgs(begin: Weights, data: TwoStageData, variant: Variant, drawn: QPrompts, steps: int) -> Weights:
    weights = begin.map(lambda part: part.clone().requires_grad_())
    optimiser = torch.optim.LBFGS(
        _trained(weights, variant),
        max_iter=steps,
        history_size=20,
        tolerance_grad=1e-9,
        tolerance_change=1e-12,
        line_search_fn="strong_wolfe",
    )
    optimiser.step(lambda: _backward(optimiser, weights, data, variant, drawn))
    return weights.map(Tensor.detach)


def _trained(weights: Weights, variant: Variant) -> list[Tensor]:
    return [weights.V, weights.bias] if variant == "bias" else [weights.V]


def _backward(
    optimiser: torch.optim.Optimizer, weights: Weights, data: TwoStageData, variant: Variant, drawn: QPrompts
) -> float:
    optimiser.zero_grad()
    value = empirical_q_loss(weights, data, variant, drawn).sum()
    value.backward()
    return value.item()


def empirical_q_loss(weights: Weights, data: TwoStageData, variant: Variant, drawn: QPrompts) -> Tensor:
    """(...,): the mean of softplus(-y_L g) over drawn prompts."""
    return q_losses(weights, data, variant, drawn).mean(-1)


def q_losses(weights: Weights, data: TwoStageData, variant: Variant, drawn: QPrompts) -> Tensor:
    """(..., n): softplus(-y_L g) of each drawn prompt."""
    by_query = answers_by_counts(weights, data, variant, drawn.counts)  # (..., n, 3)
    asked = torch.nn.functional.one_hot(drawn.kinds, 3).to(by_query)
    return softplus(-drawn.answers * (by_query * asked).sum(-1))
