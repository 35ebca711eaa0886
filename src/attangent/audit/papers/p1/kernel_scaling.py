"""Proposition 3.3: loss against compute."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Hypothesis, Series
from attangent.audit.papers.p1.prefix_regression import PrefixRegression, hard_regression, ordinary_regression
from attangent.audit.registry import claim


@dataclass(frozen=True)
class Law:
    """A run with its loss as a function of compute m d n T, and the straight line through its tail."""

    p: PrefixRegression
    compute: Tensor
    loss: Tensor
    slope: float
    fit: float
    """R^2 of the line through log L in the tail."""
    rate: float

    @property
    def printed_ratio(self) -> float:
        """The slope in units of the printed one, -eta lambda / (nd)."""
        return self.slope / (-self.rate * self.p.paper.lambda_min / self.p.size)

    @property
    def exact_ratio(self) -> float:
        """The slope in units of -2 eta lambda / (nd) with the lambda of J J'/m."""
        return self.slope / (-2 * self.rate * self.p.exact.lambda_min / self.p.size)

    def compute_to(self, part: float) -> float:
        """Compute until the loss is this part of the first; infinite if it does not get there."""
        there = (self.loss <= part * self.loss[0]).nonzero()
        return self.compute[there[0]].item() if len(there) else math.inf


def measure(settings: Settings, p: PrefixRegression) -> Law:
    """Train; the tail is the last part of the run before the loss reaches round-off."""
    run = p.train(settings)
    compute = settings.m * p.network.d_in * len(p.X) * torch.arange(len(run.loss)).double()
    usable = int((run.loss > 1e-20 * run.loss[0]).sum())
    tail = slice(round((1 - settings.tail) * usable), usable)
    slope, fit = line(compute[tail], run.loss[tail].log())
    return Law(p, compute, run.loss, slope, fit, run.rate)


def line(x: Tensor, y: Tensor) -> tuple[float, float]:
    """Slope and R^2 of the least-squares line."""
    x, y = x - x.mean(), y - y.mean()
    slope = (x * y).sum() / x.square().sum()
    return slope.item(), (1 - (y - slope * x).square().sum() / y.square().sum()).item()


@claim(
    "P1/proposition-3.3",
    place="Section 3.3, Proposition 3.3",
    title="Scaling law of prefix learning",
    statement="""The loss falls exponentially in the compute C = (parameters md)(points n)(steps T):
        L is about nd / exp(eta lambda C)^(1/(nd)), that is, log L is a straight line in C of slope
        -eta lambda / (nd), lambda being that of the kernel of Definition G.1.""",
    quick={
        "n": 3, "d": 3, "sigma": 1.0, "rate": 1.0, "steps": 1500, "widths": [256, 1024], "tail": 0.3,
        "target": 1e-2, "factor": 4.0,
        "hard": {"n": 5, "d": 4, "sigma": 0.3, "m": 1024, "steps": 100, "candidates": 100},
    },
    full={"n": 6, "d": 4, "widths": [1024, 4096, 16384], "steps": 20_000},
    seconds=1.0,
)  # fmt: skip
def scaling_law(settings: Settings, seed: int) -> Finding:
    sizes = [settings | {"m": m} for m in settings.widths]
    laws = {s.m: measure(s, ordinary_regression(s, seed)) for s in sizes}
    first, last = laws[settings.widths[0]], laws[settings.widths[-1]]
    hard_settings = settings | settings.hard
    hard = measure(hard_settings, hard_regression(hard_settings, seed))
    ratios = [law.printed_ratio for law in (*laws.values(), hard)]
    target = settings.target
    return Finding(
        hypotheses=(
            Hypothesis(
                "smallest lambda_min of H*", ">=", 1e-12, min(law.p.paper.lambda_min for law in laws.values())
            ),
        ),
        conclusions=(
            Conclusion("straight line in the tail, R^2", ">=", 0.99, min(law.fit for law in laws.values())),
            Conclusion("slope / (-eta lambda / nd)", "<=", settings.factor, max(ratios)),
            Conclusion("slope / (-eta lambda / nd), from below", ">=", 1 / settings.factor, min(ratios)),
            Conclusion(
                "|slope / (-2 eta lambda / nd) - 1| with lambda of the exact kernel",
                "<=",
                0.25,
                max(abs(law.exact_ratio - 1) for law in laws.values()),
                claimed=False,
            ),
            Conclusion(
                f"compute to {target:g} of the first loss, longest / shortest prefix",
                "<=",
                1.0,
                last.compute_to(target) / first.compute_to(target),
                claimed=False,
            ),
        ),
        numbers={
            "slope / (-eta lambda / nd), shortest prefix": first.printed_ratio,
            "slope / (-eta lambda / nd), longest prefix": last.printed_ratio,
            "slope / (-eta lambda / nd), hard data": hard.printed_ratio,
            "slope / (-2 eta lambda / nd) with the exact lambda, hard data": hard.exact_ratio,
            "log10 compute to the target, shortest prefix": math.log10(first.compute_to(target)),
            "log10 compute to the target, longest prefix": math.log10(last.compute_to(target)),
        },
        figures=(_compute_figure(laws),),
        remark="The law is exponential in the tail, where one direction is left. Its rate is that of the "
        "exact kernel, doubled because the loss is a square; the printed one is off by a factor that depends "
        "on the data (hard data: those of P1/theorem-3.2). With the rate eta ~ 1/m that stability asks for, "
        "a longer prefix takes the same steps and so more compute for the same loss.",
    )


def _compute_figure(laws: dict[int, Law]) -> Figure:
    return Figure(
        "Loss against compute",
        "compute m d n T",
        "loss",
        tuple(Series.of(f"m = {m}", law.compute[::10], law.loss[::10]) for m, law in laws.items()),
        log_y=True,
    )
