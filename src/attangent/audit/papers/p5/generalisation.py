"""Section 6.3, Appendix J: risks on the sign-inconsistent task."""

import torch
from torch import Tensor

from attangent._random import generator
from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Series
from attangent.audit.registry import claim
from attangent.forecast.theory.attention_model import AttentionModel, train_attention
from attangent.forecast.theory.ssm import (
    ResidualSSM,
    descend_residual_linear,
    fit_residual_linear,
    residual_linear,
)

_TASK = {"d": 8, "sigma": 0.01, "n": 256, "test": 20_000}


def _risk(answer: Tensor, y: Tensor) -> float:
    return (answer - y).square().mean().item()


@claim(
    "P5/proposition-6.3-attention",
    place="Section 6.3, Proposition 6.3, Part 1 (Proposition J.1)",
    title="Attention cannot reach the noise level out of distribution",
    statement="""No hidden weights that training reaches give the attention model a risk of order sigma^2 on
        the sign-inconsistent task.""",
    quick={**_TASK, "m": 16, "steps": 250, "rate": 0.05, "n": 128, "order": 3.0, "smaller": 0.25},
    full={"m": 32, "n": 256, "steps": 3000},
    seconds=2.5,
)
def attention_fails(settings: Settings, seed: int) -> Finding:
    found = _attention_risks(settings, seed)
    less = _attention_risks(settings | {"sigma": settings.smaller * settings.sigma}, seed)
    level = 1 + ResidualSSM(settings.d).s2
    names = list(found)
    return Finding(
        conclusions=(
            Conclusion(
                "risk of trained attention / (sigma^2 (1 + s^2))",
                ">=",
                settings.order,
                found["attention"] / level,
            ),
            Conclusion(
                f"growth of that ratio with {settings.smaller:g} sigma",
                ">=",
                0.5 / settings.smaller**2,
                less["attention"] / found["attention"],
            ),
            Conclusion(
                "risk of attention trained on the task itself / (sigma^2 (1 + s^2))",
                ">=",
                settings.order,
                found["attention, trained on the task"] / level,
                claimed=False,
            ),
        ),
        numbers={
            "sigma": settings.sigma,
            **{f"risk / sigma^2 of {name}": risk for name, risk in found.items()},
        },
        figures=(
            Figure(
                "Risk on the sign-inconsistent task",
                "",
                "risk / sigma^2",
                (Series.of("measured", range(len(names)), [found[name] for name in names], "bars"),),
                log_y=True,
                ticks=tuple(names),
            ),
        ),
        remark="The ratio grows as sigma^-2, so it means nothing without sigma. Predicting zero beats "
        "trained attention here.",
    )


def _attention_risks(settings: Settings, seed: int) -> dict[str, float]:
    """Risk / sigma^2 on the task of attention, trained as stated and on the task itself, beside baselines."""
    ssm = ResidualSSM(settings.d, settings.sigma, seed)
    test = ssm.sample_inconsistent(settings.test, generator(seed, "test"))
    draws = {
        "attention": ssm.sample(settings.n, generator(seed, "train")),
        "attention, trained on the task": ssm.sample_inconsistent(settings.n, generator(seed, "task")),
    }
    risks = {}
    for name, (x, y) in draws.items():
        model = AttentionModel(settings.d, settings.m, seed=seed)
        train_attention(model, x, y, settings.steps, settings.rate)
        with torch.no_grad():
            risks[name] = _risk(model(test[0]), test[1])
    risks |= ssm.baseline_risks(True)
    return {name: risk / settings.sigma**2 for name, risk in risks.items()}


@claim(
    "P5/proposition-6.3-linear",
    place="Section 6.3, Proposition 6.3, Part 2 (Proposition J.3)",
    title="The residual linear network reaches the noise level",
    statement="""Exactly one w solves sum_(k<d) w_k P_k = P_(d+1) - P_d, and with it the residual linear
        network has a risk of order sigma^2 on the sign-inconsistent task.""",
    quick={**_TASK, "corrected": False, "within": 0.05, "steps": 2000},
    full={"test": 400_000, "d": 32, "n": 2048},
    seconds=0.3,
)
def linear_succeeds(settings: Settings, seed: int) -> Finding:
    ssm = ResidualSSM(settings.d, settings.sigma, seed)
    P = ssm.features()
    printed = _unsolved(P[:-2].T, P[-1] - P[-2])
    corrected = _unsolved((P[:-2] - P[-2]).T, P[-1] - P[-2])
    columns = (P[:-1] - P[-2]).T  # the matrix of the proof, its last column zero
    free = settings.d - int(torch.linalg.matrix_rank(columns if not settings.corrected else columns[:, :-1]))
    free -= 1 if settings.corrected else 0
    x, y = ssm.sample(settings.n, generator(seed, "train"))
    x_new, y_new = ssm.sample_inconsistent(settings.test, generator(seed, "test"))
    level = settings.sigma**2 * (1 + ssm.s2)
    fitted = _risk(residual_linear(fit_residual_linear(x, y), x_new), y_new)
    descended = _risk(residual_linear(descend_residual_linear(x, y, settings.steps), x_new), y_new)
    unsolved = corrected if settings.corrected else printed
    return Finding(
        conclusions=(
            Conclusion("distance of the equation to being solved", "<=", 1e-9, unsolved),
            Conclusion("free directions of the solution", "<=", 0, free),
            Conclusion(
                "risk by least squares / (sigma^2 (1 + s^2))", "<=", 1 + settings.within, fitted / level
            ),
            Conclusion("the same by descent", "<=", 1 + settings.within, descended / level, claimed=False),
            Conclusion("distance with P_k - P_d in place of P_k", "<=", 1e-9, corrected, claimed=False),
            Conclusion(
                "exact risk of w_k = 1/(d(d-1)) against sigma^2 (1 + s^2), relative gap",
                "<=",
                1e-9,
                abs(ssm.linear_risk(ssm.c, True) / level - 1),
                claimed=False,
            ),
        ),
        numbers={"sigma": settings.sigma, "s^2": ssm.s2, "risk / sigma^2": fitted / settings.sigma**2},
        remark="The equation lacks - P_d in its sum and has no solution as printed. Corrected, w_k = "
        "1/(d(d-1)) for k < d solves it, and w_d is free since it multiplies zero. The risk is as claimed.",
    )


def _unsolved(columns: Tensor, target: Tensor) -> float:
    return (columns @ (torch.linalg.pinv(columns) @ target) - target).norm().item()
