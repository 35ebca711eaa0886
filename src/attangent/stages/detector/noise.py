"""The noise of readings: outliers, and a slow random drift with independent noise on top."""

from dataclasses import dataclass
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
