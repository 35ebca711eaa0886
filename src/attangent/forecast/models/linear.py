"""Closed-form ridge regression on the windows of one long series, from sums that never lay the windows out.

Index letters: t windows, i and j positions in a window. L is the look-back, H the horizon, P = L + H a window
with its future.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy import fft

from attangent._core.errors import AttangentError
from attangent.forecast.data.panel import Array, Panel
from attangent.forecast.models.base import PanelModel

Normalise = Literal["last", "mean", "none"]
"""Level that is subtracted from a window: its last value, its mean, or nothing."""

ALPHAS = tuple(float(alpha) for alpha in 10.0 ** np.arange(-6, 2.01, 0.25))
JITTER = 1e-9
"""Added to the Gram matrix, relative to its mean diagonal: windows less their level are dependent."""
LONGEST_LOOKBACK = 336
FEWEST_WINDOWS = 60


class Linear(PanelModel):
    """y = level + W'(x - level) + b per series, with W by ridge regression and a long look-back.

    There is a member per level: "linear-last", "linear-mean" and "linear-none". The penalty, and whether
    there is an intercept b, are chosen on the last fifth of the series.
    """

    families = ("linear",)
    long_only = True

    def forecast(self, panel: Panel, horizon: int, earlier: Mapping[str, Array]) -> dict[str, Array]:
        """Return a forecast per level; series with fewer than 60 windows get Theta's forecast."""
        forecasts = {f"linear-{level}": earlier["theta"].copy() for level in get_args(Normalise)}
        for row, length in enumerate(panel.lengths):
            lookback = int(np.clip((length - 3 * horizon - 1) // 3, 1, LONGEST_LOOKBACK))
            if length - lookback - horizon + 1 < FEWEST_WINDOWS:
                continue
            series = panel.values[row, len(panel.values[row]) - length :]
            for level in get_args(Normalise):
                forecasts[f"linear-{level}"][row] = _forecast_one(series, lookback, horizon, level)
        return forecasts


def _forecast_one(series: Array, lookback: int, horizon: int, level: Normalise) -> Array:
    """Return the next `horizon` values of a vector."""
    centre = series.mean()
    centred = series - centre
    cut = len(series) - max(len(series) // 5, horizon)
    if cut < lookback + horizon:
        cut = len(series)
    matrix = normaliser(level, lookback, horizon)
    fitted, held_out, complete = (
        window_sums(values, lookback + horizon).mapped(matrix)
        for values in (centred[:cut], centred[min(cut, len(series) - horizon) - lookback :], centred)
    )
    # An intercept lets windows drift as they did on average: right for "none", a choice for the others.
    choices = (True,) if level == "none" else (False, True)
    paths = {key: RidgePath.of_sums(fitted, lookback, key) for key in choices}
    errors = {key: path.errors(np.array(ALPHAS), path.held_out(held_out)) for key, path in paths.items()}
    intercept = min(choices, key=lambda key: errors[key].min())
    path = RidgePath.of_sums(complete, lookback, intercept)
    weights = path.weights(ALPHAS[int(np.argmin(errors[intercept]))])
    window = centred[-lookback:]
    base = window @ anchor_row(level, lookback)
    return (window - base - path.moments.centre_x) @ weights + path.moments.centre_y + base + centre


@dataclass(frozen=True)
class WindowSums:
    """count, sum_t w_t and sum_t w_t w_t' over the windows w_t in R^P of one or more series.

    Sums of disjoint sets of windows add up, so channels can be pooled.
    """

    count: int
    first: Array
    second: Array

    def __add__(self, other: "WindowSums") -> "WindowSums":
        return WindowSums(self.count + other.count, self.first + other.first, self.second + other.second)

    def mapped(self, matrix: Array) -> "WindowSums":
        """Return the sums of matrix @ w_t."""
        return WindowSums(self.count, matrix @ self.first, matrix @ self.second @ matrix.T)


def window_sums(series: Array, width: int) -> WindowSums:
    """Sum over every window of `width` consecutive values of a vector, in O(T log T + width^2)."""
    count = len(series) - width + 1
    if count < 1:
        raise AttangentError(f"a series of {len(series)} values holds no window of {width}")
    M = np.empty((width, width))
    M[0] = _correlation(series[:count], series)[:width]
    head = series[: width - 1]
    tail = series[count : count + width - 1]
    # Neighbouring entries differ by the first and last window only, so each row follows from the one above:
    # M[i+1, j+1] = M[i, j] + x[i+n] x[j+n] - x[i] x[j] with n windows.
    for i in range(width - 1):
        M[i + 1, i + 1 :] = M[i, i:-1] + tail[i] * tail[i:] - head[i] * head[i:]
    M = np.triu(M)
    M += np.triu(M, 1).T
    running = np.concatenate(([0.0], np.cumsum(series)))
    return WindowSums(count, running[count:] - running[:width], M)


def _correlation(short: Array, long: Array) -> Array:
    """sum_t short[t] long[t + j] for j = 0, 1, ...: Fourier transforms in pieces of bounded length."""
    from scipy.fft import next_fast_len

    lags = len(long) - len(short) + 1
    piece = max(4 * lags, 1 << 16)
    total = np.zeros(lags)
    for start in range(0, len(short), piece):
        left = short[start : start + piece]
        right = long[start : start + len(left) + lags - 1]
        size = next_fast_len(len(right) + len(left) - 1, real=True)
        spectrum = fft.rfft(right, size) * np.conj(fft.rfft(left, size))
        total += fft.irfft(spectrum, size)[:lags]
    return total


def anchor_row(normalise: Normalise, lookback: int) -> Array:
    """Return the weights (L,) that give the level of a window: its last value, its mean, or zero."""
    if normalise not in get_args(Normalise):
        raise AttangentError(f"normalise is {normalise!r}, expected one of {', '.join(get_args(Normalise))}")
    row = np.zeros(lookback)
    if normalise == "last":
        row[-1] = 1.0
    elif normalise == "mean":
        row[:] = 1.0 / lookback
    return row


def normaliser(normalise: Normalise, lookback: int, horizon: int) -> Array:
    """Return the matrix (P, P) that subtracts the level from a window and its future."""
    matrix = np.eye(lookback + horizon)
    matrix[:, :lookback] -= anchor_row(normalise, lookback)
    return matrix


@dataclass(frozen=True)
class Moments:
    """Second moments of inputs x (L) and targets y (H) about a centre, divided by the number of windows."""

    centre_x: Array
    centre_y: Array
    xx: Array
    xy: Array
    yy: float

    @classmethod
    def about(cls, centre: Array, sums: WindowSums, lookback: int) -> "Moments":
        """Return the moments of `sums` about `centre` (P,), which need not be their own mean."""
        cross = np.outer(sums.first / sums.count, centre)
        second = sums.second / sums.count - cross - cross.T + np.outer(centre, centre)
        L = lookback
        spread = float(np.trace(second[L:, L:]))
        return cls(centre[:L], centre[L:], second[:L, :L], second[:L, L:], spread)


@dataclass(frozen=True)
class RidgePath:
    """W(alpha) = (G + alpha I)^-1 B of y ~ W'(x - centre x) + centre y for every alpha, G = xx, B = xy.

    alpha is relative to the mean diagonal of G, so one grid serves series of any scale. `rotated` is V'B for
    the eigenvectors V of G.
    """

    moments: Moments
    values: Array
    vectors: Array
    rotated: Array
    scale: float

    @classmethod
    def of(cls, moments: Moments) -> "RidgePath":
        """Decompose the Gram matrix once for all penalties."""
        scale = float(np.trace(moments.xx)) / len(moments.xx)
        scale = scale if scale > 0 else 1.0
        values, vectors = np.linalg.eigh(moments.xx)
        return cls(moments, np.maximum(values, 0.0), vectors, vectors.T @ moments.xy, scale)

    @classmethod
    def of_sums(cls, sums: WindowSums, lookback: int, intercept: bool) -> "RidgePath":
        """Decompose window sums about their mean, or about zero without an intercept."""
        centre = sums.first / sums.count if intercept else np.zeros_like(sums.first)
        return cls.of(Moments.about(centre, sums, lookback))

    def held_out(self, sums: WindowSums) -> Moments:
        """Return the moments of other windows about this path's centre, for `errors`."""
        centre = np.concatenate((self.moments.centre_x, self.moments.centre_y))
        return Moments.about(centre, sums, len(self.moments.centre_x))

    def _shrink(self, alpha: float) -> Array:
        return 1.0 / (self.values + (alpha + JITTER) * self.scale)

    def weights(self, alpha: float) -> Array:
        """Return W (L, H)."""
        return self.vectors @ (self._shrink(alpha)[:, None] * self.rotated)

    def errors(self, alphas: Array, held_out: Moments) -> Array:
        """Return the mean squared error per step on the windows of `held_out`, about the same centre."""
        gram = self.vectors.T @ held_out.xx @ self.vectors
        # (tr W'GW - 2 tr W'B + y'y) / H with W = V D V'B: in the basis V only the diagonal D depends on
        # alpha, so each alpha costs O(L^2), whatever the number of windows.
        quadratic = gram * (self.rotated @ self.rotated.T)
        linear = np.sum(self.rotated * (self.vectors.T @ held_out.xy), axis=1)
        D = np.stack([self._shrink(alpha) for alpha in alphas])
        total = np.einsum("ai,ij,aj->a", D, quadratic, D) - 2 * D @ linear + held_out.yy
        return total / len(held_out.centre_y)
