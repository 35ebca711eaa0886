"""Appendix B: two facts that are false as printed."""

import math

import torch

from attangent._core.random import generator
from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Finding
from attangent.audit.registry import claim


def _below(t: float, sigma: float) -> float:
    """P(N(0, sigma^2) <= t)."""
    return 0.5 * (1 + math.erf(t / (sigma * math.sqrt(2))))


@claim(
    "P5/fact-b.2",
    kind="misprint",
    place="Appendix B, Fact B.2",
    title="Small balls of a normal variable",
    quote="then for any t > 0, we have: Pr[x <= t] <= 2t / (sqrt(2 pi) sigma)",
    statement="""P(x <= t) <= 2t / (sqrt(2 pi) sigma) for x ~ N(0, sigma^2) and every t > 0.""",
    quick={"sigma": 1.0, "ts": [0.01, 0.1, 0.5, 1.0, 3.0]},
    seeds=1,
    seconds=0.01,
)
def small_balls(settings: Settings, seed: int) -> Finding:
    ratios = [_below(t, settings.sigma) / _ball(t, settings.sigma) for t in settings.ts]
    return Finding(
        conclusions=(Conclusion("largest P(x <= t) / bound", "<=", 1.0, max(ratios)),),
        remark="P(x <= t) is above 1/2 for every t > 0; |x| is meant.",
    )


def _ball(t: float, sigma: float) -> float:
    return 2 * t / (math.sqrt(2 * math.pi) * sigma)


@claim(
    "P5/fact-b.2-repaired",
    repairs="P5/fact-b.2",
    place="ours",
    title="Small balls of a normal variable",
    statement="""P(|x| <= t) <= 2t / (sqrt(2 pi) sigma) for x ~ N(0, sigma^2) and every t > 0.""",
    derivation="""The density is at most 1/(sqrt(2 pi) sigma), and the interval has the length 2t.""",
    quick={"sigma": 1.0, "ts": [0.01, 0.1, 0.5, 1.0, 3.0]},
    sizes=({"sigma": 0.5}, {"sigma": 2.0}),
    seconds=0.01,
)
def small_balls_of_the_size(settings: Settings, seed: int) -> Finding:
    ratios = [(2 * _below(t, settings.sigma) - 1) / _ball(t, settings.sigma) for t in settings.ts]
    return Finding(conclusions=(Conclusion("largest P(|x| <= t) / bound", "<=", 1.0, max(ratios)),))


@claim(
    "P5/fact-b.8",
    place="Appendix B, Fact B.8, used in Lemma I.4",
    title="Distance of a vector to its mean under a softmax",
    quote="There exists a small constant c > 0 such that: (1/d) <1_d, x - 1_d <s, x>> >= c v_x",
    statement="""(1/d) <1, x - 1 <s, x>> is at least c times the variance of x, for every softmax vector s
        and every x.""",
    quick={"d": 8, "draws": 1000},
    full={"d": 64},
    seconds=0.05,
)
def distance_to_the_mean(settings: Settings, seed: int) -> Finding:
    s, x = _softmax_and_values(settings, seed)
    sides = x.mean(dim=1) - (s * x).sum(dim=1)
    return Finding(
        conclusions=(
            Conclusion(
                "least left-hand side / variance",
                ">=",
                0.0,
                (sides / x.var(dim=1, correction=0)).min().item(),
            ),
        ),
        numbers={"share of draws with a negative left-hand side": (sides < 0).double().mean().item()},
        remark="The left-hand side is the mean of x less its mean under s, negative for half of all s. Lemma"
        " I.4 uses the squares (x - 1 <s, x>)^2, for which it is true.",
    )


def _softmax_and_values(settings: Settings, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = generator(seed, "softmax vectors")
    logits, x = (
        torch.randn(settings.draws, settings.d, generator=rng, dtype=torch.float64) for _ in range(2)
    )
    return torch.softmax(3 * logits, dim=1), x


@claim(
    "P5/fact-b.8-repaired",
    repairs="P5/fact-b.8",
    place="ours",
    title="Squared distance of a vector to its mean under a softmax",
    statement="""(1/d) <1, (x - 1 <s, x>)^2> >= v_x for every softmax vector s and every x: c = 1.""",
    derivation="""The mean of (x_k - a)^2 over k is v_x + (xbar - a)^2, least at a = xbar.""",
    quick={"d": 8, "draws": 1000},
    sizes=({"d": 8}, {"d": 64}),
    seconds=0.05,
)
def squared_distance_to_the_mean(settings: Settings, seed: int) -> Finding:
    s, x = _softmax_and_values(settings, seed)
    sides = (x - (s * x).sum(dim=1, keepdim=True)).square().mean(dim=1)
    ratios = sides / x.var(dim=1, correction=0)
    return Finding(
        conclusions=(Conclusion("least left-hand side / variance", ">=", 1 - 1e-12, ratios.min().item()),)
    )
