"""The model of a loss curve: a smooth decay, changes on top of it, and autocorrelated noise.

    y_t = a + sum_k b_k e^(-t / tau_k) + sum_j h_j change_j(t) + e_t

with b_k, h_j >= 0 and e one of `noise.NOISES`, of any size. Sums of decaying exponentials contain every
exponential and power law with its plateau and anything between (the completely monotone functions, by
Bernstein's theorem): none of them ever falls faster than it did before.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dtbtrs  # type: ignore[attr-defined]
from scipy.optimize import nnls

Array = NDArray[Any]
_DEVIATIONS = 1.4826
"""Standard deviation of a normal variable over its median absolute deviation."""


@dataclass(frozen=True)
class Noise:
    """e_t = phi e_(t-1) + w_t - theta w_(t-1) with white w of variance 1, stationary; |theta|, phi < 1.

    theta = 0 is first-order autocorrelation, from independent readings (phi = 0) to a random walk (phi near
    1). 0 < theta < phi is the sum of such noise and independent noise: the larger theta, the larger the
    independent share. theta < 0 arises if readings are averages over several steps.
    """

    phi: float
    theta: float = 0.0

    @property
    def variance(self) -> float:
        """(1 + theta^2 - 2 phi theta) / (1 - phi^2)."""
        return (1 + self.theta**2 - 2 * self.phi * self.theta) / (1 - self.phi**2)

    @property
    def correlation(self) -> float:
        """Correlation of one reading with the next: phi - theta / variance."""
        return self.phi - self.theta / self.variance


_PHIS = (0.0, 0.2, 0.4, 0.6, 0.75, 0.85, 0.92, 0.96, 0.985, 0.998)
_THETAS = (-0.3, 0.0, 0.3, 0.5, 0.7, 0.8, 0.88, 0.93, 0.96, 0.98)
_GRID = {
    (i, j): Noise(phi, theta)
    for i, phi in enumerate(_PHIS)
    for j, theta in enumerate(_THETAS)
    if theta == 0 or (phi >= 0.4 and theta <= phi - 0.015)
}
_CELLS = {noise: cell for cell, noise in _GRID.items()}
NOISES = tuple(_GRID.values())
SCOUTS = tuple(
    Noise(*pair)
    for pair in ((0.0,), (0.6,), (0.92,), (0.998,), (0.85, 0.5), (0.96, 0.7), (0.998, 0.7), (0.998, 0.93))
)
"""A few of `NOISES` that have every other one nearby."""


def neighbours(noise: Noise) -> list[Noise]:
    """Return the adjacent noises on the grid of `NOISES`."""
    i, j = _CELLS[noise]
    around = [(i + a, j + b) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b]
    return [_GRID[cell] for cell in around if cell in _GRID]


class Whitening:
    """W with W'W the inverse covariance of n readings of a noise, applied in O(n) per column."""

    def __init__(self, noise: Noise, n: int):
        self.phi = noise.phi
        self.n = n
        # With T the differences a_t - phi a_(t-1) (and a_0), the covariance of T e is tridiagonal, so that
        # W = L^-1 T with a bidiagonal Cholesky factor L: no n x n matrix is needed.
        diagonal = np.empty(n)
        below = np.zeros(n)
        diagonal[0] = np.sqrt(noise.variance)
        for t in range(1, n):
            below[t - 1] = -noise.theta / diagonal[t - 1]
            diagonal[t] = np.sqrt(1 + noise.theta**2 - below[t - 1] ** 2)
        self._L = np.asfortranarray([diagonal, below])
        self.profile = float(np.exp(2 * np.log(diagonal).mean()))
        """det(covariance)^(1/n): the factor by which the determinant enters the likelihood."""

    def __call__(self, columns: Array) -> Array:
        """Multiply columns (n, k) by W."""
        differences = columns.astype(float, order="F")
        differences[1:] -= self.phi * columns[:-1]
        return self._solved(differences, "N")

    def back(self, columns: Array) -> Array:
        """Multiply columns (n, k) by W'."""
        solved = self._solved(columns, "T")
        product = solved.copy()
        product[:-1] -= self.phi * solved[1:]
        return product

    def _solved(self, columns: Array, transposed: str) -> Array:
        """Multiply columns by L^-1 or L'^-1."""
        if columns.shape[1] == 0:
            return columns
        return dtbtrs(self._L, np.asfortranarray(columns), uplo="L", trans=transposed)[0]

    @cached_property
    def of_ones(self) -> Array:
        """W times a column of ones."""
        return self(np.ones((self.n, 1)))


@lru_cache(maxsize=512)
def whitening(noise: Noise, n: int) -> Whitening:
    """Return the whitening of n readings, cached."""
    return Whitening(noise, n)


def without_outliers(losses: Array, half: int = 3, most: float = 6.0) -> Array:
    """Replace losses far from the median of their neighbourhood by it (Hampel's filter)."""
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(losses, half, mode="reflect"), 2 * half + 1)
    middle = np.median(windows, axis=1)
    away = np.abs(losses - middle)
    limit = most * max(_DEVIATIONS * float(np.median(away)), 1e-3 * spread(losses))
    return np.where(away > limit, middle, losses)


def spread(losses: Array) -> float:
    """Return the range of the central 95 % of the losses, or of all if that is zero."""
    low, high = np.percentile(losses, (2.5, 97.5))
    return float(high - low) or float(np.ptp(losses))


def least_squares(G: Array, g: Array, yy: float) -> tuple[Array, float]:
    """Minimise |A x - y|^2 over x >= 0, given G = A'A, g = A'y and yy = y'y; return x and the minimum."""
    # Work with a square root of G and not with A: n rows become as many as there are columns.
    scale = np.sqrt(np.maximum(np.diag(G), 1e-9 * np.diag(G).max()))
    R = _root(G / scale[:, None] / scale)
    x = nnls(R.T, np.linalg.solve(R, g / scale), maxiter=50 * len(G))[0] / scale
    return x, max(float(yy - 2 * x @ g + x @ G @ x), 0.0)


def _root(G: Array) -> Array:
    """Return R with R R' = G, adding as little to the diagonal as rounding requires."""
    for ridge in (1e-8, 1e-6, 1e-4):
        try:
            return np.linalg.cholesky(G + ridge * np.eye(len(G)))
        except np.linalg.LinAlgError:
            continue
    return np.linalg.cholesky(G + 1e-2 * np.eye(len(G)))


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
