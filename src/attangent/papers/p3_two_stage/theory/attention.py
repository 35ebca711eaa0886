"""Normalised-ReLU attention of P3 (Equations 1 and 2): output, losses and gradient in closed form."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

from attangent._core.checks import check_between, check_choice, check_size
from attangent._core.random import generator
from attangent.papers.p3_two_stage.theory.data import PromptPart, QPrompts, TwoStagePrompts

Variant = Literal["paper", "bias", "signed"]
VALUES: dict[str, tuple[float, ...]] = {"paper": (1.0,), "bias": (1.0,), "signed": (1.0, -1.0)}
"""The values of the heads of each variant."""
Answers = Float[Tensor, "*runs n"]


class ReluWeights(NamedTuple):
    """W, V (..., heads, d, d) and bias (...,): the parameters, a gradient, or a term of either."""

    W: Tensor
    V: Tensor
    bias: Tensor

    def map(self, change: Callable[..., Tensor], *others: "ReluWeights") -> "ReluWeights":
        """Apply `change` to W, V and bias, each with its counterparts in `others`."""
        return ReluWeights(*(change(*tensors) for tensors in zip(self, *others, strict=True)))

    def plus(self, other: "ReluWeights", factor: float = 1.0) -> "ReluWeights":
        """Return self + factor other."""
        return self.map(lambda a, b: a + factor * b, other)


class Losses(NamedTuple):
    """K of Eq. 5, K1 and K2 of Eq. 6, and K2 given the class of the query, means over prompts (...,)."""

    K: Tensor
    K1: Tensor
    K2: Tensor
    K2_positive: Tensor
    K2_negative: Tensor


class ReluAttention:
    """f = (h + g) / 2 with h = (1/L) sum_(i<L) y_i relu(x_i1' W x_L1), g likewise with V and x_.2 (Eq. 2).

    The loss of a prompt is softplus(-y_L f). Leading axes of the weights are runs: one call serves all seeds.

    Args:
        d: The dimension of each part of a token.
        variant: `paper` as printed; `bias` adds an output bias to g; `signed` gives both networks a second
            head of value -1, so that g = (1/L) sum y_i (relu(x_i' V_1 x_L) - relu(x_i' V_2 x_L)).
        std: The standard deviation of the initial weights.
        runs: The number of runs; None for weights without an axis of runs.
        seed: Seed or generator of the initial weights.

    Example:
        >>> model = ReluAttention(16, "signed", std=0.1, runs=5)
        >>> model.weights.W.shape
        torch.Size([5, 2, 16, 16])
    """

    def __init__(
        self,
        d: int,
        variant: Variant = "paper",
        *,
        std: float = 0.0,
        runs: int | None = None,
        seed: int | torch.Generator = 0,
    ):
        check_size("d", d)
        check_choice("variant", variant, tuple(VALUES))
        check_between("std", std, 0.0, 1e6)
        rng = seed if isinstance(seed, torch.Generator) else generator(seed, "weights")
        batch = () if runs is None else (check_size("runs", runs),)
        shape = (*batch, len(VALUES[variant]), d, d)
        self.variant: Variant = variant
        self.values = torch.tensor(VALUES[variant], dtype=torch.float64)
        self.weights = ReluWeights(
            std * torch.randn(shape, generator=rng, dtype=torch.float64),
            std * torch.randn(shape, generator=rng, dtype=torch.float64),
            torch.zeros(batch, dtype=torch.float64),
        )

    def h(self, prompts: TwoStagePrompts | QPrompts, weights: ReluWeights | None = None) -> Answers:
        """Return the answers of the network of W to the P parts."""
        return attend(prompts.p, (weights or self.weights).W, self.values)

    def g(self, prompts: TwoStagePrompts | QPrompts, weights: ReluWeights | None = None) -> Answers:
        """Return the answers of the network of V to the Q parts."""
        weights = weights or self.weights
        return attend(prompts.q, weights.V, self.values) + weights.bias[..., None]

    def f(self, prompts: TwoStagePrompts | QPrompts, weights: ReluWeights | None = None) -> Answers:
        """Return the answers (h + g) / 2."""
        return (self.h(prompts, weights) + self.g(prompts, weights)) / 2

    def losses(self, prompts: TwoStagePrompts | QPrompts, weights: ReluWeights | None = None) -> Losses:
        """Return the mean losses; K1 and K2 over the prompts that show the part."""
        return losses(self.h(prompts, weights), self.g(prompts, weights), prompts)

    def gradient(
        self, prompts: TwoStagePrompts | QPrompts, weights: ReluWeights | None = None
    ) -> ReluWeights:
        """Return the gradient of K in closed form.

        dV = mean_n[ -sigmoid(-y_L f) y_L / (2L) sum_i y_i 1(x_i' V x_L > 0) x_i x_L' ], likewise W.
        Proposition 2 prints this without y_i y_L. The indicator is 0 at 0, as in autograd; the paper has 1
        there.
        """
        return self.evaluate(prompts, weights)[2]

    def evaluate(
        self, prompts: TwoStagePrompts | QPrompts, weights: ReluWeights | None = None
    ) -> tuple[Answers, Answers, ReluWeights]:
        """Return h, g and the gradient of K from one pass."""
        weights = weights or self.weights
        h, pull_w = _attend_with_pull(prompts.p, weights.W, self.values)
        g, pull_v = _attend_with_pull(prompts.q, weights.V, self.values)
        g = g + weights.bias[..., None]
        y = prompts.answers
        slope = -torch.sigmoid(-y * (h + g) / 2) * y / (2 * y.shape[-1])  # dK / dh = dK / dg
        bias = slope.sum(-1) if self.variant == "bias" else torch.zeros_like(weights.bias)
        return h, g, ReluWeights(pull_w(slope), pull_v(slope), bias)


def attend(part: PromptPart, U: Tensor, values: Tensor) -> Answers:
    """Return (1/L) sum_i y_i sum_h value_h relu(x_i' U_h x_L)."""
    seen = scores(part, U).clamp_min(0) @ part.labels[..., None]  # (..., n, heads, 1)
    return seen[..., 0] @ values / part.L


def scores(part: PromptPart, U: Tensor) -> Float[Tensor, "*runs n heads tokens"]:
    """Return x_i' U_h x_L."""
    targets = part.query[..., None, :, :] @ U.transpose(-1, -2)  # (..., heads, n, d): U_h x_L
    return targets.movedim(-3, -2) @ part.context.transpose(-1, -2)


def losses(h: Answers, g: Answers, prompts: TwoStagePrompts | QPrompts) -> Losses:
    """Return the losses of answers h and g."""
    y = prompts.answers
    q_losses = softplus(-y * g)
    positive = prompts.shows_q * (y > 0)
    return Losses(
        softplus(-y * (h + g) / 2).mean(-1),
        _mean(softplus(-y * h), prompts.shows_p),
        _mean(q_losses, prompts.shows_q),
        _mean(q_losses, positive),
        _mean(q_losses, prompts.shows_q - positive),
    )


def _attend_with_pull(
    part: PromptPart, U: Tensor, values: Tensor
) -> tuple[Answers, Callable[[Tensor], Tensor]]:
    """Return the answers, and the map from slopes dK/d(answer) (..., n) to dK/dU."""
    products = scores(part, U)
    signed = part.labels[..., None, :] * (products > 0) * (values / part.L)[:, None]  # (..., n, heads, T)
    answers = (signed * products).sum((-2, -1))
    chosen = signed @ part.context  # (..., n, heads, d): sum_i y_i 1(...) x_i

    def pull(slope: Tensor) -> Tensor:
        weighted = (chosen * slope[..., None, None]).movedim(-3, -1)  # (..., heads, d, n)
        return weighted @ part.query[..., None, :, :]

    return answers, pull


def _mean(values: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted mean over the last axis; nan if all weights are 0."""
    return (values * weights).sum(-1) / weights.sum(-1)
