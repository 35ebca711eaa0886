"""Section 5.2, Appendix I: what descent converges to, and which signs the hidden weights take."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.audit import Conclusion, Failure, Figure, Finding, Hypothesis, Series, Settings, claim
from attangent.papers.common.bounds import bound_figure, falling
from attangent.papers.common.figures import plot
from attangent.papers.common.sizes import by_size
from attangent.papers.p5_forecasting.claims import proofs
from attangent.papers.p5_forecasting.claims.scalar_regression import (
    PAIR,
    Converged,
    asked,
    asked_in_the_limit,
    converge,
    scalar_regression,
)

_LAZY = {"n": 2, "d": 8, "m": 256, "noise": 0.01, "delta": 0.05, "rate": 1.0}


@claim(
    "P5/theorem-5.2-convergence",
    plain="""The loss converges at the stated rate where the kernel is well conditioned; the stated width
        is out of reach.""",
    place="Section 5.2, Theorem 5.2 (Theorem I.1)",
    title="The loss converges",
    quote="Let T >= Omega(1/(eta lambda) log(nB^2/eps)), we have: L(T) <= eps.",
    rests_on=("P5/lemma-h.1", "P5/lemma-5.1"),
    quick={**_LAZY, "epsilon": 0.1, "most_steps": 2000, "crowd": 32, "crowd_steps": 60},
    full={"n": 3, "m": 1024, "most_steps": 4000, "crowd": 48, "crowd_steps": 150},
    seconds=1.5,
)
def convergence(settings: Settings, seed: int) -> Finding:
    """With a positive definite kernel and a wide enough network, L(t) <= (1 - eta lambda/2)^t L(0), so that
    L(T) <= epsilon after T = log(L(0)/epsilon)/(eta lambda/2) steps.
    """
    p = scalar_regression(settings, seed)
    rate = p.rate(settings.rate)
    shrink = rate * p.lambda_min / 2
    needed = math.ceil(math.log(1 / settings.epsilon) / shrink) if shrink > 0 else math.inf
    steps = int(min(needed, settings.most_steps))
    run = p.network.descend(p.X, p.y, rate, steps)
    bound = falling(run.loss, shrink)
    left = (run.loss[-1] / run.loss[0]).item() if not run.diverged else math.inf
    reached = left if needed <= settings.most_steps or left <= settings.epsilon or run.diverged else math.nan
    crowd = scalar_regression(settings | {"n": settings.crowd}, seed)
    crowded = crowd.network.descend(crowd.X, crowd.y, crowd.rate(settings.rate), settings.crowd_steps)
    crowded_left = (crowded.loss[-1] / crowded.loss[0]).item()
    singular = f"L / L(0) with {settings.crowd} points, whose kernel is singular"
    return Finding(
        hypotheses=asked(p, settings),
        conclusions=(
            Conclusion("L(T) / L(0)", "<=", settings.epsilon, reached),
            Conclusion("largest L(t) / bound", "<=", 1 + 1e-9, (run.loss / bound).max().item()),
            Conclusion(singular, ">=", settings.epsilon, crowded_left, claimed=False),
        ),
        numbers={
            "lambda_min": p.lambda_min,
            "T": float(needed),
            "lambda_min with many points": crowd.lambda_min,
        },
        figures=(bound_figure("Loss and its bound", "loss", run.loss, bound, ("loss", "bound")),),
        remark="The kernel has a numerical rank of about ten whatever the width, so that the hypothesis is "
        "met for a handful of points only; with more, descent stops far above the error of linear "
        "regression.",
    )


WIDE = {**_LAZY, "n": 8, "m": 512, "steps": 60, "widths": [32, 96, 256, 512]}
_WIDER = {"widths": [32, 128, 512, 2048], "steps": 250}


@dataclass(frozen=True)
class Trained:
    """After training at one width: the share of neurons with a_r = 1 and w_r <= 0, that with a_r = -1 and w_r
    >= 0, the largest move R, and the share of neurons that began within R of 0.
    """

    wrong_up: float
    wrong_down: float
    R: float
    near_zero: float


def trained(settings: Settings, seed: int) -> Trained:
    p = scalar_regression(settings, seed)
    run = p.network.descend(p.X, p.y, p.rate(settings.rate), settings.steps)
    w = run.final.W[0]
    up = p.network.a[0] > 0
    R = run.movement[-1].item()
    return Trained(
        (w[up] <= 0).double().mean().item(),
        (w[~up] >= 0).double().mean().item(),
        R,
        (p.network.W[0].abs() <= R).double().mean().item(),
    )


CONVERGED = {**PAIR, "d": 8, "noise": 0.01, "delta": 0.05, "rate": 1.0, "widths": [32, 96, 256, 1024]}


@claim(
    "P5/theorem-5.2-asymmetry",
    plain="""Printed: after long training hidden weights have the signs of their output weights. True:
        Lemma H.4 keeps weights near a start that is independent of them, so half do; Parts 1 and 2 are
        false at every t.""",
    failure=Failure(
        cause="P5/lemma-i.5",
        consequence="Theorem 5.2, Parts 1 and 2, and Theorem 5.3 fall; Proposition 6.3, Part 1, is not "
        "proved; convergence stands",
        first_size="every width at which Lemma H.4 gives R <= 1/2",
    ),
    proof=proofs.theorem_5_2,
    place="Section 5.2, Theorem 5.2 (Theorem I.1), Parts 1 and 2",
    title="Hidden weights take the sign of the output weights",
    quote="Part 1. Pr[w_r(t) > 0 | a_r = 1] >= 1 - delta. Part 2. Pr[w_r(t) < 0 | a_r = -1] >= 1 - delta.",
    quick=CONVERGED,
    full={"widths": [32, 128, 512, 2048], "pair_steps": 400},
    rests_on=("P5/lemma-i.3", "P5/lemma-h.1"),
    seconds=1.0,
)
def asymmetry(settings: Settings, seed: int) -> Finding:
    """In wide networks, for t >= m/(eta lambda v_min), w_r has the sign of a_r with probability at least 1 -
    delta.
    """
    ends = [converge(settings | {"m": m}, seed) for m in settings.widths]
    shares = [wrong_signs(end) for end in ends]
    last = ends[-1]
    moves = [end.run.movement[-1].item() for end in ends]
    farthest = "largest move R at the largest width (Lemma H.4)"
    lines = []
    for part, sign, wrong in zip(("Part 1", "Part 2"), (1, -1), shares[-1], strict=True):
        name = f"{part}: share with a_r = {sign} and the other sign, largest width, against delta"
        interval = (wrong.least, wrong.most)
        lines.append(Conclusion(name, "<=", settings.delta, wrong.share, interval=interval, part=part))
    return Finding(
        hypotheses=(
            Hypothesis("lambda", ">", 0.0, last.problem.lambda_min),
            Hypothesis(farthest, "<=", 1.0, moves[-1], in_limit=True),
        ),
        conclusions=tuple(lines),
        numbers={
            "L(t) / L(0) at the end": (last.run.loss[-1] / last.run.loss[0]).item(),
            "largest further move up to t = m / (eta lambda v_min)": last.remaining,
            **by_size(
                "share of w_r <= 0 with a_r = 1, m = {}", settings.widths, [up.share for up, _ in shares]
            ),
            **by_size("largest move, m = {}", settings.widths, moves),
        },
        figures=(_shares_figure(settings.widths, shares, moves),),
        remark="Two well-conditioned windows, trained until the gradient vanishes. The interval covers all "
        "that further steps up to the stated time can change. Lemma H.4, which the theorem rests on, "
        "keeps every weight within R of a start that is independent of a_r, and R falls like m^(-1/2): the "
        "share stays at a half. Parts 1 and 2 contradict Lemma H.4 as soon as R <= 1/2.",
    )


@dataclass(frozen=True)
class WrongSigns:
    """The share of neurons with another sign than a_r, and its range over all further steps."""

    share: float
    least: float
    most: float


def wrong_signs(end: Converged) -> tuple[WrongSigns, WrongSigns]:
    """Return the shares with w_r <= 0 among a_r = 1, and with w_r >= 0 among a_r = -1."""
    w = end.run.final.W[0]
    up = end.problem.network.a[0] > 0
    return _share_below(w[up], end.remaining), _share_below(-w[~up], end.remaining)


def _share_below(w: Tensor, move: float) -> WrongSigns:
    """Return the share of w <= 0 if every weight may still move by `move`."""
    return WrongSigns(*((w <= edge).double().mean().item() for edge in (0.0, -move, move)))


def _shares_figure(
    widths: list[int], shares: list[tuple[WrongSigns, WrongSigns]], moves: list[float]
) -> Figure:
    return plot(
        "Neurons with another sign than their output weight",
        ("width m", "share"),
        Series.of("a_r = 1", widths, [share[0].share for share in shares]),
        Series.of("a_r = -1", widths, [share[1].share for share in shares]),
        Series.of("largest move R", widths, moves, "points"),
        log="x",
    )


@claim(
    "P5/theorem-5.2-asymmetry-repaired",
    plain="In wide networks signs stay as they were at initialisation: half agree, up to sqrt(2/pi) R.",
    sharp="sharp as R -> 0",
    title="In wide networks hidden weights keep their signs",
    derivation="""Pairs share w_r(0) and have both signs of a_r: exactly half agree at the start. A sign
        changes only where |w_r(0)| <= |w_r(t) - w_r(0)| <= R, and P(|N(0,1)| <= R) <= sqrt(2/pi) R.""",
    quick=WIDE,
    sizes=({"m": 128}, {"m": 512}),
)
def signs_are_kept(settings: Settings, seed: int) -> Finding:
    """With a start in pairs, the share of neurons whose w_r has the sign of a_r stays within the share of
    neurons with |w_r(0)| <= R of 1/2, where R is the largest move; R falls with the width, and with it the
    distance to 1/2, at most sqrt(2/pi) R in expectation.
    """
    run = trained(settings, seed)
    aligned = 1 - (run.wrong_up + run.wrong_down) / 2
    error = 3 / math.sqrt(settings.m)
    excess = abs(aligned - 0.5) - run.near_zero
    share = (run.near_zero - error) / (math.sqrt(2 / math.pi) * run.R)
    return Finding(
        conclusions=(
            Conclusion("|share - 1/2| less the share of |w_r(0)| <= R", "<=", 0.0, excess),
            Conclusion("share of |w_r(0)| <= R less three errors / (sqrt(2/pi) R)", "<=", 1.0, share),
        ),
        numbers={"share with the sign of a_r": aligned, "largest move R": run.R},
    )


@claim(
    "P5/theorem-5.3",
    plain="""For w < 0 the last value gets less attention, as printed. That training makes w < 0 for every
        neuron with a_r = -1 is false.""",
    failure=Failure(
        cause="P5/lemma-i.5",
        consequence="the theorem falls for trained weights, and Proposition 6.3, Part 1, is not proved; for "
        "w_r < 0 it stands with another proof",
        first_size="every width at which Lemma H.4 gives R < 1",
    ),
    proof=proofs.theorem_5_3,
    place="Section 5.2, Theorem 5.3 (Theorem I.2)",
    title="The residual feature gets less attention",
    quote="For all r that satisfies a_r = -1, ... E[softmax_d(x_d w_r(t) x)] <= E[softmax_k(x_d w_r(t) x)]",
    quick={**WIDE, "draws": 20_000, "grid": [-2.0, -0.5, -0.1, 0.5, 2.0]},
    full={**_WIDER, "draws": 200_000},
    rests_on=("P5/theorem-5.2-asymmetry",),
    seconds=1.0,
)
def residual_feature(settings: Settings, seed: int) -> Finding:
    """For x ~ N(0, I), the expected attention on x_d is at most that on any other x_k (1) where w_r < 0, and
    (2) after training, for every neuron with a_r = -1, since then w_r < 0 by Theorem 5.2.
    """
    excess, error = excess_attention(settings, seed)
    below = max(e + 3 * s for w, e, s in zip(settings.grid, excess, error, strict=True) if w < 0)
    wrong = [trained(settings | {"m": m}, seed).wrong_down for m in settings.widths]
    widest = settings | {"m": settings.widths[-1]}
    before = "(1) largest E S_d - E S_k at w < 0, plus three errors"
    refuting = "(2) share of neurons with a_r = -1 and w_r > 0 at the largest width, refuting it"
    after = "(2) after training"
    return Finding(
        hypotheses=asked_in_the_limit(scalar_regression(widest, seed), widest, part=after),
        conclusions=(
            Conclusion(before, "<=", 0.0, below, part="(1) if w < 0"),
            Conclusion(refuting, "<=", 0.0, wrong[-1], part=after),
        ),
        numbers={
            **by_size("E S_d - E S_k at w = {:g}", settings.grid, excess),
            **by_size("share of w_r > 0 among a_r = -1, m = {}", settings.widths, wrong),
        },
        figures=(
            plot(
                "Extra attention on the last value",
                ("w", "E S_d - E S_k"),
                Series.of("measured", settings.grid, excess),
                log="",
            ),
        ),
        remark="The convexity that the proof uses does not hold; pairing x_k with -x_k proves (1). In wide "
        "networks half of the neurons with a_r = -1 keep a positive weight, and for those the last "
        "value gets more.",
    )


@claim(
    "P5/theorem-5.3-repaired",
    plain="For every w < 0 the last value gets less attention than any other.",
    sharp="sharp: equality at w = 0",
    title="The residual feature gets less attention where w < 0",
    derivation="""Fix all but the sign of x_k, let u = exp(w x_d^2) < 1, a = exp(w x_d x_k) and Z be the sum
        of the other exponentials, u included. (u - a)/(Z + a) + (u - 1/a)/(Z + 1/a) has the sign of 2uZ - 2
        + (u - Z)(a + 1/a) <= 2(u - 1)(Z + 1) < 0, since Z >= u and a + 1/a >= 2.""",
    quick={"d": 8, "draws": 40_000, "grid": [-3.0, -1.0, -0.3, -0.1], "scale": 1.0},
    sizes=({"d": 4}, {"d": 16}),
)
def residual_feature_for_negative_weights(settings: Settings, seed: int) -> Finding:
    """For x with independent symmetric coordinates and every w < 0, E softmax_d(x_d w x) < E softmax_k(x_d w
    x) for k < d; nothing of the kind holds for all neurons with a_r = -1 after training.
    """
    excess, error = excess_attention(settings, seed)
    return Finding(
        conclusions=tuple(
            Conclusion(f"E S_d - E S_k plus three errors, w = {w:g}", "<=", 0.0, e + 3 * s)
            for w, e, s in zip(settings.grid, excess, error, strict=True)
        )
    )


def excess_attention(settings: Settings, seed: int) -> tuple[list[float], list[float]]:
    """E[S_d - mean_(k<d) S_k] for each weight of the grid and its standard error; all k < d are alike."""
    rng = generator(seed, "gaussian")
    x = torch.randn(settings.draws, settings.d, generator=rng, dtype=torch.float64)
    means = []
    errors = []
    for w in settings.grid:
        S = torch.softmax(x[:, -1:] * w * x, dim=1)
        gaps = S[:, -1] - S[:, :-1].mean(dim=1)
        means.append(gaps.mean().item())
        errors.append(gaps.std().item() / math.sqrt(len(x)))
    return means, errors
