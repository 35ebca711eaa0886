"""The course of a loss: a smooth decay, changes on top of it, and autocorrelated noise, fitted together.

    y_t = a + sum_k b_k e^(-t / tau_k) + sum_j h_j change_j(t) + e_t,   e_t = phi e_(t-1) + white noise

with b_k, h_j >= 0. Sums of decaying exponentials hold every exponential and power law with its plateau
and anything between (the completely monotone functions, by Bernstein's theorem): none of them ever falls
faster than it did before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from attangent.stages.detector.noise import CORRELATIONS, Products, least_squares, spread, without_outliers
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


class Basis:
    """What depends on the steps alone: the columns of smooth decays, and changes to try with theirs."""

    def __init__(self, steps: Array):
        n, x = len(steps), (steps - steps[0]) / (steps[-1] - steps[0])
        rates = [np.exp(-x / tau) for tau in np.geomspace(1.0 / n, 3.0, _RATES)]
        self.decays = np.column_stack([np.ones(n), -np.ones(n), *rates])
        self.changes = _changes_to_try(n)
        self.columns = np.column_stack([change.column(steps) for change in self.changes])
        self.squares = [
            (self.columns**2).sum(0),
            2 * (self.columns[1:] * self.columns[:-1]).sum(0),
            (self.columns[1:-1] ** 2).sum(0),
        ]
        self.with_decays = Products(self.columns, self.decays)


@lru_cache(maxsize=8)
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


@dataclass(frozen=True, eq=False)
class LossCourse:
    """The best fit with given changes: at every phi, and at the best one."""

    readings: Readings
    changes: tuple[Shift, ...]
    A: Array
    """The columns: smooth decays, then changes."""
    fits: tuple[tuple[Array, float], ...]
    """Coefficients and `value` at each of the correlations."""

    @cached_property
    def best(self) -> int:
        return int(np.argmin([value for _, value in self.fits]))

    @property
    def phi(self) -> float:
        return CORRELATIONS[self.best]

    @property
    def value(self) -> float:
        """The sum of squares of the white noise, floor included, times (1 - phi^2)^(-1/n)."""
        return self.fits[self.best][1]

    @property
    def coefficients(self) -> Array:
        return self.fits[self.best][0]

    @property
    def heights(self) -> Array:
        """The height of each change."""
        return self.coefficients[self.A.shape[1] - len(self.changes) :]

    @property
    def mean(self) -> Array:
        """The fitted loss at each step."""
        return self.A @ self.coefficients

    def gain_over(self, other: "LossCourse") -> float:
        """Twice the logarithm of the likelihood ratio to another fit of the same readings."""
        return len(self.readings) * float(np.log(other.value / self.value))


def fit_course(readings: Readings, changes: Sequence[Shift] = ()) -> LossCourse:
    """Decay, heights of the changes and noise, fitted at every correlation."""
    A = columns(readings, changes)
    y = readings.losses[:, None]
    AA, Ay, yy = Products(A, A), Products(A, y), Products(y, y)
    fits = []
    for phi in CORRELATIONS:
        x, value = least_squares(AA(phi), Ay(phi)[:, 0], float(yy(phi)[0, 0]))
        fits.append((x, (value + readings.floor) * profile(phi, len(readings))))
    return LossCourse(readings, tuple(changes), A, tuple(fits))


def profile(phi: float, n: int) -> float:
    """(1 - phi^2)^(-1/n): what the determinant adds to the likelihood, as a factor of the sum of squares."""
    return (1 - phi**2) ** (-1 / n)


def columns(readings: Readings, changes: Sequence[Shift]) -> Array:
    """Smooth decays and these changes, side by side."""
    return np.column_stack([readings.basis.decays, *(change.column(readings.steps) for change in changes)])
