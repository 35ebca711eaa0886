"""Propositions 3 and 4: norms of gradients and of the signal weights."""

import torch
from torch import Tensor

from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Hypothesis, Series
from attangent.audit.papers.p3.two_stage_setting import exponent
from attangent.audit.registry import claim
from attangent.stages import ReluAttention, TwoStageData
from attangent.stages.theory.attention import Weights
from attangent.stages.theory.training import ConstantRate, NoisySGD, train


@claim(
    "P3/proposition-3",
    place="Appendix E, Propositions 3 and 4, the bounds on rows",
    title="Rows of the gradient",
    statement="""Where the gradient has norm at most K its rows have norm at most a constant times
        K/sqrt(d), and so have the rows of the signal weights with K/lambda in place of K.""",
    quick={"dimensions": [8, 16, 32, 64], "L": 33, "N": 200, "std": 0.1, "runs": 6, "frame": "axes"},
    full={"dimensions": [8, 16, 32, 64, 128, 256], "runs": 10},
    seconds=0.5,
)
def rows_of_the_gradient(settings: Settings, seed: int) -> Finding:
    ratios = torch.tensor([_row_ratios(settings, d, seed) for d in settings.dimensions])
    growth = {name: exponent(settings.dimensions, ratios[:, i].tolist()) for i, name in enumerate("WV")}
    return Finding(
        conclusions=tuple(
            Conclusion(
                f"growth exponent in d of largest row sqrt(d) / norm, {name}", "<=", 0.25, growth[name]
            )
            for name in "WV"
        ),
        numbers={
            f"largest row sqrt(d) / norm at the largest d, {name}": ratios[-1, i].item()
            for i, name in enumerate("WV")
        },
        figures=(
            Figure(
                "The largest row of the gradient",
                "d",
                "largest row sqrt(d) / norm",
                tuple(Series.of(name, settings.dimensions, ratios[:, i]) for i, name in enumerate("WV")),
                log_x=True,
                log_y=True,
            ),
        ),
        remark="Nothing spreads the gradient evenly over its rows: with w*, z, zeta along coordinate axes "
        "it sits in one or two of them. In a random frame the bound holds up to a logarithm.",
    )


def _row_ratios(settings: Settings, d: int, seed: int) -> tuple[float, float]:
    """Largest row sqrt(d) / norm over W and V, the mean of the runs that have a gradient."""
    data = TwoStageData(d, settings.L, frame=settings.frame, seed=seed)
    model = ReluAttention(d, std=settings.std, runs=settings.runs, seed=seed)
    gradient = model.gradient(data.sample(settings.N, runs=settings.runs, seed=seed))
    rows = (part[:, 0].norm(dim=-1) for part in gradient[:2])
    W, V = ((part.amax(-1) * d**0.5 / part.norm(dim=-1)).nanmean().item() for part in rows)
    return W, V


@claim(
    "P3/proposition-4",
    place="Appendix E, Proposition 4, the bounds on norms",
    title="The signal weights have norm at most K/lambda",
    statement="""Where all gradients have norm at most K and 0 < eta lambda < 1, the signal weights never
        exceed K/lambda, W and V each with its own K.""",
    quick={
        "d": 16,
        "L": 33,
        "N": 64,
        "std": 0.5,
        "rate": 10.0,
        "steps": 120,
        "weight_decay": 2e-3,
        "runs": 4,
        "gradient_factor": 1.0,
    },
    full={"steps": 3000, "runs": 20},
    seconds=0.6,
)
def signal_norm_bound(settings: Settings, seed: int) -> Finding:
    data = TwoStageData(settings.d, settings.L, seed=seed)
    model = ReluAttention(settings.d, std=settings.std, runs=settings.runs, seed=seed)
    watched = _GradientNorms()
    config = NoisySGD(
        (ConstantRate(settings.rate, settings.steps),),
        settings.weight_decay,
        settings.std,
        record_every=max(1, settings.steps // 100),
    )
    prompts = data.sample(settings.N, runs=settings.runs, seed=seed)
    course = train(model, prompts, config, seed=seed, observer=watched)
    bounds = settings.gradient_factor * torch.stack(watched.norms) / settings.weight_decay
    signal = torch.stack((course.norm_W, course.norm_V, (course.norm_W**2 + course.norm_V**2).sqrt()), 1)
    most = bounds.amax(0)  # (3, runs)
    ratios = signal / most
    return Finding(
        hypotheses=(Hypothesis("eta lambda", "<=", 1 - 1e-9, settings.rate * settings.weight_decay),),
        conclusions=tuple(
            Conclusion(f"largest |signal of {name}| lambda / K", "<=", 1 + 1e-12, ratios[:, i].max().item())
            for i, name in enumerate(("W", "V", "U"))
        ),
        numbers={
            "K/lambda for W, mean of runs": most[0].mean().item(),
            "|signal of W| at the end, mean of runs": signal[-1, 0].mean().item(),
        },
        figures=(
            Figure(
                "Signal weights and their bound, first run",
                "step",
                "norm",
                (
                    Series.of("W", course.steps, signal[:, 0, 0]),
                    Series.of("V", course.steps, signal[:, 1, 0]),
                    Series.of("K/lambda for W", course.steps, most[0, 0].expand(len(course.steps)), "bound"),
                ),
            ),
        ),
    )


class _GradientNorms:
    """The norms of the gradients over W, V and both, at every step."""

    def __init__(self) -> None:
        self.norms: list[Tensor] = []

    def __call__(self, step: int, rate: float, gradient: Weights, xi: Weights) -> None:
        W, V = (part.flatten(-3).norm(dim=-1) for part in gradient[:2])
        self.norms.append(torch.stack((W, V, (W**2 + V**2).sqrt())))
