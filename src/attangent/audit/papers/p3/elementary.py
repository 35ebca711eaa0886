"""Theorems 1 and 2: the first stage under Assumption 1."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Hypothesis, Series
from attangent.audit.papers.p3.two_stage_setting import Assumption1, exponent, signal_norm
from attangent.audit.registry import claim
from attangent.stages import ReluAttention, TwoStageData
from attangent.stages.theory.training import ConstantRate, Moment, NoisySGD, train

_ASSUMED = {"lambda_constant": 1.0, "tau_constant": 1.0, "rate": 0.1, "power": 2.0, "u": 0.5, "r": 0.1}


@claim(
    "P3/theorem-1",
    place="Section 4.1, Theorem 1 (Appendix F.1)",
    title="Stage 1: the hard part is not learned",
    statement="""Under Assumption 1, after t_1 = 1/(eta_1 lambda) steps, (a.1) the signal weights of V have
        a norm of order 1/Poly(d), and (a.2) K2 >= log 2 - 1/sqrt(log d) - sqrt(log d / N) up to
        constants.""",
    quick={**_ASSUMED, "dimensions": [16, 64, 256], "N_per_d": 4, "runs": 40},
    full={"dimensions": [16, 64, 256, 1024, 4096], "runs": 100},
    seeds=1,
    seconds=0.7,
)
def hard_part_is_not_learned(settings: Settings, seed: int) -> Finding:
    as_given, margin = _hard_over_dimensions(settings, seed)
    closer, _ = _hard_over_dimensions(settings | {"r": settings.r / 100}, seed)
    return Finding(
        hypotheses=_assumption_1(settings),
        conclusions=(
            Conclusion(
                "(a.1) growth exponent in d of |signal of V|, median of runs",
                "<=",
                -0.25,
                exponent(settings.dimensions, as_given.median(1).values.tolist()),
            ),
            Conclusion("(a.2) K2 at t_1 minus its bound with constants 1, least", ">=", 0.0, margin),
            Conclusion(
                "the exponent of (a.1) with r a hundred times smaller",
                "<=",
                -0.25,
                exponent(settings.dimensions, closer.median(1).values.tolist()),
                claimed=False,
            ),
        ),
        numbers={
            "runs": float(settings.runs),
            "r / u": settings.r / settings.u,
            "|signal of V| at the largest d, median": as_given[-1].median().item(),
            "|signal of V| at the largest d, 90 % quantile": as_given[-1].quantile(0.9).item(),
        },
        figures=(_norm_figure(settings, as_given, closer),),
        remark="The hard network sees only the plane of z and zeta, so it is trained there, with tau_0, "
        "lambda, L and N of the named d. While the noise gives z and z +- zeta the same sign the "
        "gradients of both classes cancel; for a fixed r / u it tells them apart some of the time at "
        "every d, and V takes gradients that do not shrink. (a.1) needs r to shrink with d as well.",
    )


def _hard_over_dimensions(settings: Settings, seed: int) -> tuple[Tensor, float]:
    """|signal of V| (dimensions, runs) at t_1, and the least distance of K2 above the bound of (a.2)."""
    norms, margins = [], []
    for d in settings.dimensions:
        scale, N = Assumption1.of(settings, d), settings.N_per_d * d
        end = _hard_stage_one(settings, scale, N, seed)
        norms.append(signal_norm(end.signal.V))
        floor = math.log(2) - 1 / scale.root_log - math.sqrt(math.log(d) / N)
        margins.append((end.losses.K2 - floor).min().item())
    return torch.stack(norms), min(margins)


def _hard_stage_one(settings: Settings, scale: Assumption1, N: int, seed: int) -> Moment:
    """V at t_1 in all runs."""
    data = TwoStageData(2, scale.L, u=scale.u, r=scale.r)
    model = ReluAttention(2, std=scale.init_std, runs=settings.runs, seed=seed)
    steps = scale.first_steps(settings.rate)
    config = NoisySGD(
        (ConstantRate(settings.rate, steps),), scale.weight_decay, scale.init_std, record_every=steps
    )
    return train(model, data.sample_q(N, runs=settings.runs, seed=seed), config, seed=seed).ends[0]


def _norm_figure(settings: Settings, as_given: Tensor, closer: Tensor) -> Figure:
    return Figure(
        "Signal of V after the first stage",
        "d",
        "norm",
        (
            Series.of("median of runs", settings.dimensions, as_given.median(1).values),
            Series.of("90 % quantile", settings.dimensions, as_given.quantile(0.9, dim=1)),
            Series.of("median, r a hundred times smaller", settings.dimensions, closer.median(1).values),
        ),
        log_x=True,
        log_y=True,
    )


@claim(
    "P3/theorem-2",
    place="Section 4.1, Theorem 2 (Appendix F.2)",
    title="Stage 1: the easy part is learned",
    statement="""Under Assumption 1, after t_1 steps, (b.1) the signal weights of W have a norm of order d
        log(1/eps_(W,1)), and (b.2) K1 <= eps_(W,1) + sqrt(d) log(d) eps_W / L + 1/sqrt(log d) up to
        constants.""",
    quick={**_ASSUMED, "dimensions": [8, 16, 32], "N": 32, "runs": 5},
    full={"dimensions": [8, 16, 32, 48]},
    seeds=1,
    seconds=1.0,
)
def easy_part_is_learned(settings: Settings, seed: int) -> Finding:
    measured = [_easy_stage_one(settings, d, seed) for d in settings.dimensions]
    growth = exponent(settings.dimensions, [m.norm / m.asked_norm for m in measured])
    last = measured[-1]
    return Finding(
        hypotheses=_assumption_1(settings),
        conclusions=(
            Conclusion(
                "(b.1) growth exponent in d of |signal of W| / (d log(1/eps)), from below",
                ">=",
                -0.25,
                growth,
            ),
            Conclusion("(b.1) the same, from above", "<=", 0.25, growth),
            Conclusion(
                "(b.2) K1 at t_1 minus its bound with constants 1, largest",
                "<=",
                0.0,
                max(m.easy_loss - m.printed_loss for m in measured),
            ),
            *_what_is_learned(measured[-1]),
        ),
        numbers={
            "|signal of W| at the largest d": last.norm,
            "d log(1/eps) at the largest d": last.asked_norm,
            "bound (b.2) / log 2 at the largest d": last.printed_loss / math.log(2),
        },
        figures=(_easy_figure(settings, measured),),
        remark="Proposition 4 keeps the signal below K/lambda, of order sqrt(log d) under Assumption 1, far "
        "below d log(1/eps): both cannot hold. The easy part is learned where lambda is thousands of "
        "times smaller: see P3/two-stages. The bound on K1 is above log 2 at every size in reach and "
        "says nothing there.",
    )


def _what_is_learned(last: "_EasyStage") -> tuple[Conclusion, ...]:
    """At the largest d: whether K1 has halved, and whether Proposition 4 leaves room for (b.1)."""
    learned, room = (
        "K1 at t_1 at the largest d",
        "K/lambda of Proposition 4 against d log(1/eps) at the largest d",
    )
    return (
        Conclusion(learned, "<=", 0.5 * math.log(2), last.easy_loss, claimed=False),
        Conclusion(room, ">=", last.asked_norm, last.largest_norm, claimed=False),
    )


def _easy_figure(settings: Settings, measured: list["_EasyStage"]) -> Figure:
    return Figure(
        "Signal of W after the first stage",
        "d",
        "norm",
        (
            Series.of("measured", settings.dimensions, [m.norm for m in measured]),
            Series.of("K/lambda", settings.dimensions, [m.largest_norm for m in measured], "bound"),
            Series.of("d log(1/eps)", settings.dimensions, [m.asked_norm for m in measured]),
        ),
        log_x=True,
        log_y=True,
    )


@dataclass(frozen=True)
class _EasyStage:
    """What stage 1 left of the easy part at one d, means over runs, beside what the theorem asks."""

    norm: float
    asked_norm: float
    largest_norm: float
    easy_loss: float
    printed_loss: float


def _easy_stage_one(settings: Settings, d: int, seed: int) -> _EasyStage:
    scale = Assumption1.of(settings, d)
    model = ReluAttention(d, std=scale.init_std, runs=settings.runs, seed=seed)
    prompts = scale.data().sample(settings.N, runs=settings.runs, seed=seed)
    gradients: list[Tensor] = []
    steps = scale.first_steps(settings.rate)
    config = NoisySGD(
        (ConstantRate(settings.rate, steps),), scale.weight_decay, scale.init_std, record_every=steps
    )
    course = train(
        model, prompts, config, seed=seed, observer=lambda _s, _r, g, _x: gradients.append(signal_norm(g.W))
    )
    K = torch.stack(gradients).max().item()
    eps = scale.epsilon(scale.easy)
    printed = eps + math.sqrt(d) * math.log(d) / scale.L * scale.flips(K) + 1 / scale.root_log
    return _EasyStage(
        course.norm_W[-1].mean().item(),
        d * math.log(1 / eps),
        K / scale.weight_decay,
        course.losses.K1[-1].mean().item(),
        printed,
    )


def _assumption_1(settings: Settings) -> tuple[Hypothesis, ...]:
    largest = Assumption1.of(settings, max(settings.dimensions))
    smallest = Assumption1.of(settings, min(settings.dimensions))
    return (
        Hypothesis("tau_0 sqrt(log d)", "<=", 10.0, largest.init_std * largest.root_log),
        Hypothesis("1 / (lambda sqrt(log d))", "<=", 10.0, 1 / (largest.weight_decay * largest.root_log)),
        Hypothesis("log L / log d", ">=", 1.0, math.log(largest.L) / math.log(largest.d)),
        Hypothesis("eta_1 lambda", "<=", 1 - 1e-9, settings.rate * smallest.weight_decay),
        Hypothesis("eps_(W,1) at the least d", "<=", 1.0, smallest.epsilon(smallest.easy)),
    )
