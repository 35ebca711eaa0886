"""Theorems 1 and 2: the first stage under Assumption 1."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attangent.audit import Conclusion, Failure, Figure, Finding, Hypothesis, Series, Settings, claim
from attangent.papers.common.figures import plot
from attangent.papers.common.sizes import no_growth
from attangent.papers.p3_two_stage.claims import proofs_of_stages
from attangent.papers.p3_two_stage.claims.two_stage_setting import (
    Assumption1,
    easy_pull,
    signal_norm,
    train_and_watch,
)
from attangent.papers.p3_two_stage.theory.attention import ReluAttention
from attangent.papers.p3_two_stage.theory.data import TwoStageData
from attangent.papers.p3_two_stage.theory.training import (
    ConstantRate,
    Moment,
    NoisySGD,
    TrainingRecord,
    train,
)

ASSUMED = {"lambda_constant": 1.0, "tau_constant": 1.0, "rate": 0.1, "power": 2.0, "u": 0.5, "r": 0.1}


SMALL_RATIO = 0.01
"""Our reading of r << u at the largest d."""
FIXED_RATIO = 0.05
"""Our reading of r << u for a ratio that does not depend on d."""
FLOOR = math.log(2) / 2
"""The least K2 that any V can have on balanced prompts (P3/theorem-3): a lower bound below it says
    nothing."""


@claim(
    "P3/theorem-1",
    plain="""The hard part is not learned in stage 1 if u or r/u falls like a power of 1/d. If both stay
        fixed, the signal of V fails to fall with d with a probability of order r/u, whatever d: part
        (a.1) fails. Part (a.2) held in the run.""",
    failure=Failure(
        cause="P3/theorem-1",
        consequence="part (a.1) of Theorem 1 falls for fixed u and r/u; Theorem 3 (term C) and Corollary 1 "
        "use it. (a.2) was not contradicted",
        first_size="in the limit only: at r/u = 1/20 the signal has stopped falling by d = 1024",
        root="u and r/u have no rate",
    ),
    proof=proofs_of_stages.theorem_1,
    ours=("u fixed as d grows; r/u = 1/d and r/u = 1/20 as two readings of r << u",),
    place="Section 4.1, Theorem 1 (Appendix F.1); r << u and the small zeta in Section 3.1",
    title="Stage 1: the hard part is not learned",
    quote="the hard-to-fit component Q is not efficiently learned by g within t_1 iterations",
    quick={
        **ASSUMED, "dimensions": [16, 64, 256, 1024], "N": 100, "runs": 40, "ratio_power": 1.0, "r": 0.025,
        "loss_d": 10**6, "loss_N": 6000,
    },
    full={"dimensions": [16, 64, 256, 1024, 4096], "N": 1000, "runs": 100, "loss_N": 20_000},
    seconds=1.5,
    rests_on=("P3/proposition-2", "P3/proposition-4", "P3/lemma-6", "P3/equation-21", "P3/activation-count"),
)  # fmt: skip
def hard_part_is_not_learned(settings: Settings, seed: int) -> Finding:
    """Under Assumption 1, with r << u and V_0 -> 0, after t_1 = 1/(eta_1 lambda) steps (a.1) the signal
    weights of V have a norm of order 1/Poly(d), and (a.2) K2 >= log 2 - 1/sqrt(log d) - sqrt(log d / N) up to
    constants.
    """
    falling = _hard_norms(settings, seed)
    fixed = _hard_norms(settings | {"ratio_power": 0.0}, seed)
    d = settings.dimensions
    loss, bound, begin = _hard_loss(settings, seed)
    ratio = loss / bound if bound > FLOOR else math.nan
    smallest = f"(a.2) smallest K2 at t_1 / bound, d = {settings.loss_d:.0e}, N = {settings.loss_N}"
    return Finding(
        hypotheses=(
            *assumption_1(settings),
            Hypothesis("r / u at the largest d", "<=", SMALL_RATIO, _ratio(settings, d[-1]), part=FALLING),
            Hypothesis("r / u", "<=", FIXED_RATIO, settings.r / settings.u, part=FIXED),
            Hypothesis("|signal of V| at the start (V_0 -> 0)", "<=", 0.0, begin),
        ),
        conclusions=(
            _norm_trend(d, falling, FALLING),
            _norm_trend(d, fixed, FIXED),
            Conclusion(smallest, ">=", 1.0, ratio, part="a.2"),
        ),
        numbers={
            "runs": float(settings.runs),
            "r / u at the smallest d": _ratio(settings, d[0]),
            "|signal of V| at the largest d, mean": falling[-1].mean().item(),
            "|signal of V| at the largest d, 90 % quantile": falling[-1].quantile(0.9).item(),
            "bound of (a.2) / the floor of any V": bound / FLOOR,
        },
        figures=(_norm_figure(d, falling, fixed),),
        remark="The hard network sees only the plane of z and zeta and is trained there, with the tau_0, "
        "lambda, L and N of the named d. While the noise gives z and z +- zeta the same sign, the gradients "
        "of both classes cancel. It separates them with a probability of order r / u. If r / u stays fixed "
        "as d grows, neither this probability nor the gradient in those draws shrinks; in the others the "
        "signal falls. (a.1) requires r / u or u to fall like a power of 1/d. (a.2) is tested at a d so "
        "large that its bound exceeds the least loss of any V; at d up to 4096 no V at all could break it.",
    )


FALLING = "a.1, r/u = 1/d"
FIXED = "a.1, r/u fixed"


def _norm_trend(dimensions: list[int], norms: Tensor, part: str) -> Conclusion:
    name = f"({part}) exponent in d of |signal of V|, mean of runs"
    values = norms.mean(1).tolist()
    return Conclusion.of_trend(name, "<", 0.0, dimensions, values, claimed=part == FALLING, part=part)


def _ratio(settings: Settings, d: int) -> float:
    """Return r / u at this d: d^-power, or the fixed ratio of the settings for power 0."""
    return d**-settings.ratio_power if settings.ratio_power else settings.r / settings.u


def _hard_norms(settings: Settings, seed: int) -> Tensor:
    """Return |signal of V| (dimensions, runs) at t_1."""
    ends = (_hard_stage_one(settings, d, seed).ends[0].signal.V for d in settings.dimensions)
    return torch.stack([signal_norm(V) for V in ends])


def _hard_loss(settings: Settings, seed: int) -> tuple[float, float, float]:
    """Return the smallest K2 at t_1 and its bound at the largest d, and |signal of V| at the start."""
    N = settings.loss_N
    log = math.log(settings.loss_d)
    course = _hard_stage_one(settings | {"runs": 1, "N": N}, settings.loss_d, seed)
    bound = math.log(2) - 1 / math.sqrt(log) - math.sqrt(log / N)
    return course.ends[0].losses.K2.min().item(), bound, course.norm_V[0].max().item()


def _hard_stage_one(settings: Settings, d: int, seed: int) -> TrainingRecord:
    """Train V up to t_1 in all runs."""
    scale = Assumption1.of(settings | {"r": settings.u * _ratio(settings, d)}, d)
    data = TwoStageData(2, scale.L, u=scale.u, r=scale.r)
    model = ReluAttention(2, std=scale.init_std, runs=settings.runs, seed=seed)
    prompts = data.sample_q(settings.N, runs=settings.runs, seed=seed)
    return train(model, prompts, scale.stage(settings.rate), seed=seed)


def _norm_figure(dimensions: list[int], shrinking: Tensor, fixed: Tensor) -> Figure:
    return plot(
        "Signal of V after the first stage",
        ("d", "norm"),
        Series.of("r / u falls with d, mean of runs", dimensions, shrinking.mean(1)),
        Series.of("r / u falls with d, 90 % quantile", dimensions, shrinking.quantile(0.9, dim=1)),
        Series.of("r / u fixed, mean of runs", dimensions, fixed.mean(1)),
    )


@claim(
    "P3/theorem-1-repaired",
    plain="""At initialisation the hard part has no mean gradient, except with probability (2/pi)
        atan(r/u) per query.""",
    sharp="sharp: the noise separates the classes with exactly this probability",
    title="When the hard part has no gradient at initialisation",
    derivation="""For a query q let a = z'Vq and b = zeta'Vq, independent normal variables with standard
        deviations in the ratio u to r. If |b| <= |a|, the tokens z, z + zeta, z - zeta are active together or
        not at all, and E[y x 1(x'Vq > 0)] = z/2 - (z + zeta)/4 - (z - zeta)/4 = 0. P(|b| > |a|) is the angle
        (2/pi) atan(r/u).""",
    quick={"u": 1.0, "r": 0.2, "draws": 40_000},
    sizes=({"r": 0.2}, {"r": 0.02}),
)
def no_gradient_at_the_start(settings: Settings, seed: int) -> Finding:
    """At initialisation and for balanced labels, the mean over contexts of the gradient over V for a query
    vanishes except with probability (2/pi) atan(r/u). So |signal of V| falls like a power of 1/d only if r/u
    does.
    """
    data = TwoStageData(2, 3, u=settings.u, r=settings.r)
    V = ReluAttention(2, std=1.0, runs=settings.draws, seed=seed).weights.V[:, 0]
    active = ((data.prototypes @ V @ data.z) >= 0).double()  # (draws, token) for the query z
    pulls = (active * torch.tensor([0.5, -0.25, -0.25], dtype=torch.float64)) @ data.prototypes
    apart = ((V @ data.z) @ data.zeta).abs() > ((V @ data.z) @ data.z).abs()
    expected = 2 / math.pi * math.atan(settings.r / settings.u)
    error = math.sqrt(expected * (1 - expected) / settings.draws)
    share = apart.double().mean().item()
    together_pull = pulls[~apart].norm(dim=-1).max().item()
    apart_pull = pulls[apart].norm(dim=-1).min().item() / settings.r
    distance = abs(share - expected) / error
    return Finding(
        conclusions=(
            Conclusion("largest |mean pull| if the classes are not separated", "<=", 1e-12, together_pull),
            Conclusion("least |mean pull| / r if they are", ">=", 0.2, apart_pull),
            Conclusion("distance of the share to (2/pi) atan(r/u), standard errors", "<=", 4.0, distance),
        )
    )


@claim(
    "P3/theorem-2",
    plain="""Printed: stage 1 brings W to the norm d log(1/eps) and learns the easy part. True: the
        paper's own Proposition 4 keeps W below K/lambda, of order sqrt(log d); the theorem is false.""",
    failure=Failure(
        cause="P3/theorem-2",
        consequence="Theorem 2 falls, and with it the two-stage picture under Assumption 1",
        first_size="d = 7 with constants 1, d = 15 with the constant 10 (L = d^2)",
        root="the gradient of the easy part, of order 1/d, is not computed",
    ),
    proof=proofs_of_stages.theorem_2,
    place="Section 4.1, Theorem 2 (Appendix F.2)",
    title="Stage 1: the easy part is learned",
    quote="the network h learns the easy-to-fit component P within t_1 iterations",
    quick={**ASSUMED, "dimensions": [8, 16, 24, 40], "N": 16, "runs": 3},
    full={"dimensions": [8, 16, 32, 64], "N": 32},
    seconds=0.8,
    rests_on=("P3/proposition-4", "P3/equation-21", "P3/equation-23", "P3/activation-count"),
)
def easy_part_is_learned(settings: Settings, seed: int) -> Finding:
    """Under Assumption 1, after t_1 steps (b.1) the signal weights of W have a norm of order d
    log(1/eps_(W,1)), and (b.2) K1 <= eps_(W,1) + sqrt(d) log(d) eps_W / L + 1/sqrt(log d) up to constants,
    which tends to 0 as d grows.
    """
    measured = [_easy_stage_one(settings, d, seed) for d in settings.dimensions]
    ratios = [m.norm / m.required_norm for m in measured]
    last = measured[-1]
    d = settings.dimensions
    logs = [math.log(size) for size in d]
    losses = [m.easy_loss for m in measured]
    norm = "(b.1) exponent in d of |signal of W| / (d log(1/eps))"
    loss = "(b.2) exponent of K1 at t_1 in log d; the slowest term of the bound has -1/2"
    clash = "K/lambda of Proposition 4 at the largest d, at least d log(1/eps)"
    return Finding(
        hypotheses=assumption_1(settings),
        conclusions=(
            Conclusion.of_trend(norm, ">=", 0.0, d, ratios, part="b.1"),
            no_growth("(b.1) the same, from above", d, ratios, part="b.1"),
            Conclusion.of_trend(loss, "<=", -0.5, logs, losses, part="b.2"),
            Conclusion(clash, ">=", last.required_norm, last.largest_norm, claimed=False),
        ),
        numbers={
            "|signal of W| at the largest d": last.norm,
            "d log(1/eps) at the largest d": last.required_norm,
            "K1 / log 2 at the largest d": last.easy_loss / math.log(2),
        },
        figures=(_easy_figure(settings, measured),),
        remark="Proposition 4 keeps the signal below K/lambda, of order sqrt(log d) under Assumption 1, and "
        "the gradient itself is of order 1/d. The signal is therefore of order sqrt(log d)/d, far below d "
        "log(1/eps), and K1 stays at log 2. The easy part is learned if lambda is of order 1/d^2.",
    )


def _easy_figure(settings: Settings, measured: list["_EasyStage"]) -> Figure:
    return plot(
        "Signal of W after the first stage",
        ("d", "norm"),
        Series.of("measured", settings.dimensions, [m.norm for m in measured]),
        Series.of("K/lambda", settings.dimensions, [m.largest_norm for m in measured], "bound"),
        Series.of("d log(1/eps)", settings.dimensions, [m.required_norm for m in measured]),
    )


@dataclass(frozen=True)
class _EasyStage:
    """The easy part after stage 1 at one d, means over runs, and what the theorem requires."""

    norm: float
    required_norm: float
    largest_norm: float
    easy_loss: float


def _easy_stage_one(settings: Settings, d: int, seed: int) -> _EasyStage:
    scale = Assumption1.of(settings, d)
    course, norms = train_and_watch(*scale.start(settings, seed), scale.stage(settings.rate), seed)
    return _EasyStage(
        course.norm_W[-1].mean().item(),
        d * math.log(1 / scale.easy_epsilon),
        norms[:, 0].max().item() / scale.weight_decay,
        course.losses.K1[-1].mean().item(),
    )


def assumption_1(settings: Settings) -> tuple[Hypothesis, ...]:
    largest = Assumption1.of(settings, max(settings.dimensions))
    smallest = Assumption1.of(settings, min(settings.dimensions))
    return (
        Hypothesis("tau_0 sqrt(log d)", "<=", 10.0, largest.init_std * largest.root_log),
        Hypothesis("1 / (lambda sqrt(log d))", "<=", 10.0, 1 / (largest.weight_decay * largest.root_log)),
        Hypothesis("log L / log d", ">=", 1.0, math.log(largest.L) / math.log(largest.d)),
        Hypothesis("eta_1 lambda", "<=", 1 - 1e-9, settings.rate * smallest.weight_decay),
        Hypothesis("eps_(W,1) at the smallest d", "<=", 1.0, smallest.easy_epsilon),
    )


@claim(
    "P3/theorem-2-repaired",
    plain="Stage 1 moves W by sqrt(log d)/d only; the easy part needs lambda of order 1/d^2.",
    sharp="sharp: the signal tends to the stated value for many long prompts",
    title="How much of the easy part stage 1 learns, and for which lambda it is learned",
    derivation="""While answers are near 0, every slope is -1/2. (x, y) and (-x, -y) have the same law and
        the same y x, so E[y x 1(x'W x_L > 0)] = mu w*/2. Averaged over the query the gradient is
        -(1/2)(1/2)(mu/2) mu w* w*' = -mu^2/8 w* w*'. Its sum under decay is the signal, which reaches d
        log(1/eps), the norm of the paper's W*, only if mu^2/(8 lambda) does.""",
    quick={**ASSUMED, "N": 256, "runs": 1, "L": 129, "learning_rate": 20.0, "d": 8},
    sizes=({"d": 12}, {"d": 24}),
    seconds=0.9,
)
def easy_part_after_stage_one(settings: Settings, seed: int) -> Finding:
    """Under Assumption 1, for many long prompts, the signal of W at t_1 is (1 - (1 - eta_1 lambda)^(t_1))
    mu^2/(8 lambda) w* w*' with mu = (1 + sqrt(2/pi))/sqrt(d): of order sqrt(log d)/d. It reaches the norm
    d log(1/eps) of the paper's W* within t_1 steps only if lambda is at most of order 1/(d^2
    log(1/eps_(W,1))). With a lambda of that order K1 falls below half of log 2.
    """
    scale = Assumption1.of(settings, settings.d)
    data = TwoStageData(settings.d, settings.L, u=settings.u, r=settings.r)
    weak = easy_pull(settings.d) / (4 * settings.d * math.log(1 / scale.easy_epsilon))
    strong, learned = (
        _stage_one(settings, data, rate, decay, scale.init_std, seed)
        for rate, decay in ((settings.rate, scale.weight_decay), (settings.learning_rate, weak))
    )
    remaining = (1 - settings.rate * scale.weight_decay) ** scale.first_steps(settings.rate)
    expected = (1 - remaining) * easy_pull(settings.d) / scale.weight_decay
    losses = [end.losses.K1.mean().item() / math.log(2) for end in (strong, learned)]
    along = (strong.signal.W[:, 0] @ data.w_star @ data.w_star).mean().item()
    return Finding(
        conclusions=(
            Conclusion("|w*'W w* / expected - 1|", "<=", 0.1, abs(along / expected - 1)),
            Conclusion("K1 at t_1 / log 2, lambda of Assumption 1", ">=", 0.8, losses[0]),
            Conclusion("K1 at t_1 / log 2, lambda = mu^2 / (32 d log(1/eps))", "<=", 0.5, losses[1]),
        ),
        numbers={"w*'W w*": along, "expected": expected, "the small lambda": weak},
    )


def _stage_one(
    settings: Settings, data: TwoStageData, rate: float, decay: float, std: float, seed: int
) -> Moment:
    model = ReluAttention(settings.d, std=std, runs=settings.runs, seed=seed)
    steps = max(1, round(1 / (rate * decay)))
    config = NoisySGD((ConstantRate(rate, steps),), decay, std, record_every=10**9)
    return train(model, data.sample(settings.N, runs=settings.runs, seed=seed), config, seed=seed).ends[0]
