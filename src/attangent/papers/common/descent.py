"""Gradient descent in the lemmas of several papers: steps split into terms, and bounds on gradients."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from attangent.audit import Conclusion, Figure, Finding, Hypothesis, Series, Settings
from attangent.kernels import Prediction
from attangent.papers.common.figures import plot

S = TypeVar("S", bound="SplitStep")


@dataclass(frozen=True)
class SplitStep:
    """A step of gradient descent: |F - Y|^2 before and after, and the terms of its change.

    Attributes:
        theta: The range of the second-order factor, which the papers write as Theta(1).
        move: max eta |<dL/dw_r, x_i>|.
    """

    before: float
    after: float
    terms: dict[str, float]
    theta: tuple[float, float]
    move: float

    @property
    def gap(self) -> float:
        """|after - before - sum of terms| / before."""
        return abs(self.after - self.before - sum(self.terms.values())) / self.before


def second_order_factor(z: Tensor) -> Tensor:
    """(exp(z) - 1 - z) / z^2, by its series for small z, for which the difference cancels."""
    near = sum(z**k / math.factorial(k + 2) for k in range(8))
    far = torch.where(z.abs() > 0.05, z, torch.ones_like(z))
    return torch.where(z.abs() > 0.05, (torch.expm1(far) - far) / far.square(), near)


def walk(p: Any, settings: Settings, take_step: Callable[..., tuple[S, Any]]) -> list[S]:
    """Return the steps of a run, until the error is so small that round-off hides the terms."""
    network = p.network
    steps = list[S]()
    for _ in range(settings.steps):
        step, network = take_step(p, network, p.rate(settings.rate))
        steps.append(step)
        if not settings.smallest * steps[0].before < step.after < math.inf:
            break
    return steps


def steps_to(prediction: Prediction, epsilon: float) -> int:
    """Return the first step with |F - Y|^2 <= epsilon; the loss must fall at every step."""
    low = 0
    high = 1
    while 2 * float(prediction.loss(high)) > epsilon:
        low = high
        high = 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if 2 * float(prediction.loss(middle)) <= epsilon else (middle, high)
    return high


def terms_add_up(steps: Sequence[SplitStep]) -> Finding:
    """Check that the terms of every step add up to the change, and that Theta(1) is close to 1/2."""
    least = min(step.theta[0] for step in steps)
    largest = max(step.theta[1] for step in steps)
    first = steps[0]
    return Finding(
        hypotheses=(
            Hypothesis("largest eta |<dL/dw_r, x_i>|", "<=", 0.01, max(step.move for step in steps)),
        ),
        conclusions=(
            Conclusion("largest relative error of the sum", "<=", 1e-9, max(step.gap for step in steps)),
            Conclusion("smallest factor Theta(1)", ">=", 0.45, least, threshold="ours"),
            Conclusion("largest factor Theta(1)", "<=", 0.55, largest, threshold="ours"),
        ),
        numbers={
            f"{name} / |F - Y|^2 at the first step": term / first.before for name, term in first.terms.items()
        },
        figures=(_terms_figure(steps),),
    )


def _terms_figure(steps: Sequence[SplitStep]) -> Figure:
    def curve(name: str) -> Series:
        sizes = [abs(step.terms[name]) / step.before + 1e-300 for step in steps]
        return Series.of(name, range(len(steps)), sizes)

    return plot(
        "The terms relative to the squared error",
        ("step", "|C| / |F - Y|^2"),
        *map(curve, steps[0].terms),
        log="y",
    )


def gradient_line(part: str, log10_bound: float, log10_constant: float) -> Conclusion:
    """Check |dL/dw_r| <= c sqrt(nd) |F - Y|_F: the measured c against its bound."""
    name = f"{part}: largest |dL/dw_r| / (sqrt(nd) |F - Y|_F)"
    return Conclusion(name, "<=", log10_bound, log10_constant, log10=True, part=part)
