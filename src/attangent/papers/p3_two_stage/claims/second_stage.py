"""Theorems 3 and 4: the second stage, the floor of the hard part, and whether the easy part is preserved."""

import math
from dataclasses import dataclass, replace

from attangent._core.random import generator
from attangent.audit import Conclusion, Failure, Figure, Finding, Hypothesis, Series, Settings, claim
from attangent.papers.common.figures import plot
from attangent.papers.common.sizes import no_growth
from attangent.papers.p3_two_stage.claims import proofs_of_stages
from attangent.papers.p3_two_stage.claims.first_stage import ASSUMED, SMALL_RATIO, assumption_1
from attangent.papers.p3_two_stage.claims.two_stage_setting import Assumption1, easy_pull, signal_norm
from attangent.papers.p3_two_stage.theory.attention import ReluAttention, ReluWeights, Variant
from attangent.papers.p3_two_stage.theory.data import TwoStageData
from attangent.papers.p3_two_stage.theory.floor import (
    bias_solution,
    minimise_q_loss,
    paper_solution,
    q_loss_bounds,
    q_losses,
    signed_solution,
)
from attangent.papers.p3_two_stage.theory.training import ConstantRate, train


@dataclass(frozen=True)
class _Trained:
    """The state after stage 2 at one d: |signal of V| and K2, the norm that (c.1) requires and the largest
    norm that decay allows.
    """

    norm: float
    loss: float
    required: float
    most: float
    epsilon: float


@claim(
    "P3/theorem-3",
    plain="""Printed: stage 2 learns the hard part. True: for balanced prompts every V has a loss of at
        least log(2)/2; the theorem is false.""",
    failure=Failure(
        cause="P3/definition-6",
        consequence="Theorem 3 falls",
        first_size="(c.1) from d = 2, (c.2) by d = 10^79 with the constant 1",
    ),
    proof=proofs_of_stages.theorem_3,
    place="Section 4.2, Theorem 3 (Appendix G.1)",
    title="Stage 2: the hard part is learned",
    quote="Namely, the network g learns hard-to-fit component Q within t_2 iterations.",
    quick={
        **ASSUMED, "dimensions": [16, 256, 4096, 65536], "p": 0.5, "N": 200, "runs": 2, "second_rate": 0.5,
        "decay_times": 6.0, "search_prompts": 600, "starts": 2, "search_steps": 60,
    },
    full={"N": 500, "runs": 3, "search_prompts": 1000, "starts": 4, "search_steps": 120},
    seconds=2.0,
    rests_on=("P3/theorem-1", "P3/theorem-2", "P3/lemma-7", "P3/equation-21", "P3/definition-5"),
)  # fmt: skip
def hard_part_is_learned(settings: Settings, seed: int) -> Finding:
    """Under Assumption 1, after the second stage at a small rate (c.1) the signal weights of V have a norm of
    order log(1/eps) / eps with eps = eps_(V,1), and (c.2) K2 is at most eps + (log d)^(-1/4) + (log d)^(-1/2)
    up to constants, which tends to 0 as d grows.
    """
    dimensions = settings.dimensions
    trained = [_hard_stage_two(settings, d, seed) for d in dimensions]
    least = [_least_loss(settings, d, seed) for d in dimensions]
    slower = _hard_stage_two(settings | {"second_rate": settings.second_rate / 2}, dimensions[0], seed)
    shares = [f.norm / f.required for f in trained]
    norm = "(c.1) exponent in d of |signal of V| eps / log(1/eps)"
    floor = "smallest K2 on training prompts / (p log 2), over all d"
    lowest = min(least) / (math.log(2) * settings.p)
    return Finding(
        hypotheses=(
            *assumption_1(settings),
            Hypothesis("r / u at the largest d (r << u)", "<=", SMALL_RATIO, 1 / dimensions[-1]),
            Hypothesis("eps_(V,1) at the smallest d", "<=", 1.0, trained[0].epsilon),
            Hypothesis("change of K2 when eta_2 is halved", "<=", 0.02, abs(slower.loss - trained[0].loss)),
        ),
        conclusions=(
            Conclusion.of_trend(norm, ">=", 0.0, dimensions, shares, part="c.1"),
            *_loss_trends(dimensions, [f.loss for f in trained], least),
            Conclusion(floor, ">=", 0.9, lowest, claimed=False),
        ),
        numbers={
            "K2 after training at the largest d": trained[-1].loss,
            "|signal of V| at the largest d": trained[-1].norm,
            "norm required by (c.1) at the largest d": trained[-1].required,
            "largest norm allowed by Proposition 4 at the largest d": trained[-1].most,
            "log10 of the d above which the printed bound is below the floor": _least_log_d() / math.log(10),
        },
        figures=(_hard_figure(settings, trained, least),),
        remark="(c.1) is out of reach: |gradient over V| is at most (u + r)^2/2, so by Proposition 4 decay "
        "keeps the signal below (u + r)^2/(2 lambda). (c.2) cannot hold for any V: for P(y=+1) <= 1/2 "
        "convexity of the ReLU keeps the mean answer to z at or below 0, so K2 >= log 2 / 2 for balanced "
        "prompts (see q_loss_bounds). The proof sets rows of X_2'V freely, but X_2 has three different "
        "columns with (z + zeta) + (z - zeta) = 2z.",
    )


def _loss_trends(dimensions: list[int], trained: list[float], least: list[float]) -> list[Conclusion]:
    """Return the trends of K2 in log d, after training and for the smallest K2 of any V found."""
    slowest = "the slowest term of the bound has -1/4"
    names = {
        f"(c.2) exponent of K2 in log d after training; {slowest}": trained,
        f"(c.2) the same for the smallest K2 of any V found; {slowest}": least,
    }
    logs = [math.log(d) for d in dimensions]
    return [
        Conclusion.of_trend(name, "<=", -0.25, logs, losses, part="c.2") for name, losses in names.items()
    ]


def _hard_stage_two(settings: Settings, d: int, seed: int) -> _Trained:
    """Run both stages in the plane of z and zeta, the second without its negligible noise."""
    scale = Assumption1.of(settings | {"r": settings.u / d}, d)
    data = TwoStageData(2, scale.L, u=scale.u, r=scale.r, p=settings.p)
    prompts = data.sample_q(settings.N, runs=settings.runs, seed=seed)
    model = ReluAttention(2, std=scale.init_std, runs=settings.runs, seed=seed)
    first = ConstantRate(settings.rate, scale.first_steps(settings.rate))
    second = scale.stage(settings.second_rate, settings.decay_times, noise=0.0)
    both = replace(second, stages=(first, *second.stages))
    end = train(model, prompts, both, seed=seed).ends[-1]
    eps = scale.hard_epsilon
    return _Trained(
        max(signal_norm(end.signal.V).mean().item(), 1e-300),
        end.losses.K2.mean().item(),
        math.log(1 / eps) / eps,
        scale.hard**2 / (2 * scale.weight_decay),
        eps,
    )


def _least_loss(settings: Settings, d: int, seed: int) -> float:
    """Return the smallest K2 on drawn training prompts of the searched V and of the closed-form one."""
    data = TwoStageData(4, round(d**settings.power) + 1, u=1.0, r=0.5, p=settings.p)
    searched = minimise_q_loss(
        data, starts=settings.starts, steps=settings.search_steps, prompts=settings.search_prompts, seed=seed
    )
    drawn = data.sample_q(settings.search_prompts, seed=generator(seed, "prompts of the search"))
    candidates = (searched, paper_solution(data))
    return min(q_losses(V, data, "paper", drawn).mean(-1).min().item() for V in candidates)


def _least_log_d() -> float:
    """Return the log d at which (log d)^(-1/4) + (log d)^(-1/2) = log 2 / 2."""
    return ((math.sqrt(1 + 2 * math.log(2)) - 1) / 2) ** -4


def _hard_figure(settings: Settings, trained: list[_Trained], least: list[float]) -> Figure:
    d = settings.dimensions
    floors = [q_loss_bounds(settings.p, round(size**settings.power) + 1).lower for size in d]
    printed = [math.log(size) ** -0.25 + math.log(size) ** -0.5 for size in d]
    return plot(
        "The loss of the hard part",
        ("d", "K2"),
        Series.of("after training", d, [f.loss for f in trained]),
        Series.of("smallest of any V found", d, least),
        Series.of("floor for every V", d, floors, "bound"),
        Series.of("(log d)^(-1/4) + (log d)^(-1/2)", d, printed),
        log="x",
    )


_SETTING = {**ASSUMED, "u": 0.4, "r": 0.1, "N": 16, "runs": 1, "second_rate": 0.5, "decay_times": 6.0}


@claim(
    "P3/theorem-4",
    plain="""Printed: stage 2 leaves W where it was, up to eps^2. True: W moves by sqrt(log d)/d whatever
        L, which is more than the bound for L of order d^2 and above; for L = d^1.5 the bound is kept.""",
    failure=Failure(
        cause="P3/theorem-2",
        consequence="(d.1) of Theorem 4 falls for L of order d^2 and above; (d.2) was not contradicted",
        first_size="d = 2 at L = d^3 with constants 1, and d = 2 with the constant 10",
    ),
    proof=proofs_of_stages.theorem_4,
    ours=("for every L = Theta(Poly(d))",),
    place="Section 4.2, Theorem 4 (Appendix G.2)",
    title="Stage 2: the easy part is preserved",
    quote="the network h continues to preserve the easy-to-fit knowledge like P within t_2 iterations",
    quick={**_SETTING, "dimensions": [6, 8, 10, 13], "power": 3.0, "other_power": 1.5, "runs": 2},
    full={"dimensions": [8, 12, 16, 24], "runs": 3},
    seconds=2.0,
    rests_on=("P3/theorem-2", "P3/theorem-3", "P3/lemma-7", "P3/equation-21", "P3/activation-count"),
)
def easy_part_is_preserved(settings: Settings, seed: int) -> Finding:
    """Over the second stage, with N = Theta(Poly(d)) prompts, (d.1) the signal weights of W move by at most
    eps^2 / (log^2(1/eps) sqrt(log d)), and (d.2) K1 changes by at most as much, with eps = eps_(V,1), up to
    constants and for every L = Theta(Poly(d)).
    """
    d = settings.dimensions
    stages = [easy_stage_two(settings | {"N": size}, size, seed) for size in d]
    shorter = settings | {"power": settings.other_power}
    short_stages = [easy_stage_two(shorter | {"N": size}, size, seed) for size in d]
    short = [stage.moved / stage.bound for stage in short_stages]
    least_power = min(math.log(stage.N) / math.log(size) for stage, size in zip(stages, d, strict=True))
    slower = easy_stage_two(settings | {"second_rate": settings.second_rate / 2, "N": d[0]}, d[0], seed)
    change = abs(slower.moved / stages[0].moved - 1) if stages[0].moved else 0.0
    return Finding(
        hypotheses=(
            *assumption_1(settings),
            Hypothesis("eps_(V,1) at the smallest d", "<=", 1.0, Assumption1.of(settings, d[0]).hard_epsilon),
            Hypothesis("relative change of the move when eta_2 is halved", "<=", 0.02, change),
            Hypothesis("least log N / log d (N = Theta(Poly(d)))", ">=", 1.0, least_power),
        ),
        conclusions=(
            _trend(settings, "d.1", "(move of the signal of W)", [f.moved / f.bound for f in stages]),
            _trend(settings, "d.2", "|change of K1|", [f.changed / f.bound for f in stages]),
            no_growth(f"exponent of (d.1) at L = d^{settings.other_power:g}", d, short, claimed=False),
        ),
        numbers={
            "move / bound with constant 1 at the largest d": stages[-1].moved / stages[-1].bound,
            f"the same at L = d^{settings.other_power:g}": short[-1],
            "move / (e^-1 mu^2 / 8 lambda) at the largest d": stages[-1].moved / stages[-1].expected,
        },
        figures=(_easy_figure(settings, stages),),
        remark="Stage 1 lasts one decay time 1/lambda and brings the signal to about 63 % of the balance of "
        "decay and gradient. Stage 2 lasts log^2(1/eps)/eps^2 decay times and completes the way, a move "
        "of order sqrt(log d)/d for every L. The bound falls like d/L: it holds up to a constant for L = "
        "d^1.5 and fails by a growing factor for L = d^3. The printed eta_2 is too small to run. The move "
        "does not depend on it, as halving shows; nor does it depend on noise, which the printed rate "
        "makes negligible.",
    )


def _trend(settings: Settings, part: str, what: str, ratios: list[float]) -> Conclusion:
    name = f"({part}) exponent in d of {what} / bound, L = d^{settings.power:g}"
    return no_growth(name, settings.dimensions, ratios, part=part)


@dataclass(frozen=True)
class SecondStage:
    """How far W moves in stage 2, in norm and along w*; the change of K1; the bound; the expected move; the
    number of prompts.
    """

    moved: float
    along: float
    changed: float
    bound: float
    expected: float
    N: int


def easy_stage_two(settings: Settings, d: int, seed: int) -> SecondStage:
    """Run stage 1 with noise, then stage 2 without, until W has stopped moving."""
    scale = Assumption1.of(settings, d)
    model, prompts = scale.start(settings, seed)
    first = train(model, prompts, scale.stage(settings.rate), seed=seed).ends[0]
    second = scale.stage(settings.second_rate, settings.decay_times, noise=0.0)
    last = train(model, prompts, second, seed=seed).ends[0]
    shrink = (1 - settings.second_rate * scale.weight_decay) ** second.steps
    move = last.signal.W + (shrink - 1) * first.signal.W  # the second run counts its signal from 0
    eps = scale.hard_epsilon
    w_star = scale.data().w_star
    remaining = (1 - settings.rate * scale.weight_decay) ** scale.first_steps(settings.rate)
    return SecondStage(
        signal_norm(move).mean().item(),
        (move[:, 0] @ w_star @ w_star).mean().item(),
        (last.losses.K1 - first.losses.K1).abs().mean().item(),
        eps**2 / (math.log(1 / eps) ** 2 * scale.root_log),
        easy_pull(d) / scale.weight_decay * remaining,
        prompts.answers.shape[-1],
    )


def _easy_figure(settings: Settings, stages: list[SecondStage]) -> Figure:
    return plot(
        "How far the signal of W moves in the second stage",
        ("d", "norm"),
        Series.of("measured", settings.dimensions, [f.moved for f in stages]),
        Series.of("e^-1 mu^2 / 8 lambda", settings.dimensions, [f.expected for f in stages], "points"),
        Series.of("bound, constant 1", settings.dimensions, [f.bound for f in stages], "bound"),
    )


@claim(
    "P3/theorem-3-repaired",
    plain="Half of log 2 is the floor, and an output bias, a second head or unbalanced labels remove it.",
    sharp="sharp: the floor is attained up to (1-p) log 2 ((1+p)/2)^(L-1)",
    title="The floor of the hard part, and how to remove it",
    derivation="""For a query q let a = z'Vq, b = zeta'Vq. E g = (1 - 1/L)(p relu(a) - (1-p)/2 (relu(a+b) +
        relu(a-b))) <= (1 - 1/L)(2p - 1) relu(a) <= 0 by convexity, so the loss on the query z is at least
        log 2. V = c zeta zeta'/r^4 answers z +- zeta by -c n_own/L and z by 0. A bias beta of a quarter
        of c(1-p)/2 then makes all answers right unless a token is missing from the context.""",
    quick={"L": 129, "p": 0.5, "fresh": 20_000, "unbalanced": 0.6},
    sizes=({"L": 65}, {"L": 1025}),
)
def floor_and_ways_below(settings: Settings, seed: int) -> Finding:
    """For P(y=+1) = p <= 1/2 every V has K2 >= p log 2, and the smallest K2 is within (1-p) log 2
    ((1+p)/2)^(L-1) of it. With an output bias, or with a second head of value -1, K2 tends to 0 as L grows
    for weights of norm c/r^2. So it does for p > 1/2.
    """
    data = TwoStageData(4, settings.L, u=1.0, r=0.5, p=settings.p)
    unbalanced = TwoStageData(4, settings.L, u=1.0, r=0.5, p=settings.unbalanced)
    bounds = q_loss_bounds(settings.p, settings.L)

    def fresh_loss(data: TwoStageData, weights: ReluWeights, variant: Variant = "paper") -> float:
        drawn = data.sample_q(settings.fresh, seed=generator(seed, "fresh prompts"))
        return q_losses(weights, data, variant, drawn).mean().item()

    best = fresh_loss(data, paper_solution(data))
    outside = max(bounds.lower - best, best - bounds.upper, 0.0)
    below = {
        "an output bias": fresh_loss(data, bias_solution(data), "bias"),
        "a second head": fresh_loss(data, signed_solution(data), "signed"),
        f"p = {settings.unbalanced:g}": fresh_loss(unbalanced, paper_solution(unbalanced)),
    }
    return Finding(
        conclusions=(
            Conclusion("best closed-form V: distance of K2 to the bounds", "<=", 0.01, outside),
            *(
                Conclusion(f"K2 / floor with {name}", "<=", 0.5, loss / bounds.lower)
                for name, loss in below.items()
            ),
        ),
        numbers={"K2 of the best closed-form V": best, "floor": bounds.lower, **below},
    )


@claim(
    "P3/theorem-4-repaired",
    plain="W moves by e^-1 mu^2/(8 lambda) in stage 2, whatever L.",
    sharp="sharp: the move tends to the stated value for many prompts",
    title="How far the easy part moves in stage 2",
    derivation="""The gradient stays -mu^2/8 w* w*' while answers are small (see Theorem 2 as repaired), and
        the signal tends to mu^2/(8 lambda) w* w*'. Stage 1 has covered the fraction 1 - (1 - eta_1
        lambda)^(t_1) of it, about 1 - 1/e. Stage 2 lasts many decay times and covers the rest.
        eps_(V,1)^2 is of order d/L and plays no role.""",
    quick={**ASSUMED, "u": 0.4, "N": 256, "runs": 2, "second_rate": 0.5, "decay_times": 6.0, "d": 8},
    sizes=({"d": 12, "power": 2.0}, {"d": 16, "power": 1.5}),
)
def easy_part_moves(settings: Settings, seed: int) -> Finding:
    """Under Assumption 1, with many more prompts than d, stage 2 moves the signal of W by (1 - eta_1
    lambda)^(t_1) mu^2/(8 lambda) along w* w*', of order sqrt(log d)/d, for every L. The easy part is
    preserved up to that, not up to eps_(V,1)^2.
    """
    stage = easy_stage_two(settings, settings.d, seed)
    return Finding(
        hypotheses=(Hypothesis("prompts / d (N >> d)", ">=", 4.0, stage.N / settings.d),),
        conclusions=(
            Conclusion("|move along w* / expected - 1|", "<=", 0.15, abs(stage.along / stage.expected - 1)),
            Conclusion("norm of the move / expected", "<=", 1.5, stage.moved / stage.expected),
        ),
        numbers={"move": stage.moved, "expected": stage.expected},
    )
