"""Ablations of ours: the large rate all along, and the small rate from the start."""

import torch
from torch import Tensor

from attangent.audit.claims import Settings
from attangent.audit.finding import Figure, Finding, Series
from attangent.audit.registry import claim
from attangent.papers.p3_two_stage.claims.stage_runs import COUNTED, in_runs
from attangent.papers.p3_two_stage.claims.two_stage_setting import spread, two_stages
from attangent.papers.p3_two_stage.theory.training import ConstantRate, Course


@claim(
    "P3/ablation-constant-rate",
    kind="ours",
    place="ours; nearest to Section 4.2 on the annealed rate and to Appendix F.2",
    quote="we conclude that the large learning rate creates too much noise to learn Q",
    title="The large rate all along",
    statement="""The hard part is learned because the rate is annealed: at the large rate for the same total
        time sum of eta, K2 stays above where the annealed runs end.""",
    quick={**COUNTED, "second_steps": 500, "gap": 0.03},
    full={"runs": 10, "second_steps": 1000},
    seeds=1,
    seconds=4.0,
)
def constant_rate(settings: Settings, seed: int) -> Finding:
    annealed, _ = two_stages(settings, seed)
    total = settings.first_steps * settings.first_rate + settings.second_steps * settings.second_rate
    constant = ConstantRate(settings.first_rate, round(total / settings.first_rate))
    steady, _ = two_stages(settings, seed, (constant,))
    ahead = steady.losses.K2[-1] - annealed.losses.K2[-1]
    return Finding(
        conclusions=(
            in_runs(settings, "K2 ends lower after annealing", ahead >= settings.gap, "stated"),
            in_runs(settings, "K1 is learned at the large rate", steady.losses.K1[-1] <= settings.learned),
        ),
        numbers={
            **spread("K2 at the end, annealed", annealed.losses.K2[-1]),
            **spread("K2 at the end, constant rate", steady.losses.K2[-1]),
            **spread("K1 at the end, constant rate", steady.losses.K1[-1]),
        },
        figures=(_compared(annealed, steady, "constant"),),
        remark="Not a statement of the paper: a comparison in the setting of P3/two-stages, with an output "
        "bias. Runs of a kind share their prompts, their start and tau_xi.",
    )


@claim(
    "P3/ablation-small-rate",
    kind="ours",
    place="ours; nearest to Section 4.1 on the large rate of the first stage",
    title="The small rate from the start",
    statement="""The hard part waits because the first rate is large: at the small rate from the start it is
        no longer unlearned when the easy part has been learned.""",
    quick={**COUNTED, "second_steps": 500},
    full={"runs": 10, "second_steps": 1000},
    seeds=1,
    seconds=4.0,
)
def small_rate(settings: Settings, seed: int) -> Finding:
    annealed, _ = two_stages(settings, seed)
    same_time = round(settings.first_steps * settings.first_rate / settings.second_rate)
    steps = (same_time, settings.second_steps)
    small, _ = two_stages(settings, seed, tuple(ConstantRate(settings.second_rate, count) for count in steps))
    waits = {
        name: _hard_when_easy_is_learned(settings, run)
        for name, run in (("two rates", annealed), ("small", small))
    }
    return Finding(
        conclusions=(
            in_runs(
                settings,
                "K2 is below its mark when K1 gets to its own, small rate",
                waits["small"] < settings.unlearned,
                "stated",
            ),
            in_runs(
                settings,
                "K2 is above its mark when K1 gets to its own, two rates",
                waits["two rates"] >= settings.unlearned,
            ),
        ),
        numbers={
            **spread("K2 when K1 is learned, two rates", waits["two rates"]),
            **spread("K2 when K1 is learned, small rate", waits["small"]),
            **spread("K2 after the first stage's time, small rate", small.ends[0].losses.K2),
            **spread("K2 after the first stage's time, two rates", annealed.ends[0].losses.K2),
            **spread("K2 at the end, two rates", annealed.losses.K2[-1]),
            **spread("K2 at the end, small rate", small.losses.K2[-1]),
        },
        figures=(_compared(annealed, small, "small"),),
        remark="Not a statement of the paper: a comparison in the setting of P3/two-stages, with an output "
        "bias. Runs of a kind share their prompts, their start and tau_xi.",
    )


def _hard_when_easy_is_learned(settings: Settings, course: Course) -> Tensor:
    """(runs,): K2 at the first record at which K1 is learned; nan where it never is."""
    K1 = course.losses.K1
    learned = settings.learned >= K1
    first = learned.double().argmax(0)
    K2 = course.losses.K2.gather(0, first[None])[0]
    return torch.where(learned.any(0), K2, torch.nan)


def _compared(annealed: Course, other: Course, name: str) -> Figure:
    """K1 and K2 of both schedules over the time sum of eta."""
    return Figure(
        "Losses over time, mean of runs",
        "sum of learning rates",
        "loss",
        tuple(
            Series.of(f"{loss}, {label}", course.times, getattr(course.losses, loss).mean(1))
            for label, course in (("two rates", annealed), (f"{name} rate", other))
            for loss in ("K1", "K2")
        ),
    )
