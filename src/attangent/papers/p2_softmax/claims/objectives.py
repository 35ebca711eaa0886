"""Eq. (5) and (6): score matching and denoising score matching."""

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Finding
from attangent.audit.registry import claim
from attangent.papers.p2_softmax.claims.diffusion_setting import MIXTURE
from attangent.papers.p2_softmax.diffusion import ExactScore, ForwardProcess, GaussianMixture


class LinearScore:
    """s(t, x) = -theta x, a family of estimators of one number that does not hold the true score."""

    def __init__(self, theta: float):
        self.theta = theta

    def score(self, t: Tensor, x: Tensor) -> Tensor:
        return -self.theta * x


@claim(
    "P2/equation-6",
    place="Section 6.1, Eq. (5) and (6)",
    title="Denoising score matching is equivalent to score matching",
    kind="misprint",
    quote="""As the hardness of estimate grad log p_t term in Eq. (5), equivalently, we minimize the following
        denoising score matching (6)""",
    statement="""E|s - grad log p_t|^2 and E|s - grad log p_(t|0)|^2 differ by a number that does not depend
        on the estimator s, at every t, so that over one interval of times both have the same minimiser; and
        so do Eq. (5) over [0, T] and Eq. (6) over [T_0, T].""",
    quick={
        **MIXTURE,
        "T0": 0.5,
        "points": 200_000,
        "times": 40,
        "from_zero": 1e-3,
        "thetas": [0.5, 1.0, 2.0],
    },
    full={"points": 2_000_000, "times": 200},
    seconds=1.0,
)
def equivalence(settings: Settings, seed: int) -> Finding:
    """Differences of the objectives for three estimators, in standard errors; minimisers in closed form."""
    process = ForwardProcess(T=settings.T, T0=settings.T0)
    target = GaussianMixture.ring(settings.modes, settings.radius, settings.sd)
    apart = _gaps(process, target, settings, seed)
    both = {
        start: _minimiser(process, target, start, settings) for start in (settings.T0, settings.from_zero)
    }
    same, printed = (both[start] for start in (settings.T0, settings.from_zero))
    return Finding(
        conclusions=(
            Conclusion(
                "largest dependence on s of (5) - (6) at a time, in standard errors",
                "<=",
                4.5,
                apart,
                part="one interval of times",
            ),
            Conclusion(
                "minimiser of (6) over [T_0, T] / that of (5) over [0, T], less 1",
                "<=",
                1e-6,
                abs(same / printed - 1),
                part="intervals as printed",
            ),
        ),
        numbers={"minimiser of (6) over [T_0, T]": same, "minimiser of (5) over [0, T]": printed},
        remark="Estimators -theta x with lambda(t) = 1. On one interval the objectives are equivalent; the"
        " print has [0, T] in one and [T_0, T] in the other, and an estimator that cannot be the "
        "score has different best values there.",
    )


def _gaps(process: ForwardProcess, target: GaussianMixture, settings: Settings, seed: int) -> float:
    """(5) - (6) is c_t + 2 E<s, grad log p_(t|0) - grad log p_t>: the largest |mean of the latter| / its
    error.
    """
    rng = generator(seed, "objectives")
    count = settings.points // settings.times
    exact, worst = ExactScore(process, target), 0.0
    for t in torch.linspace(process.T0, process.T, settings.times, dtype=torch.float64):
        x0 = target.draw(count, rng)
        x = process.noised(x0, t.expand(count), rng)
        given = (process.alpha(t) * x0 - x) / process.variance(t)
        surplus = given - exact.score(t.expand(count), x)
        for theta in settings.thetas:
            values = (LinearScore(theta).score(t, x) * surplus).sum(dim=1)
            worst = max(worst, abs(values.mean() / (values.std() / count**0.5)).item())
    return worst


def _minimiser(process: ForwardProcess, target: GaussianMixture, start: float, settings: Settings) -> float:
    """The best theta of -theta x over times from `start` on: int d / int E|x|^2, since E<x, score> = -d."""
    t = torch.linspace(start, process.T, 2000, dtype=torch.float64)
    square = process.alpha(t).square() * (settings.radius**2 + target.d * settings.sd**2)
    return (
        target.d * (process.T - start) / torch.trapezoid(square + target.d * process.variance(t), t)
    ).item()
