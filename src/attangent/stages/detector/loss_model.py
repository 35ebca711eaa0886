"""The model of a loss curve: a smooth decay, changes on top of it, and autocorrelated noise.

    y_t = a + sum_k b_k e^(-t / tau_k) + sum_j h_j change_j(t) + e_t

with b_k, h_j >= 0 and e one of `noise.NOISES`, of any size. Sums of decaying exponentials contain every
exponential and power law with its plateau and anything between (the completely monotone functions, by
Bernstein's theorem): none of them ever falls faster than it did before.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np

from attangent.stages.detector.noise import (
    SCOUTS,
    Array,
    Noise,
    least_squares,
    neighbours,
    spread,
    whitening,
    without_outliers,
)

SHAPES = ("logistic", "ramp", "kink")
_LOG_9 = np.log(9.0)
_LOG_10_9 = np.log(10 / 9)
_RATES = 24
_FLOOR = 3e-3
"""Smallest credible noise as a share of the spread of the losses."""


def remaining(shape: str, steps: Array, onset: float, end: float) -> Array:
    """Return the rest of a fall of height 1: 1 long before, .9 at `onset`, .1 at `end`, 0 long after.

    "logistic": 1 / (1 + e^((t - c) / w)); "ramp": straight down; "kink": 1, then at once e^(-t / tau).
    """
    duration = max(end - onset, 1e-12)
    if shape == "logistic":
        return 1 / (1 + np.exp(np.clip((steps - (onset + end) / 2) * 2 * _LOG_9 / duration, -60, 60)))
    if shape == "ramp":
        return np.clip(0.9 - 0.8 * (steps - onset) / duration, 0.0, 1.0)
    tau = duration / _LOG_9
    return np.exp(-np.clip((steps - onset) / tau + _LOG_10_9, 0.0, 60))


def step_at(steps: Array, index: float) -> float:
    """Return the step at a fractional index; beyond the ends, extrapolate the last or first spacing."""
    last = len(steps) - 1
    if index > last:
        return float(steps[-1] + (index - last) * (steps[-1] - steps[-2]))
    if index < 0:
        return float(steps[0] + index * (steps[1] - steps[0]))
    return float(np.interp(index, np.arange(len(steps)), steps))


@dataclass(frozen=True)
class LossChange:
    """A fall (sign 1) or rise (sign -1): a tenth is gone at index `start`, nine tenths at `start + length`.

    Indices count readings, not steps, so that unevenly spaced steps need no other search than even ones.
    """

    shape: str
    start: float
    length: float
    sign: float = 1.0

    def column(self, steps: Array) -> Array:
        """Return the change over the steps, of height 1."""
        onset = step_at(steps, self.start)
        return self.sign * remaining(self.shape, steps, onset, step_at(steps, self.start + self.length))


@dataclass(frozen=True, eq=False)
class LossCurve:
    """Rising steps with a loss at each, without outliers, shifted and scaled to a spread of about 1."""

    steps: Array
    losses: Array
    middle: float = 0.0
    scale: float = 1.0
    _white: dict[Noise, Array] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, steps: Array, losses: Array) -> "LossCurve":
        """Normalise raw losses."""
        middle = float(np.median(losses))
        scale = spread(losses)
        return cls(steps, without_outliers((losses - middle) / scale), middle, scale)

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def floor(self) -> float:
        """The sum of squares of the smallest credible noise, added to every fit."""
        return _FLOOR**2 * len(self)

    @cached_property
    def basis(self) -> "Basis":
        """The columns that depend on the steps alone."""
        return _basis(tuple(self.steps.tolist()))

    def whitened(self, noise: Noise) -> Array:
        """Return the losses (n,) multiplied by the whitening of `noise`."""
        if noise not in self._white:
            self._white[noise] = whitening(noise, len(self))(self.losses[:, None])[:, 0]
        return self._white[noise]


class Basis:
    """Columns that depend on the steps alone: smooth decays, and candidate changes."""

    def __init__(self, steps: Array):
        n = len(steps)
        x = (steps - steps[0]) / (steps[-1] - steps[0])
        rates = [np.exp(-x / tau) for tau in np.geomspace(1.0 / n, 3.0, _RATES)]
        # Both signs of the constant: all coefficients are non-negative, but the level may be below zero.
        self.decays = np.column_stack([np.ones(n), -np.ones(n), *rates])
        self.changes = _candidates(n)
        self.columns = np.column_stack([change.column(steps) for change in self.changes])
        self._white: dict[Noise, tuple[Array, Array]] = {}

    def whitened(self, noise: Noise) -> tuple[Array, Array]:
        """Return the whitened decays and their products with each other."""
        if noise not in self._white:
            white = whitening(noise, len(self.decays))(self.decays)
            self._white[noise] = white, white.T @ white
        return self._white[noise]

    @cached_property
    def scouted(self) -> dict[Noise, tuple[Array, Array]]:
        """Squares of the whitened candidates, and their products with the decays, by noise in `SCOUTS`."""
        products = {}
        for noise in SCOUTS:
            white = whitening(noise, len(self.decays))(self.columns)
            products[noise] = np.einsum("nc,nc->c", white, white), white.T @ self.whitened(noise)[0]
        return products


@lru_cache(maxsize=24)
def _basis(steps: tuple[float, ...]) -> Basis:
    return Basis(np.array(steps))


def _candidates(n: int) -> list[LossChange]:
    """Changes of all shapes, two readings to half the curve long, a third of a length apart."""
    return [
        LossChange(shape, start, length)
        for length in np.geomspace(2.0, n / 2, 8)
        for start in np.arange(1.0, n - 2.0, max(1.0, length / 3))
        for shape in SHAPES
    ]


class LossFit:
    """The best fit of a curve with given changes, at the most likely noise."""

    def __init__(self, curve: LossCurve, changes: Sequence[LossChange] = ()):
        self.curve = curve
        self.changes = tuple(changes)
        columns = [change.column(curve.steps) for change in self.changes]
        self.columns = np.column_stack([*columns, np.empty((len(curve), 0))])
        """(n, changes): the columns of the changes."""
        self._fits: dict[Noise, tuple[Array, float]] = {}

    @cached_property
    def A(self) -> Array:
        """All columns: smooth decays, then changes."""
        return np.concatenate([self.curve.basis.decays, self.columns], axis=1)

    def products(self, noise: Noise) -> tuple[Array, Array, float]:
        """Return A'A, A'y and y'y of the whitened columns and losses."""
        decays, among = self.curve.basis.whitened(noise)
        y = self.curve.whitened(noise)
        changes = whitening(noise, len(self.curve))(self.columns)
        mixed = changes.T @ decays
        G = np.block([[among, mixed.T], [mixed, changes.T @ changes]])
        return G, np.concatenate([decays.T @ y, changes.T @ y]), float(y @ y)

    def fit_at(self, noise: Noise) -> tuple[Array, float]:
        """Return the coefficients and `value` under a given noise."""
        if noise not in self._fits:
            x, squares = least_squares(*self.products(noise))
            profile = whitening(noise, len(self.curve)).profile
            self._fits[noise] = x, (squares + self.curve.floor) * profile
        return self._fits[noise]

    @cached_property
    def noise(self) -> Noise:
        """The most likely noise: start at the best scout, then descend over neighbours on the grid."""
        best = min(SCOUTS, key=lambda noise: self.fit_at(noise)[1])
        while True:
            better = min(neighbours(best), key=lambda noise: self.fit_at(noise)[1])
            if self.fit_at(better)[1] >= self.fit_at(best)[1]:
                return best
            best = better

    @property
    def value(self) -> float:
        """The sum of squares of the white noise, floor included, times det(covariance)^(1/n)."""
        return self.fit_at(self.noise)[1]

    @property
    def coefficients(self) -> Array:
        """Coefficients of the columns of A."""
        return self.fit_at(self.noise)[0]

    @property
    def heights(self) -> Array:
        """The height of each change."""
        return self.coefficients[len(self.coefficients) - len(self.changes) :]

    @property
    def mean(self) -> Array:
        """The fitted loss at each step."""
        return self.A @ self.coefficients

    def gain_over(self, other: "LossFit") -> float:
        """Return twice the log likelihood ratio to another fit of the same curve."""
        return len(self.curve) * float(np.log(other.value / self.value))
