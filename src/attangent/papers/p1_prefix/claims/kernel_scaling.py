"""Proposition 3.3: the scaling law of loss over compute."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attangent.audit import Conclusion, Failure, Figure, Finding, Series, Settings, claim
from attangent.papers.common.bounds import comparison
from attangent.papers.common.figures import plot
from attangent.papers.common.sizes import by_size
from attangent.papers.p1_prefix.claims.kernel_training import SLOW_SIZES, late_progress
from attangent.papers.p1_prefix.claims.prefix_regression import PrefixRegression
from attangent.papers.p1_prefix.proofs import kernel


@dataclass(frozen=True)
class Law:
    """A run with its loss over compute m d n T, and the straight line through the tail of log L.

    Attributes:
        fit: R^2 of the line through log L in the tail.
    """

    p: PrefixRegression
    compute: Tensor
    loss: Tensor
    slope: float
    fit: float
    rate: float

    @property
    def printed_ratio(self) -> float:
        """slope / (-eta lambda / (nd)), in units of the printed slope."""
        return self.slope / (-self.rate * self.p.paper.lambda_min / self.p.size)

    def compute_to(self, fraction: float) -> float:
        """Return the compute until the loss is this fraction of the first, or infinity if it never is."""
        reached = (self.loss <= fraction * self.loss[0]).nonzero()
        return self.compute[reached[0]].item() if len(reached) else math.inf


def measure(settings: Settings, p: PrefixRegression) -> Law:
    """Train and fit a line to the tail, the end of the run before the loss reaches round-off."""
    run = p.train(settings)
    compute = settings.m * p.network.d_in * len(p.X) * torch.arange(len(run.loss)).double()
    usable = int((run.loss > 1e-20 * run.loss[0]).sum())
    tail = slice(round((1 - settings.tail) * usable), usable)
    slope, fit = line(compute[tail], run.loss[tail].log())
    return Law(p, compute, run.loss, slope, fit, run.rate)


def line(x: Tensor, y: Tensor) -> tuple[float, float]:
    """Return slope and R^2 of the least-squares line."""
    x = x - x.mean()
    y = y - y.mean()
    slope = (x * y).sum() / x.square().sum()
    return slope.item(), (1 - (y - slope * x).square().sum() / y.square().sum()).item()


@claim(
    "P1/proposition-3.3",
    place="Section 3.3, Proposition 3.3",
    title="Scaling law of prefix learning",
    quote="""L ~ alpha / [exp(eta lambda C_cpt)]^(1/alpha), with N = O(md), D = O(n), C_cpt = O(NDT), alpha =
        nd""",
    rests_on=("P1/theorem-3.2",),
    plain="""Printed: log loss is linear in compute with slope -eta lambda/(nd) of the printed kernel. The
        slope is that of the exact kernel, smaller by any factor. It falls with Theorem 3.2.""",
    failure=Failure(
        "P1/theorem-3.2",
        "Proposition 3.3 falls; with the exact kernel it is right in the tail",
        "the family x_i = rho e_i, in the limit rho to 0",
    ),
    proof=kernel.slope,
    quick={
        **SLOW_SIZES,
        "law": {"n": 3, "d": 3, "init": "symmetric", "steps": 1000, "tail": 0.3},
        "widths": [256, 1024],
        "target": 1e-2,
    },
    full={
        "m": 65536,
        "rhos": [0.4, 0.2, 0.1, 0.05, 0.025],
        "law": {"n": 6, "d": 4, "init": "symmetric", "steps": 3000, "tail": 0.3},
        "widths": [1024, 4096],
    },
    seconds=1.0,
)
def scaling_law(settings: Settings, seed: int) -> Finding:
    """The loss falls exponentially in the compute C = N D T with N = O(md) parameters, D = O(n) points and T
    steps. Up to constants, log L is linear in C with slope -eta lambda / (nd), where lambda is that of the
    kernel of Definition G.1.
    """
    # On x_i = rho e_i the slope in units of the printed slope goes to 0 like rho^2.
    family = [PrefixRegression.slow(rho, settings, seed) for rho in settings.rhos]
    ratios = [late_slope(p, settings) / p.contraction(settings.rate, p.paper) for p in family]
    inverse = [1 / rho for rho in settings.rhos]
    sizes = [settings | settings.law | {"m": m} for m in settings.widths]
    laws = {s.m: measure(s, PrefixRegression.draw(s, seed)) for s in sizes}
    first = laws[settings.widths[0]]
    last = laws[settings.widths[-1]]
    worst_fit = min(law.fit for law in laws.values())
    return Finding(
        hypotheses=family[-1].conditions(settings),
        conclusions=(
            Conclusion.of_trend(
                "slope of log L in compute / (-eta lambda / nd), over 1/rho", ">=", 0.0, inverse, ratios
            ),
            Conclusion("R^2 of the straight line in the tail", ">=", 0.99, worst_fit, threshold="ours"),
            comparison(
                f"compute to reach {settings.target:g} of the first loss, longest / shortest prefix",
                "<=",
                1.0,
                last.compute_to(settings.target) / first.compute_to(settings.target),
            ),
        ),
        numbers={
            **by_size("slope ratio at rho = {:g}", settings.rhos, ratios),
            "slope / (-eta lambda / nd), ordinary data, shortest prefix": first.printed_ratio,
            "slope / (-eta lambda / nd), ordinary data, longest prefix": last.printed_ratio,
        },
        figures=(_compute_figure(laws),),
        remark="In the tail, when one eigendirection is left, the loss falls exponentially at the rate of "
        "the exact kernel. No constant bounds the ratio to the printed rate. Stability requires eta ~ 1/m, "
        "so a longer prefix takes as many steps and therefore more compute.",
    )


def late_slope(p: PrefixRegression, settings: Settings) -> float:
    """-log(|F(t+1) - Y|^2 / |F(t) - Y|^2) with the frozen kernel, after the theorem's number of steps."""
    return -math.log1p(-late_progress(p, settings))


def _compute_figure(laws: dict[int, Law]) -> Figure:
    return plot(
        "Loss over compute",
        ("compute m d n T", "loss"),
        *(Series.of(f"m = {m}", law.compute[::10], law.loss[::10]) for m, law in laws.items()),
        log="y",
    )
