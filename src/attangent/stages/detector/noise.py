"""The noise of readings: single outliers, and autocorrelation of the first order."""

import numpy as np
from scipy.optimize import nnls

from attangent.stages.detector.shapes import Array

CORRELATIONS = (0.0, 0.2, 0.4, 0.6, 0.75, 0.85, 0.92, 0.96, 0.985, 0.998)
"""phi of e_t = phi e_(t-1) + white noise, from independent readings to a random walk."""
_SPREAD = 1.4826
"""Standard deviation of a normal variable over its median deviation."""


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


def whitened(columns: Array, phi: float) -> Array:
    """sqrt(1 - phi^2) a_0, then a_t - phi a_(t-1): white where a is stationary with correlation phi."""
    return np.concatenate([np.sqrt(1 - phi**2) * columns[:1], columns[1:] - phi * columns[:-1]])


class Products:
    """A'B of whitened columns as a polynomial in phi: one pass serves every phi."""

    def __init__(self, A: Array, B: Array):
        self.constant = A.T @ B
        self.linear = A[1:].T @ B[:-1] + A[:-1].T @ B[1:]
        self.square = A[1:-1].T @ B[1:-1]

    def __call__(self, phi: float) -> Array:
        return self.constant - phi * self.linear + phi * phi * self.square


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
