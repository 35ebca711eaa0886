"""Seasonal indices of many series, shrunk towards none by how well the series tell them from noise."""

import numpy as np
from numpy.typing import NDArray

from attangent.forecast.data.panel import Panel

Array = NDArray[np.float64]


def seasonal_indices(panel: Panel) -> Array:
    """(N, m): how far column t stands from its level where t % m is this; a row's indices sum to zero.

    The level is a centred moving average over a season. Indices s are multiplied by
    max(0, 1 - (m - 1) v / |s|^2), James and Stein's factor, with v the variance of one index; series shorter
    than two seasons have none.
    """
    m, values = panel.period, panel.values
    if m == 1 or panel.lengths[0] < 2 * m:
        return np.zeros((len(panel), m))
    apart = values - _moving_average(values, m)
    phases = np.arange(values.shape[1]) % m
    indices = np.stack([_mean(apart[:, phases == phase]) for phase in range(m)], axis=1)
    indices -= indices.mean(axis=1, keepdims=True)
    rest = apart - indices[:, phases]
    count = np.isfinite(rest).sum(axis=1)
    variance = np.nansum(np.square(rest), axis=1) / np.maximum(count - m, 1)
    noise = (m - 1) * variance * m / np.maximum(count, m)
    size = np.square(indices).sum(axis=1)
    factor = np.where(size > noise, 1 - noise / np.where(size > 0, size, 1.0), 0.0)
    return np.where(panel.lengths[:, None] >= 2 * m, factor[:, None] * indices, 0.0)


def _moving_average(values: Array, width: int) -> Array:
    """Centred, over one season; of an even season the two ends count half. NaN where it does not fit."""
    weights = np.ones(width + 1 - width % 2)
    if width % 2 == 0:
        weights[[0, -1]] = 0.5
    half = len(weights) // 2
    padded = np.pad(values, ((0, 0), (half, half)), constant_values=np.nan)
    times = values.shape[1]
    total = np.zeros_like(values)
    for k, weight in enumerate(weights):
        total += weight * padded[:, k : k + times]
    return total / width


def _mean(part: Array) -> Array:
    known = np.isfinite(part)
    return np.where(known, part, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
