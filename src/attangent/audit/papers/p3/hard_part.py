"""Theorem 3: the second stage, and the floor that the hard part cannot go below."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attangent._random import generator
from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Series
from attangent.audit.papers.p3.two_stage_setting import STAGES, signal_norm, two_stages
from attangent.audit.registry import claim
from attangent.stages import ReluAttention, TwoStageData, q_loss_bounds
from attangent.stages.theory.attention import Variant, Weights
from attangent.stages.theory.constructions import bias_solution, signed_solution
from attangent.stages.theory.search import minimise_q_loss, q_losses
from attangent.stages.theory.training import ConstantRate, Course, NoisySGD, train


@claim(
    "P3/theorem-3",
    place="Section 4.2, Theorem 3 (Appendix G.1)",
    title="Stage 2: the hard part is learned",
    statement="""After the second stage at a small rate, (c.1) the signal weights of V are far larger than
        after the first, and (c.2) K2 is at most eps_(V,1) + (log d)^(-1/4) + (log d)^(-1/2) up to
        constants: g learns the hard part.""",
    quick={
        **STAGES,
        "variant": "paper",
        "second_steps": 1200,
        "runs": 5,
        "required_share": 0.8,
        "lengths": [9, 33, 129, 1025],
        "search_d": 4,
        "search_u": 1.0,
        "starts": 6,
        "search_steps": 100,
        "search_prompts": 500,
        "fresh": 20_000,
        "learned": 0.1,
    },
    full={
        "second_steps": 8000,
        "runs": 20,
        "starts": 20,
        "search_steps": 1000,
        "search_prompts": 4000,
        "fresh": 200_000,
    },
    seeds=1,
    seconds=8.0,
)
def hard_part_is_learned(settings: Settings, seed: int) -> Finding:
    course, _ = two_stages(settings, seed)
    grown = course.norm_V[-1] / signal_norm(course.ends[0].signal.V)
    best = [_best_found(settings, L, seed) for L in settings.lengths]
    least = min(best, key=lambda found: found.loss)
    below = [_constructions(settings, L, seed) for L in settings.lengths]
    return Finding(
        conclusions=(
            Conclusion(
                f"(c.1) runs of {settings.runs} in which |signal of V| at least doubles",
                ">=",
                settings.required_share * settings.runs,
                (grown >= 2).sum().item(),
            ),
            Conclusion("(c.2) least K2 on fresh prompts of any V found", "<=", settings.learned, least.loss),
            Conclusion(
                "least (K2 - floor) / standard error over all V found",
                ">=",
                -3.0,
                min(found.above_floor for found in best),
                claimed=False,
            ),
            *_below_the_floor(settings, below),
        ),
        numbers=_theorem_3_numbers(settings, grown, best),
        figures=(_floor_figure(settings, best, below), _stage_figure(course)),
        remark="For P(y=+1) <= 1/2 convexity of the ReLU keeps the mean answer to z at or below 0, so that "
        "K2 >= log 2 / 2 for balanced prompts whatever V (see attangent.stages.q_loss_bounds). The "
        "proof sets rows of X_2'V freely, but X_2 has three different columns with (z + zeta) + (z - "
        "zeta) = 2z. An output bias, a second head of value -1, or P(y=+1) > 1/2 make it learnable.",
    )


def _below_the_floor(settings: Settings, below: list[tuple[float, float]]) -> tuple[Conclusion, ...]:
    floors = [q_loss_bounds(settings.p, L).lower for L in settings.lengths]
    return tuple(
        Conclusion(
            f"K2 of the {variant} construction / floor, largest over L",
            "<=",
            0.5,
            max(pair[i] / floor for pair, floor in zip(below, floors, strict=True)),
            claimed=False,
        )
        for i, variant in enumerate(("bias", "signed"))
    )


@dataclass(frozen=True)
class _Best:
    """The least K2 on fresh prompts among all V that were found for one L."""

    loss: float
    above_floor: float
    by_method: dict[str, float]


def _best_found(settings: Settings, L: int, seed: int) -> _Best:
    data = TwoStageData(settings.search_d, L, u=settings.search_u, p=settings.p)
    found = {"training": _trained(settings, data, seed)}
    for method in ("adam", "lbfgs"):
        found[method] = minimise_q_loss(
            data,
            method,
            starts=settings.starts,
            steps=settings.search_steps,
            prompts=settings.search_prompts,
            seed=seed,
        )
    measured = {method: _fresh(settings, data, weights, "paper", seed) for method, weights in found.items()}
    floor = q_loss_bounds(settings.p, L).lower
    return _Best(
        min(mean.min().item() for mean, _ in measured.values()),
        min(((mean - floor) / error.clamp_min(1e-12)).min().item() for mean, error in measured.values()),
        {method: mean.min().item() for method, (mean, _) in measured.items()},
    )


def _trained(settings: Settings, data: TwoStageData, seed: int) -> Weights:
    """V trained by Eq. 4 on the hard parts alone."""
    model = ReluAttention(data.d, std=0.3, runs=settings.starts, seed=seed)
    steps = 2 * settings.search_steps
    config = NoisySGD((ConstantRate(20.0, steps),), weight_decay=1e-4, init_std=0.3, record_every=steps)
    train(model, data.sample_q(64, runs=settings.starts, seed=seed), config, seed=seed)
    return model.weights


def _fresh(
    settings: Settings, data: TwoStageData, weights: Weights, variant: Variant, seed: int
) -> tuple[Tensor, Tensor]:
    """K2 on prompts that no method saw, and its standard error."""
    losses = q_losses(
        weights, data, variant, data.sample_q(settings.fresh, seed=generator(seed, "fresh prompts"))
    )
    return losses.mean(-1), losses.std(-1) / math.sqrt(settings.fresh)


def _constructions(settings: Settings, L: int, seed: int) -> tuple[float, float]:
    data = TwoStageData(settings.search_d, L, u=settings.search_u, p=settings.p)
    bias, _ = _fresh(settings, data, bias_solution(data), "bias", seed)
    signed, _ = _fresh(settings, data, signed_solution(data), "signed", seed)
    return bias.item(), signed.item()


def _theorem_3_numbers(settings: Settings, grown: Tensor, best: list[_Best]) -> dict[str, float]:
    numbers = {
        "growth of |signal of V| in stage 2, mean of runs": grown.mean().item(),
        "growth of |signal of V| in stage 2, least": grown.min().item(),
        "log10 of the d from which the printed bound is below the floor": _least_log_d() / math.log(10),
    }
    for L, found in zip(settings.lengths, best, strict=True):
        numbers[f"floor, L={L}"] = q_loss_bounds(settings.p, L).lower
        numbers |= {f"least K2 by {method}, L={L}": loss for method, loss in found.by_method.items()}
    return numbers


def _least_log_d() -> float:
    """The log d at which (log d)^(-1/4) + (log d)^(-1/2) = log 2 / 2: a quadratic in (log d)^(-1/4)."""
    root = (math.sqrt(1 + 2 * math.log(2)) - 1) / 2
    return root**-4


def _floor_figure(settings: Settings, best: list[_Best], below: list[tuple[float, float]]) -> Figure:
    bounds = [q_loss_bounds(settings.p, L) for L in settings.lengths]
    return Figure(
        "The least K2 on fresh prompts",
        "L",
        "K2",
        (
            Series.of("lower bound", settings.lengths, [bound.lower for bound in bounds], "bound"),
            *(
                Series.of(method, settings.lengths, [found.by_method[method] for found in best])
                for method in best[0].by_method
            ),
            Series.of("bias, by hand", settings.lengths, [pair[0] for pair in below], "points"),
            Series.of("signed, by hand", settings.lengths, [pair[1] for pair in below], "points"),
        ),
        log_x=True,
    )


def _stage_figure(course: Course) -> Figure:
    return Figure(
        "Both losses over two stages, mean of runs",
        "step",
        "loss",
        (
            Series.of("K1", course.steps, course.losses.K1.mean(1)),
            Series.of("K2", course.steps, course.losses.K2.mean(1)),
            Series.of(
                "log 2 / 2", course.steps, torch.full((len(course.steps),), 0.5 * math.log(2)), "bound"
            ),
        ),
    )
