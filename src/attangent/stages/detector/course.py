"""The course of a loss: a smooth decay, changes on top of it, and autocorrelated noise, fitted together.

    y_t = a + sum_k b_k e^(-t / tau_k) + sum_j h_j change_j(t) + e_t

with b_k, h_j >= 0 and e one of `noise.NOISES`, of any size. Sums of decaying exponentials hold every
exponential and power law with its plateau and anything between (the completely monotone functions, by
Bernstein's theorem): none of them ever falls faster than it did before.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np

from attangent.stages.detector.noise import (
    SCOUTS,
    Noise,
    least_squares,
    neighbours,
    spread,
    whitening,
    without_outliers,
)
from attangent.stages.detector.shapes import SHAPES, Array, Shift

_RATES = 24
_FLOOR = 3e-3
"""Noise below this share of the readings' spread is not believed."""


@dataclass(frozen=True, eq=False)
class Readings:
    """Steps that go up with a loss at each, without outliers, shifted and scaled to a spread of about 1."""

    steps: Array
    losses: Array
    middle: float = 0.0
    scale: float = 1.0
    _white: dict[Noise, Array] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, steps: Array, losses: Array) -> "Readings":
        middle, scale = float(np.median(losses)), spread(losses)
        return cls(steps, without_outliers((losses - middle) / scale), middle, scale)

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def floor(self) -> float:
        """What is added to every sum of squares."""
        return _FLOOR**2 * len(self)

    @cached_property
    def basis(self) -> "Basis":
        return _basis(tuple(self.steps.tolist()))

    def whitened(self, noise: Noise) -> Array:
        """(n) the losses, white where they are of this noise."""
        if noise not in self._white:
            self._white[noise] = whitening(noise, len(self))(self.losses[:, None])[:, 0]
        return self._white[noise]


class Basis:
    """What depends on the steps alone: the columns of smooth decays, and changes to try with theirs."""

    def __init__(self, steps: Array):
        n, x = len(steps), (steps - steps[0]) / (steps[-1] - steps[0])
        rates = [np.exp(-x / tau) for tau in np.geomspace(1.0 / n, 3.0, _RATES)]
        self.decays = np.column_stack([np.ones(n), -np.ones(n), *rates])
        self.changes = _changes_to_try(n)
        self.columns = np.column_stack([change.column(steps) for change in self.changes])
        self._white: dict[Noise, tuple[Array, Array]] = {}

    def whitened(self, noise: Noise) -> tuple[Array, Array]:
        """The decays, white where they are of this noise, and their products with each other."""
        if noise not in self._white:
            white = whitening(noise, len(self.decays))(self.decays)
            self._white[noise] = white, white.T @ white
        return self._white[noise]

    @cached_property
    def scouted(self) -> dict[Noise, tuple[Array, Array]]:
        """For each of `SCOUTS`: squares of the whitened changes to try, and their products with decays."""
        found = {}
        for noise in SCOUTS:
            white = whitening(noise, len(self.decays))(self.columns)
            found[noise] = np.einsum("nc,nc->c", white, white), white.T @ self.whitened(noise)[0]
        return found


@lru_cache(maxsize=24)
def _basis(steps: tuple[float, ...]) -> Basis:
    return Basis(np.array(steps))


def _changes_to_try(n: int) -> list[Shift]:
    """All shapes at lengths from two readings to half of them, a third of a length apart."""
    return [
        Shift(shape, place, length)
        for length in np.geomspace(2.0, n / 2, 8)
        for place in np.arange(1.0, n - 2.0, max(1.0, length / 3))
        for shape in SHAPES
    ]


class LossCourse:
    """The best fit with given changes, at the noise where it is likeliest."""

    def __init__(self, readings: Readings, changes: Sequence[Shift] = ()):
        self.readings, self.changes = readings, tuple(changes)
        columns = [change.column(readings.steps) for change in self.changes]
        self.own = np.column_stack([*columns, np.empty((len(readings), 0))])
        """(n, changes): the columns of the changes."""
        self._fits: dict[Noise, tuple[Array, float]] = {}

    @cached_property
    def A(self) -> Array:
        """The columns: smooth decays, then changes."""
        return np.concatenate([self.readings.basis.decays, self.own], axis=1)

    def products(self, noise: Noise) -> tuple[Array, Array, float]:
        """A'A, A'y and y'y of the whitened columns and losses."""
        decays, among = self.readings.basis.whitened(noise)
        y, own = self.readings.whitened(noise), whitening(noise, len(self.readings))(self.own)
        mixed = own.T @ decays
        G = np.block([[among, mixed.T], [mixed, own.T @ own]])
        return G, np.concatenate([decays.T @ y, own.T @ y]), float(y @ y)

    def fit_at(self, noise: Noise) -> tuple[Array, float]:
        """Coefficients and `value` where the noise is this one."""
        if noise not in self._fits:
            x, squares = least_squares(*self.products(noise))
            profile = whitening(noise, len(self.readings)).profile
            self._fits[noise] = x, (squares + self.readings.floor) * profile
        return self._fits[noise]

    @cached_property
    def noise(self) -> Noise:
        """The likeliest noise: from the best of a few, downhill over the neighbours."""
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
        return self.fit_at(self.noise)[0]

    @property
    def heights(self) -> Array:
        """The height of each change."""
        return self.coefficients[len(self.coefficients) - len(self.changes) :]

    @property
    def mean(self) -> Array:
        """The fitted loss at each step."""
        return self.A @ self.coefficients

    def gain_over(self, other: "LossCourse") -> float:
        """Twice the logarithm of the likelihood ratio to another fit of the same readings."""
        return len(self.readings) * float(np.log(other.value / self.value))
