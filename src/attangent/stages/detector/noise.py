"""The noise of readings: single outliers, and a slow wander with independent noise on top of it."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.linalg.lapack import dtbtrs  # type: ignore[attr-defined]
from scipy.optimize import nnls

from attangent.stages.detector.shapes import Array

_SPREAD = 1.4826
"""Standard deviation of a normal variable over its median deviation."""


@dataclass(frozen=True)
class Noise:
    """e_t = phi e_(t-1) + w_t - theta w_(t-1) with white w of variance 1, stationary; |theta|, phi < 1.

    theta = 0 is autocorrelation of the first order, from independent readings (phi = 0) to a random walk
    (phi near 1). 0 < theta < phi is the sum of such noise and independent noise: the larger theta, the more
    of it is independent. theta < 0 comes from readings that are averages over several steps.
    """

    phi: float
    theta: float = 0.0

    @property
    def variance(self) -> float:
        """(1 + theta^2 - 2 phi theta) / (1 - phi^2)."""
        return (1 + self.theta**2 - 2 * self.phi * self.theta) / (1 - self.phi**2)

    @property
    def correlation(self) -> float:
        """Of one reading with the next: phi - theta / variance."""
        return self.phi - self.theta / self.variance


_PHIS = (0.0, 0.2, 0.4, 0.6, 0.75, 0.85, 0.92, 0.96, 0.985, 0.998)
_THETAS = (-0.3, 0.0, 0.3, 0.5, 0.7, 0.8, 0.88, 0.93, 0.96, 0.98)
_GRID = {
    (i, j): Noise(phi, theta)
    for i, phi in enumerate(_PHIS)
    for j, theta in enumerate(_THETAS)
    if theta == 0 or (phi >= 0.4 and theta <= phi - 0.015)
}
_PLACES = {noise: place for place, noise in _GRID.items()}
NOISES = tuple(_GRID.values())
SCOUTS = tuple(
    Noise(*pair)
    for pair in ((0.0,), (0.6,), (0.92,), (0.998,), (0.85, 0.5), (0.96, 0.7), (0.998, 0.7), (0.998, 0.93))
)
"""A few of `NOISES` from which all others are near."""


def neighbours(noise: Noise) -> list[Noise]:
    """Those next to it among `NOISES`."""
    i, j = _PLACES[noise]
    around = [(i + a, j + b) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b]
    return [_GRID[place] for place in around if place in _GRID]


class Whitening:
    """W with W'W the inverse of the covariance of n readings of a noise, applied in O(n) per column.

    With T the differences a_t - phi a_(t-1) (and a_0), the covariance of T e is tridiagonal, so that
    W = L^-1 T with a bidiagonal Cholesky factor L.
    """

    def __init__(self, noise: Noise, n: int):
        self.phi, self.n = noise.phi, n
        on, below = np.empty(n), np.zeros(n)
        on[0] = np.sqrt(noise.variance)
        for t in range(1, n):
            below[t - 1] = -noise.theta / on[t - 1]
            on[t] = np.sqrt(1 + noise.theta**2 - below[t - 1] ** 2)
        self._L = np.asfortranarray([on, below])
        self.profile = float(np.exp(2 * np.log(on).mean()))
        """det(covariance)^(1/n): what the determinant adds to the likelihood, as a factor of the squares."""

    def __call__(self, columns: Array) -> Array:
        """W times columns (n, k)."""
        differences = columns.astype(float, order="F")
        differences[1:] -= self.phi * columns[:-1]
        return self._solved(differences, "N")

    def back(self, columns: Array) -> Array:
        """W' times columns (n, k)."""
        solved = self._solved(columns, "T")
        found = solved.copy()
        found[:-1] -= self.phi * solved[1:]
        return found

    def _solved(self, columns: Array, transposed: str) -> Array:
        """L^-1 or L'^-1 times columns."""
        if columns.shape[1] == 0:
            return columns
        return dtbtrs(self._L, np.asfortranarray(columns), uplo="L", trans=transposed)[0]

    @cached_property
    def of_ones(self) -> Array:
        """W times a column of ones."""
        return self(np.ones((self.n, 1)))


@lru_cache(maxsize=512)
def whitening(noise: Noise, n: int) -> Whitening:
    return Whitening(noise, n)


def without_outliers(readings: Array, half: int = 3, most: float = 6.0) -> Array:
    """The readings, those far from the median of their neighbourhood put on it (Hampel's filter)."""
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(readings, half, mode="reflect"), 2 * half + 1)
    middle = np.median(windows, axis=1)
    away = np.abs(readings - middle)
    return np.where(
        away > most * max(_SPREAD * float(np.median(away)), 1e-3 * spread(readings)), middle, readings
    )


def spread(readings: Array) -> float:
    """From the lowest to the highest reading, one in forty left out at either end where that leaves any."""
    low, high = np.percentile(readings, (2.5, 97.5))
    return float(high - low) or float(np.ptp(readings))


def least_squares(G: Array, g: Array, yy: float) -> tuple[Array, float]:
    """x >= 0 of least |A x - y|^2 with its value, from G = A'A, g = A'y and yy = y'y."""
    scale = np.sqrt(np.maximum(np.diag(G), 1e-9 * np.diag(G).max()))
    R = _root(G / scale[:, None] / scale)
    x = nnls(R.T, np.linalg.solve(R, g / scale), maxiter=50 * len(G))[0] / scale
    return x, max(float(yy - 2 * x @ g + x @ G @ x), 0.0)


def _root(G: Array) -> Array:
    """R with R R' = G and as little on its diagonal as rounding asks for."""
    for ridge in (1e-8, 1e-6, 1e-4):
        try:
            return np.linalg.cholesky(G + ridge * np.eye(len(G)))
        except np.linalg.LinAlgError:
            continue
    return np.linalg.cholesky(G + 1e-2 * np.eye(len(G)))
