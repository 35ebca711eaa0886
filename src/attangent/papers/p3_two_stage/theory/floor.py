"""How low the loss of the hard part can go: bounds, exact losses, weights in closed form, and a search."""

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

from attangent._core.checks import check_between, check_positive, check_size, check_steps
from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent.papers.p3_two_stage.theory.attention import VALUES, ReluAttention, ReluWeights, Variant
from attangent.papers.p3_two_stage.theory.data import PROTOTYPE_LABELS, QPrompts, TwoStageData

LARGEST_L = 3000
"""Beyond this the (L + 1) L / 2 counts of `q_loss` take more than a few hundred megabytes."""


class QLossBounds(NamedTuple):
    """lower <= inf over V of K2 <= upper."""

    lower: float
    upper: float


def q_loss_bounds(p: float, L: int) -> QLossBounds:
    """Return bounds on the smallest K2 = E softplus(-y_L g) over all V.

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
    c grows, negative queries keep a loss only in contexts without the query's own token. Their probability
    is ((1+p)/2)^(L-1). The bound is the limit c -> infinity at the best a >= 0, which is 0 for p <= 1/2:
    then K2 -> log 2 (p + (1-p) ((1+p)/2)^(L-1)). See `paper_solution`.

    Args:
        p: The probability of the label +1.
        L: The prompt length.

    Returns:
        The lower and the upper bound.

    Example:
        >>> q_loss_bounds(0.5, 1025).lower == 0.5 * math.log(2)
        True
    """
    check_between("p", p, 0.0, 1.0)
    check_size("L", L, least=2)
    single = (1 - p) * p ** (L - 1)
    if p <= 0.5:
        missed = (1 - p) * ((1 + p) / 2) ** (L - 1)
        return QLossBounds(math.log(2) * (p + single), math.log(2) * (p + missed))
    lower = math.log(2) * (single + p * (1 - p) ** (L - 1))
    return QLossBounds(lower, _limit_loss(_best_common_part(p, L), p, L))


def _best_common_part(p: float, L: int) -> float:
    """Return the a of the upper bound: 0 for p <= 1/2, else the minimiser of a convex function."""
    if p <= 0.5:
        return 0.0
    from scipy.optimize import minimize_scalar

    result: Any = minimize_scalar(_limit_loss, bounds=(0.0, 1e4), args=(p, L), method="bounded")
    return float(result.x)


def _limit_loss(a: float, p: float, L: int) -> float:
    """Return K2 of V = a zz'/u^4 + c zeta zeta'/r^4 in the limit of large c."""
    positives = torch.arange(L, dtype=torch.float64)
    right = softplus(-a / L * (2 * positives - (L - 1))) @ _binomial(positives, L - 1, p)
    alone = softplus(a / L * positives) @ _binomial(positives, L - 1, 2 * p / (1 + p))
    return float(p * right + (1 - p) * ((1 + p) / 2) ** (L - 1) * alone)


def _binomial(successes: Tensor, trials: int, chance: float) -> Tensor:
    """Return the probability of these numbers of successes."""
    ways = math.lgamma(trials + 1) - torch.lgamma(successes + 1) - torch.lgamma(trials - successes + 1)
    shares = torch.tensor((chance, 1 - chance), dtype=torch.float64)
    counts = torch.stack((successes, trials - successes), -1)
    return (ways + torch.special.xlogy(counts, shares).sum(-1)).exp()


class QLoss(NamedTuple):
    """K2 and K2 given the query: z, or one of z +- zeta."""

    K2: Tensor
    positive: Tensor
    negative: Tensor


def q_loss(weights: ReluWeights, data: TwoStageData, variant: Variant = "paper") -> QLoss:
    """Return the exact K2 of V over the distribution of prompts, a sum over all counts.

    Args:
        weights: Weights with V (..., heads, d, d).
        data: The distribution of prompts.
        variant: The variant of the attention.

    Returns:
        K2 (...,), and K2 given the query.

    Raises:
        AttangentError: If the prompts are too long for a sum over all counts.
    """
    if data.L > LARGEST_L:
        raise AttangentError(
            f"L is {data.L}, expected at most {LARGEST_L} for a sum over all counts; "
            "measure on drawn prompts instead, with data.sample_q"
        )
    counts, chances = _count_table(data.L - 1, data.p)
    answers = answers_by_counts(weights, data, variant, counts)
    signs = counts.new_tensor(PROTOTYPE_LABELS)
    by_query = chances @ softplus(-signs * answers)  # (..., 3)
    shares = counts.new_tensor(data.prototype_shares)
    return QLoss(by_query @ shares, by_query[..., 0], by_query[..., 1:].mean(-1))


def answers_by_counts(
    weights: ReluWeights, data: TwoStageData, variant: Variant, counts: Float[Tensor, "n 3"]
) -> Float[Tensor, "*runs n 3"]:
    """Return g for contexts with these counts of the prototypes, with each prototype as the query."""
    values = counts.new_tensor(VALUES[variant])
    scores = (data.prototypes @ weights.V @ data.prototypes.T).clamp_min(0)  # (..., heads, token, query)
    pooled = torch.einsum("h,...hkq->...kq", values, scores)
    answers = (counts * counts.new_tensor(PROTOTYPE_LABELS)) @ pooled / data.L
    return answers + weights.bias[..., None, None]


def _count_table(tokens: int, p: float) -> tuple[Tensor, Tensor]:
    """Return all counts (n, 3) of the prototypes among `tokens` tokens and their probabilities (n,)."""
    first, second = torch.triu_indices(tokens + 1, tokens + 1).double()
    counts = torch.stack((first, second - first, tokens - second), -1)
    shares = torch.tensor((p, (1 - p) / 2, (1 - p) / 2), dtype=torch.float64)
    ways = math.lgamma(tokens + 1) - torch.lgamma(counts + 1).sum(-1)
    return counts, (ways + torch.special.xlogy(counts, shares).sum(-1)).exp()


def q_losses(
    weights: ReluWeights, data: TwoStageData, variant: Variant, drawn: QPrompts
) -> Float[Tensor, "*runs n"]:
    """Return softplus(-y_L g) of each drawn prompt."""
    by_query = answers_by_counts(weights, data, variant, drawn.counts)  # (..., n, 3)
    query = torch.nn.functional.one_hot(drawn.kinds, 3).to(by_query)
    return softplus(-drawn.answers * (by_query * query).sum(-1))


def paper_solution(data: TwoStageData, scale: float = 1e4) -> ReluWeights:
    """V = a zz'/u^4 + c zeta zeta'/r^4: K2 tends to the upper bound of `q_loss_bounds` as c grows.

    Args:
        data: The distribution of prompts.
        scale: c.

    Returns:
        Weights of the variant `paper`.
    """
    common = _best_common_part(data.p, data.L) * torch.outer(data.z, data.z) / data.u**4
    return _hard_weights(common + check_positive("scale", scale) * _detector(data))


def bias_solution(data: TwoStageData, scale: float = 1e4) -> ReluWeights:
    """V = c zeta zeta'/r^4 and a bias beta: z is answered by beta, z +- zeta by beta - c n_own / L.

    For large c only contexts without the query's own token mislead. The best bias is then
    e^beta = p / ((1-p) ((1+p)/2)^(L-1)); it is capped at a quarter of c (1-p)/2.

    Args:
        data: The distribution of prompts.
        scale: c.

    Returns:
        Weights of the variant `bias`.
    """
    check_positive("scale", scale)
    log_missed = (data.L - 1) * math.log((1 + data.p) / 2)
    best = math.log(data.p / (1 - data.p)) - log_missed if 0 < data.p < 1 else 0.0
    beta = min(best, scale * (1 - data.p) / 8)
    return _hard_weights(scale * _detector(data), beta)


def signed_solution(data: TwoStageData, scale: float = 1e4) -> ReluWeights:
    """V_1 = 3c zeta zeta'/r^4, V_2 = c zeta (z/u^2 + zeta/r^2)'/r^2: right unless the context lacks a token.

    z is answered by c n_+ / L, z + zeta by -c n_+ / L, z - zeta by -3c n_- / L.

    Args:
        data: The distribution of prompts.
        scale: c.

    Returns:
        Weights of the variant `signed`.
    """
    check_positive("scale", scale)
    seen = data.z / data.u**2 + data.zeta / data.r**2  # 1 on z, 2 on z + zeta, 0 on z - zeta
    second = torch.outer(data.zeta, seen) / data.r**2
    return _hard_weights(scale * torch.stack((3 * _detector(data), second)))


def _detector(data: TwoStageData) -> Tensor:
    """zeta zeta' / r^4: 1 if token and query are the same z +- zeta, else at most 0."""
    return torch.outer(data.zeta, data.zeta) / data.r**4


def _hard_weights(V: Tensor, bias: float = 0.0) -> ReluWeights:
    V = V if V.ndim == 3 else V[None]
    return ReluWeights(torch.zeros_like(V), V, torch.tensor(bias, dtype=torch.float64))


def minimise_q_loss(
    data: TwoStageData,
    *,
    prompts: int = 1000,
    starts: int = 8,
    steps: int = 300,
    std: float = 1.0,
    rate: float = 0.3,
    seed: int = 0,
) -> ReluWeights:
    """Search for the V with the smallest K2 on drawn prompts, by Adam from several starts.

    Args:
        data: The distribution of prompts.
        prompts: How many prompts to draw; measure the result on other ones.
        starts: Number of starts; a random V may see no token with any query and then has no gradient.
        steps: Steps of Adam.
        std: The standard deviation of the starts.
        rate: The learning rate.
        seed: Seed of the prompts and the starts.

    Returns:
        The weights of all starts, along a leading axis.

    Example:
        >>> V = minimise_q_loss(TwoStageData(d=4, L=9), starts=2, steps=5).V
        >>> V.shape
        torch.Size([2, 1, 4, 4])
    """
    check_steps("steps", steps, least=1)
    check_positive("rate", rate)
    drawn = data.sample_q(prompts, seed=generator(seed, "prompts of the search"))
    begin = ReluAttention(data.d, std=std, runs=starts, seed=seed).weights
    V = begin.V.clone().requires_grad_()
    optimiser = torch.optim.Adam([V], lr=rate)
    for _ in range(steps):
        optimiser.zero_grad()
        q_losses(begin._replace(V=V), data, "paper", drawn).mean(-1).sum().backward()
        optimiser.step()
    return begin._replace(V=V.detach())
