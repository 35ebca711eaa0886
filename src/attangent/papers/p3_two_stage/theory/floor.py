"""How low the loss of the hard part can go: bounds, and the exact loss of any V."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from attangent._core.checks import check_between, check_size
from attangent._core.errors import AttangentError
from attangent._core.memory import check_memory
from attangent.papers.p3_two_stage.theory.attention import VALUES, Variant, Weights
from attangent.papers.p3_two_stage.theory.data import PROTOTYPE_LABELS, TwoStageData

LARGEST_L = 3000
"""Beyond this the (L + 1) L / 2 counts of `q_loss` take more than a few hundred megabytes."""


class QLossBounds(NamedTuple):
    """lower <= inf over V of K2 <= upper."""

    lower: float
    upper: float


def q_loss_bounds(p: float, L: int) -> QLossBounds:
    """Bounds on the least K2 = E softplus(-y_L g) over all V, for prompts of length L with P(y = +1) = p.

    For a query q let a = z'Vq and b = zeta'Vq. The context shows z, z + zeta and z - zeta with labels +1,
    -1, -1 and probabilities p, (1-p)/2, (1-p)/2, so that

        E g = (1 - 1/L) (p relu(a) - (1-p)/2 (relu(a+b) + relu(a-b))).

    *Lower bound, p <= 1/2.* relu is convex: relu(a+b) + relu(a-b) >= 2 relu(a), hence
    E g <= (1 - 1/L) (2p - 1) relu(a) <= 0 for every query. softplus is convex: on the query z the mean loss
    is at least softplus(-E g) >= log 2. On a negative query a context of z alone, which has probability
    p^(L-1), gives g >= 0 and a loss of at least log 2. Together K2 >= log 2 (p + (1-p) p^(L-1)). For p >
    1/2 only contexts of a single class are sure to mislead: K2 >= log 2 (p (1-p)^(L-1) + (1-p) p^(L-1)).

    *Upper bound.* V = a zz'/u^4 + c zeta zeta'/r^4 answers z by (a/L) (n_z - n_+ - n_-) and, for c > a, z +
    zeta by (a n_z - (a + c) n_+) / L, where n_. counts the tokens of the context, and z - zeta likewise. As
    c grows only contexts without the query's own token keep a loss on negative queries; their probability
    is ((1+p)/2)^(L-1). The bound is the limit c -> infinity at the best a >= 0, which is 0 for p <= 1/2:
    then K2 -> log 2 (p + (1-p) ((1+p)/2)^(L-1)). See `constructions.paper_solution`.

    >>> q_loss_bounds(0.5, 1025).lower == 0.5 * math.log(2)
    True
    """
    check_between("p", p, 0.0, 1.0)
    check_size("L", L, least=2)
    single = (1 - p) * p ** (L - 1)
    if p <= 0.5:
        missed = (1 - p) * ((1 + p) / 2) ** (L - 1)
        return QLossBounds(math.log(2) * (p + single), math.log(2) * (p + missed))
    return QLossBounds(
        math.log(2) * (single + p * (1 - p) ** (L - 1)), _limit_loss(best_common_part(p, L), p, L)
    )


def best_common_part(p: float, L: int) -> float:
    """The a of the upper bound: 0 for p <= 1/2, else the least of a convex function."""
    if p <= 0.5:
        return 0.0
    check_memory("the numbers of tokens", L=L)
    from scipy.optimize import minimize_scalar

    found: Any = minimize_scalar(_limit_loss, bounds=(0.0, 1e4), args=(p, L), method="bounded")
    return float(found.x)


def _limit_loss(a: float, p: float, L: int) -> float:
    """K2 of V = a zz'/u^4 + c zeta zeta'/r^4 as c goes to infinity."""
    positives = torch.arange(L, dtype=torch.float64)
    right = softplus(-a / L * (2 * positives - (L - 1))) @ _binomial(positives, L - 1, p)
    alone = softplus(a / L * positives) @ _binomial(positives, L - 1, 2 * p / (1 + p))
    return float(p * right + (1 - p) * ((1 + p) / 2) ** (L - 1) * alone)


def _binomial(successes: Tensor, trials: int, chance: float) -> Tensor:
    """The probability of these numbers of successes."""
    ways = math.lgamma(trials + 1) - torch.lgamma(successes + 1) - torch.lgamma(trials - successes + 1)
    shares = torch.tensor((chance, 1 - chance), dtype=torch.float64)
    counts = torch.stack((successes, trials - successes), -1)
    return (ways + torch.special.xlogy(counts, shares).sum(-1)).exp()


class QLoss(NamedTuple):
    """K2 and K2 given the query: z, or one of z +- zeta."""

    K2: Tensor
    positive: Tensor
    negative: Tensor


def q_loss(weights: Weights, data: TwoStageData, variant: Variant = "paper") -> QLoss:
    """The exact K2 of V (..., heads, d, d) over the distribution of prompts: a sum over all counts."""
    if data.L > LARGEST_L:
        raise AttangentError(
            f"L is {data.L}, expected at most {LARGEST_L} for a sum over all counts: "
            "measure on drawn prompts instead, with data.sample_q"
        )
    counts, chances = _count_table(data.L - 1, data.p)
    answers = answers_by_counts(weights, data, variant, counts)
    signs = counts.new_tensor(PROTOTYPE_LABELS)
    by_query = chances @ softplus(-signs * answers)  # (..., 3)
    shares = counts.new_tensor(data.prototype_shares)
    return QLoss(by_query @ shares, by_query[..., 0], by_query[..., 1:].mean(-1))


def answers_by_counts(weights: Weights, data: TwoStageData, variant: Variant, counts: Tensor) -> Tensor:
    """(..., n, 3): g for contexts with counts (n, 3) of the prototypes, for each prototype as the query."""
    values = counts.new_tensor(VALUES[variant])
    scores = (data.prototypes @ weights.V @ data.prototypes.T).clamp_min(0)  # (..., heads, token, query)
    pooled = torch.einsum("h,...hkq->...kq", values, scores)
    answers = (counts * counts.new_tensor(PROTOTYPE_LABELS)) @ pooled / data.L
    return answers + weights.bias[..., None, None]


def _count_table(tokens: int, p: float) -> tuple[Tensor, Tensor]:
    """All counts (n, 3) of the prototypes among `tokens` tokens and their probabilities (n,)."""
    first, second = torch.triu_indices(tokens + 1, tokens + 1).double()
    counts = torch.stack((first, second - first, tokens - second), -1)
    shares = torch.tensor((p, (1 - p) / 2, (1 - p) / 2), dtype=torch.float64)
    ways = math.lgamma(tokens + 1) - torch.lgamma(counts + 1).sum(-1)
    return counts, (ways + torch.special.xlogy(counts, shares).sum(-1)).exp()
