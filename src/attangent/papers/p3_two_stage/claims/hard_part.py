"""Theorem 3: the second stage, and the floor that the hard part cannot go below."""

import math
from dataclasses import dataclass

from attangent._core.random import generator
from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Hypothesis, Series
from attangent.audit.registry import claim
from attangent.papers.p3_two_stage.claims.elementary import ASSUMED, SMALL_RATIO, assumption_1
from attangent.papers.p3_two_stage.claims.two_stage_setting import Assumption1, signal_norm
from attangent.papers.p3_two_stage.theory.attention import ReluAttention, Weights
from attangent.papers.p3_two_stage.theory.constructions import paper_solution
from attangent.papers.p3_two_stage.theory.data import TwoStageData
from attangent.papers.p3_two_stage.theory.floor import q_loss_bounds
from attangent.papers.p3_two_stage.theory.search import minimise_q_loss, q_losses
from attangent.papers.p3_two_stage.theory.training import ConstantRate, NoisySGD, train


@dataclass(frozen=True)
class _Trained:
    """What stage 2 leaves at one d: |signal of V| and K2, what (c.1) asks and the most that decay allows."""

    norm: float
    loss: float
    asked: float
    most: float
    epsilon: float


@claim(
    "P3/theorem-3",
    place="Section 4.2, Theorem 3 (Appendix G.1)",
    title="Stage 2: the hard part is learned",
    quote="Namely, the network g learns hard-to-fit component Q within t_2 iterations.",
    statement="""Under Assumption 1, after the second stage at a small rate (c.1) the signal weights of V have
        a norm of order log(1/eps) / eps with eps = eps_(V,1), and (c.2) K2 is at most eps + (log d)^(-1/4) +
        (log d)^(-1/2) up to constants, which goes to 0 as d grows.""",
    quick={
        **ASSUMED,
        "dimensions": [16, 256, 4096, 65536],
        "p": 0.5,
        "N": 200,
        "runs": 2,
        "second_rate": 0.5,
        "decay_times": 6.0,
        "search_prompts": 600,
        "starts": 2,
        "search_steps": 60,
    },
    full={"N": 500, "runs": 3, "search_prompts": 1000, "starts": 4, "search_steps": 120},
    seconds=2.0,
    rests_on=("P3/theorem-1", "P3/theorem-2", "P3/lemma-7", "P3/equation-21", "P3/definition-5"),
)
def hard_part_is_learned(settings: Settings, seed: int) -> Finding:
    found = [_second_stage(settings, d, seed) for d in settings.dimensions]
    least = [_least_loss(settings, d, seed) for d in settings.dimensions]
    slower = _second_stage(settings | {"second_rate": settings.second_rate / 2}, settings.dimensions[0], seed)
    return Finding(
        hypotheses=(
            *assumption_1(settings),
            Hypothesis("r / u at the largest d (r << u)", "<=", SMALL_RATIO, 1 / settings.dimensions[-1]),
            Hypothesis("eps_(V,1) at the least d", "<=", 1.0, found[0].epsilon),
            Hypothesis("change of K2 when eta_2 is halved", "<=", 0.02, abs(slower.loss - found[0].loss)),
        ),
        conclusions=(
            _signal_trend(settings.dimensions, found),
            *_loss_trends(settings.dimensions, [f.loss for f in found], least),
            _floor_line(settings.p, least),
        ),
        numbers={
            "K2 after training at the largest d": found[-1].loss,
            "|signal of V| at the largest d": found[-1].norm,
            "what (c.1) asks at the largest d": found[-1].asked,
            "the most that Proposition 4 leaves at the largest d": found[-1].most,
            "log10 of the d from which the printed bound is below the floor": _least_log_d() / math.log(10),
        },
        figures=(_figure(settings, found, least),),
        remark="(c.1) is out of reach: |gradient over V| is at most (u + r)^2/2, so that decay keeps the "
        "signal below (u + r)^2/(2 lambda) by Proposition 4. (c.2) cannot hold for any V: for P(y=+1)"
        " <= 1/2 convexity of the ReLU keeps the mean answer to z at or below 0, so that K2 >= log 2 "
        "/ 2 for balanced prompts (see attangent.stages.q_loss_bounds). The proof sets rows of X_2'V "
        "freely, but X_2 has three different columns with (z + zeta) + (z - zeta) = 2z.",
    )


def _signal_trend(dimensions: list[int], found: list[_Trained]) -> Conclusion:
    name = "(c.1) growth exponent in d of |signal of V| eps / log(1/eps)"
    shares = [f.norm / f.asked for f in found]
    return Conclusion.of_trend(name, ">=", -0.25, dimensions, shares, part="c.1")


def _loss_trends(dimensions: list[int], trained: list[float], least: list[float]) -> list[Conclusion]:
    """K2 against log d, after training and at its least over every V that was found."""
    slowest = "where the bound's slowest term has -1/4"
    names = {
        f"(c.2) growth exponent of K2 in log d after training, {slowest}": trained,
        f"(c.2) the same of the least K2 of any V that was found, {slowest}": least,
    }
    logs = [math.log(d) for d in dimensions]
    return [
        Conclusion.of_trend(name, "<=", -0.25, logs, losses, part="c.2") for name, losses in names.items()
    ]


def _floor_line(p: float, least: list[float]) -> Conclusion:
    name = "least K2 on training prompts / (p log 2), over all d"
    return Conclusion(name, ">=", 0.9, min(least) / (math.log(2) * p), claimed=False)


def _second_stage(settings: Settings, d: int, seed: int) -> _Trained:
    """Both stages in the plane of z and zeta, the second without the noise that its rate makes negligible."""
    scale = Assumption1.of(settings | {"r": settings.u / d}, d)
    data = TwoStageData(2, scale.L, u=scale.u, r=scale.r, p=settings.p)
    prompts = data.sample_q(settings.N, runs=settings.runs, seed=seed)
    model = ReluAttention(2, std=scale.init_std, runs=settings.runs, seed=seed)
    steps = round(settings.decay_times / (settings.second_rate * scale.weight_decay))
    config = NoisySGD(
        (
            ConstantRate(settings.rate, scale.first_steps(settings.rate)),
            ConstantRate(settings.second_rate, steps),
        ),
        scale.weight_decay,
        scale.init_std,
        noise_std=0.0,
        record_every=10**9,
    )
    end = train(model, prompts, config, seed=seed).ends[-1]
    eps = scale.epsilon(scale.hard)
    return _Trained(
        max(signal_norm(end.signal.V).mean().item(), 1e-300),
        end.losses.K2.mean().item(),
        math.log(1 / eps) / eps,
        scale.hard**2 / (2 * scale.weight_decay),
        eps,
    )


def _least_loss(settings: Settings, d: int, seed: int) -> float:
    """The least K2 on drawn training prompts of the searched V and of the one written down by hand."""
    data = TwoStageData(4, round(d**settings.power) + 1, u=1.0, r=0.5, p=settings.p)
    searched = minimise_q_loss(
        data,
        "adam",
        starts=settings.starts,
        steps=settings.search_steps,
        prompts=settings.search_prompts,
        seed=seed,
    )
    return min(_training_loss(settings, data, V, seed) for V in (searched, paper_solution(data)))


def _training_loss(settings: Settings, data: TwoStageData, weights: Weights, seed: int) -> float:
    drawn = data.sample_q(settings.search_prompts, seed=generator(seed, "prompts of the search"))
    return q_losses(weights, data, "paper", drawn).mean(-1).min().item()


def _least_log_d() -> float:
    """The log d at which (log d)^(-1/4) + (log d)^(-1/2) = log 2 / 2: a quadratic in (log d)^(-1/4)."""
    root = (math.sqrt(1 + 2 * math.log(2)) - 1) / 2
    return root**-4


def _figure(settings: Settings, found: list[_Trained], least: list[float]) -> Figure:
    d = settings.dimensions
    floors = [q_loss_bounds(settings.p, round(size**settings.power) + 1).lower for size in d]
    printed = [math.log(size) ** -0.25 + math.log(size) ** -0.5 for size in d]
    return Figure(
        "The loss of the hard part",
        "d",
        "K2",
        (
            Series.of("after training", d, [f.loss for f in found]),
            Series.of("least of any V found", d, least),
            Series.of("floor for every V", d, floors, "bound"),
            Series.of("(log d)^(-1/4) + (log d)^(-1/2)", d, printed),
        ),
        log_x=True,
    )
