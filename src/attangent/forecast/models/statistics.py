"""Sums over all windows of a series without the windows: what a linear forecaster is fitted and scored with.

Index letters of this room: t windows, i and j positions in a window, c channels. L is the look-back, H the
horizon, P = L + H a window with its future.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy import fft
from numpy.typing import NDArray
from scipy.fft import next_fast_len

from attangent._core.errors import AttangentError

Array = NDArray[np.float64]
Normalise = Literal["last", "mean", "none"]


@dataclass(frozen=True)
class WindowSums:
    """count, sum_t w_t and sum_t w_t w_t' over the windows w_t in R^P of one or more series.

    Sums of disjoint sets of windows add up, so a series can be read in pieces and channels can be pooled.
    """

    count: int
    first: Array
    second: Array

    def __add__(self, other: "WindowSums") -> "WindowSums":
        return WindowSums(self.count + other.count, self.first + other.first, self.second + other.second)

    def mapped(self, matrix: Array) -> "WindowSums":
        """The sums of matrix @ w_t."""
        return WindowSums(self.count, matrix @ self.first, matrix @ self.second @ matrix.T)


def window_sums(series: Array, width: int) -> WindowSums:
    """The sums over every window of `width` consecutive values of a vector, in O(T log T + width^2).

    Neighbouring entries differ by the two windows' ends only:
    M[i+1, j+1] = M[i, j] + x[i+n] x[j+n] - x[i] x[j], with n windows; the first row is a correlation.
    """
    count = len(series) - width + 1
    if count < 1:
        raise AttangentError(f"a series of {len(series)} values holds no window of {width}")
    M = np.empty((width, width))
    M[0] = _correlation(series[:count], series)[:width]
    head, tail = series[: width - 1], series[count : count + width - 1]
    for i in range(width - 1):
        M[i + 1, i + 1 :] = M[i, i:-1] + tail[i] * tail[i:] - head[i] * head[i:]
    M = np.triu(M)
    M += np.triu(M, 1).T
    running = np.concatenate(([0.0], np.cumsum(series)))
    return WindowSums(count, running[count:] - running[:width], M)


def _correlation(short: Array, long: Array) -> Array:
    """sum_t short[t] long[t + j] for j = 0, 1, ...: Fourier transforms in pieces of bounded length."""
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
    """The weights (L,) that give the level taken off a window: its last value, its mean, or zero."""
    if normalise not in get_args(Normalise):
        raise AttangentError(f"normalise is {normalise!r}, expected one of {', '.join(get_args(Normalise))}")
    row = np.zeros(lookback)
    if normalise == "last":
        row[-1] = 1.0
    elif normalise == "mean":
        row[:] = 1.0 / lookback
    return row


def normaliser(normalise: Normalise, lookback: int, horizon: int) -> Array:
    """The matrix (P, P) that takes the level off a window and its future."""
    matrix = np.eye(lookback + horizon)
    matrix[:, :lookback] -= anchor_row(normalise, lookback)
    return matrix
