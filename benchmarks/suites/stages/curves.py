"""Loss curves whose stages are known: noises, smooth decays, and one to three falls of several shapes."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

READINGS = 400
SHAPES = ("logistic", "ramp", "kink", "cosine")
Array = NDArray[np.float64]
Noise = Callable[[np.random.Generator, int], Array]


@dataclass(frozen=True)
class Curve:
    """Readings at steps 0, 1, ... and the steps at which a tenth of each fall is gone."""

    losses: Array
    onsets: tuple[float, ...] = ()


@dataclass(frozen=True)
class Case:
    """A family of curves: `draw(seed)` makes one."""

    name: str
    kind: str
    make: Callable[[np.random.Generator], Curve]

    def draw(self, seed: int) -> Curve:
        return self.make(np.random.default_rng([seed, *self.name.encode()]))


def autocorrelated(phi: float, share: float) -> Noise:
    """Stationary noise e_t = phi e_(t-1) + white noise whose standard deviation is `share`."""

    def draw(random: np.random.Generator, n: int) -> Array:
        noise = np.empty(n)
        noise[0] = random.normal()
        white = np.sqrt(1 - phi**2) * random.normal(size=n)
        for i in range(1, n):
            noise[i] = phi * noise[i - 1] + white[i]
        return share * noise

    return draw


def random_walk(share: float) -> Noise:
    """A random walk from 0 whose standard deviation at the end is `share`."""
    return lambda random, n: share * np.cumsum(random.normal(size=n)) / np.sqrt(n)


def sum_of(*parts: Noise) -> Noise:
    return lambda random, n: np.sum([part(random, n) for part in parts], axis=0)


def moving_average(width: int, share: float) -> Noise:
    """Independent noise averaged over the last `width` readings, of standard deviation `share`."""

    def draw(random: np.random.Generator, n: int) -> Array:
        white = random.normal(size=n + width - 1)
        return share * np.sqrt(width) * np.convolve(white, np.full(width, 1 / width), mode="valid")

    return draw


def heavy_tails(share: float) -> Noise:
    """Independent noise of Student's t with three degrees of freedom, of standard deviation `share`."""
    return lambda random, n: share * random.standard_t(3, size=n) / np.sqrt(3)


def flat(noise: Noise) -> Callable[[np.random.Generator], Curve]:
    return lambda random: Curve(2 * (1 + noise(random, READINGS)))


def exponential(noise: Noise) -> Callable[[np.random.Generator], Curve]:
    """From 3 to a plateau, in 2 % to 100 % of the run."""

    def make(random: np.random.Generator) -> Curve:
        steps, plateau = np.arange(READINGS), random.uniform(0, 2)
        tau = READINGS * np.exp(random.uniform(np.log(0.02), 0.0))
        mean = plateau + (3 - plateau) * np.exp(-steps / tau)
        return Curve(mean + 3 * noise(random, READINGS))

    return make


def power_law(noise: Noise) -> Callable[[np.random.Generator], Curve]:
    """From 3 to a plateau as (1 + t / scale)^-power."""

    def make(random: np.random.Generator) -> Curve:
        steps, plateau = np.arange(READINGS), random.uniform(0, 1)
        scale, power = np.exp(random.uniform(0, np.log(100))), random.uniform(0.2, 1.5)
        mean = plateau + (3 - plateau) * (1 + steps / scale) ** -power
        return Curve(mean + 3 * noise(random, READINGS))

    return make


def stages(count: int, noise: Noise, startup: bool = False) -> Callable[[np.random.Generator], Curve]:
    """So many falls of random height, length and shape, with plateaus of some length between them.

    With `startup` the loss decays from a higher level first. Noise is a share of the first plateau.
    """

    def make(random: np.random.Generator) -> Curve:
        steps = np.arange(READINGS, dtype=float)
        lengths = random.uniform(15, 60 if count > 1 else 90, size=count)
        free = READINGS - lengths.sum()
        rests = 30 + (free - 30 * (count + 1)) * random.dirichlet(np.full(count + 1, 2.0))
        onsets = np.cumsum(rests[:-1]) + np.concatenate([[0.0], np.cumsum(lengths[:-1])])
        heights = random.uniform(0.5, 1.0, size=count)
        heights *= 2 * random.uniform(0.75, 1.0) / heights.sum()
        loss = np.full(READINGS, 2 - heights.sum())
        for onset, length, height in zip(onsets, lengths, heights, strict=True):
            loss += height * _fall(random.choice(SHAPES), steps, onset, length)
        if startup:
            loss += 2 * np.exp(-steps / random.uniform(3, 12))
        return Curve(loss + 2 * noise(random, READINGS), tuple(onsets))

    return make


def _fall(shape: str, steps: Array, onset: float, length: float) -> Array:
    """1 to 0, a tenth gone at `onset` and nine tenths at `onset + length`; not the library's own code."""
    if shape == "logistic":
        return 1 / (1 + 81 ** ((steps - onset) / length - 0.5))
    if shape == "kink":
        return np.minimum(1.0, 0.9 * 9.0 ** (-(steps - onset) / length))
    share = (steps - onset) / length
    if shape == "ramp":
        return np.interp(share, [-0.125, 1.125], [1.0, 0.0])
    edge = np.arccos(0.8) / np.pi  # half a cosine: a tenth gone at this share of its width
    phase = np.clip(edge + share * (1 - 2 * edge), 0, 1)
    return (1 + np.cos(np.pi * phase)) / 2


WHITE = {share: autocorrelated(0.0, share) for share in (0.01, 0.05, 0.15)}
BOTH = (autocorrelated(0.9, 0.05), WHITE[0.05])
WANDERING = (random_walk(0.05), WHITE[0.05])
CASES = (
    *(Case(f"flat, independent noise {100 * share:g} %", "flat", flat(WHITE[share])) for share in WHITE),
    Case("flat, autocorrelated (.9) 5 %", "flat", flat(autocorrelated(0.9, 0.05))),
    Case("flat, autocorrelated (.9) 15 %", "flat", flat(autocorrelated(0.9, 0.15))),
    Case("flat, random walk 15 %", "flat", flat(random_walk(0.15))),
    Case("flat, random walk 15 % + independent 5 %", "flat", flat(sum_of(random_walk(0.15), WHITE[0.05]))),
    Case("flat, autocorrelated (.9) 5 % + independent 5 %", "flat", flat(sum_of(*BOTH))),
    Case("flat, moving average of 5 readings 5 %", "flat", flat(moving_average(5, 0.05))),
    Case("flat, heavy tails 5 %", "flat", flat(heavy_tails(0.05))),
    Case("exponential, independent noise 1 %", "decay", exponential(WHITE[0.01])),
    Case("exponential, independent noise 5 %", "decay", exponential(WHITE[0.05])),
    Case("exponential, autocorrelated (.9) 5 %", "decay", exponential(autocorrelated(0.9, 0.05))),
    Case("power law, independent noise 1 %", "decay", power_law(WHITE[0.01])),
    Case("power law, independent noise 5 %", "decay", power_law(WHITE[0.05])),
    Case("power law, autocorrelated (.9) 5 %", "decay", power_law(autocorrelated(0.9, 0.05))),
    Case(
        "power law, random walk 5 % + independent 5 %",
        "decay",
        power_law(sum_of(random_walk(0.05), WHITE[0.05])),
    ),
    Case("1 stage, noise 5 %", "stages", stages(1, WHITE[0.05])),
    Case("2 stages, noise 5 %", "stages", stages(2, WHITE[0.05])),
    Case("3 stages, noise 5 %", "stages", stages(3, WHITE[0.05])),
    Case("2 stages after a start-up, noise 5 %", "stages", stages(2, WHITE[0.05], startup=True)),
    Case("1 stage, noise 15 %", "stages", stages(1, WHITE[0.15])),
    Case("2 stages, autocorrelated (.9) 2 %", "stages", stages(2, autocorrelated(0.9, 0.02))),
    Case("2 stages, autocorrelated (.9) 5 %", "stages", stages(2, BOTH[0])),
)
