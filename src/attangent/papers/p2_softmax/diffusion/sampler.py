"""Samples from a score: the backward SDE and the probability-flow ODE (P2 Section 6.1)."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Literal, Protocol, get_args

import torch
from torch import Tensor

from attangent._core.checks import check_choice, check_size
from attangent._core.memory import check_memory
from attangent._core.progress import track
from attangent._core.random import generator
from attangent.papers.p2_softmax.diffusion.process import ForwardProcess, Spacing

Method = Literal["sde", "ode"]


class Scorer(Protocol):
    """What a sampler asks: the score at diffusion time t, 0 being clean data."""

    @property
    def d(self) -> int: ...
    def score(self, t: Any, x: Any) -> Tensor: ...


def sample(
    score: Scorer,
    process: ForwardProcess,
    n: int,
    method: Method = "sde",
    *,
    steps: int = 200,
    spacing: Spacing = "log",
    seed: int = 0,
    batch: int = 4096,
    quiet: bool = False,
) -> Tensor:
    """n samples (n, d) of x(T0), walked back from N(0, I) at time T.

    With u = T - t for the time that the backward process has run, the SDE is
    dy = g (y/2 + s(y, t)) du + sqrt(g) dB: the score is asked at t = T - u. The paper prints s(y(u), u),
    which asks for the score of clean data where there is noise. `sde` takes Euler-Maruyama steps, `ode` Heun
    steps of dy = g (y + s(y, t)) / 2 du, which has the same marginals and no noise. Steps are measured in the
    integral of g, so that any schedule is walked as g = 1 would be.

    What is returned still carries the noise of time T0: `estimator.posterior_mean(process.T0, samples)` is
    the best guess of the clean points, less spread out than they are.

    >>> from attangent.papers.p2_softmax.diffusion import ExactScore, ForwardProcess, GaussianMixture
    >>> process, target = ForwardProcess(), GaussianMixture.ring(modes=4)
    >>> sample(ExactScore(process, target), process, n=50, steps=20).shape
    torch.Size([50, 2])
    """
    check_memory("the samples", n=check_size("n", n), d=score.d)
    check_size("batch", batch)
    check_choice("method", method, get_args(Method))
    times = process.grid(steps, spacing)
    walk = _euler_maruyama if method == "sde" else _heun
    rng = generator(seed, f"sampling by {method}")
    parts = torch.randn(n, score.d, generator=rng, dtype=torch.float64).split(batch)
    return torch.cat([walk(part, score.score, process, times, rng, quiet) for part in parts])


def _euler_maruyama(
    y: Tensor, score: Callable, process: ForwardProcess, times: Tensor, rng: torch.Generator, quiet: bool
) -> Tensor:
    for t, step in track(_steps(process, times), "sampling", quiet):
        noise = torch.randn(y.shape, generator=rng, dtype=y.dtype)
        y = y + step * (0.5 * y + score(t, y)) + step.sqrt() * noise
    return y


def _heun(
    y: Tensor, score: Callable, process: ForwardProcess, times: Tensor, rng: torch.Generator, quiet: bool
) -> Tensor:
    walked = _steps(process, times)
    ends = [t for t, _ in walked[1:]] + [times[-1]]
    for (t, step), end in track(list(zip(walked, ends, strict=True)), "sampling", quiet):
        slope = 0.5 * (y + score(t, y))
        guess = y + step * slope
        y = y + 0.5 * step * (slope + 0.5 * (guess + score(end, guess)))
    return y


def _steps(process: ForwardProcess, times: Tensor) -> list[tuple[Tensor, Tensor]]:
    """(time at the start of a step, integral of g over it) from T down to T0."""
    return [(t, process.schedule.integral(t) - process.schedule.integral(end)) for t, end in pairwise(times)]
