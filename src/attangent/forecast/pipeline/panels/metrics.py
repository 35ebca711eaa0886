"""Errors of forecasts (N, H) of many series, as competitions count them."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def mase(actual: Array, forecast: Array, scale: Array) -> Array:
    """(N,) mean_h |y - f| / s, s the mean absolute seasonal step of each series before the forecast."""
    return np.abs(actual - forecast).mean(axis=1) / scale


def smape(actual: Array, forecast: Array) -> Array:
    """(N,) mean_h 200 |y - f| / (|y| + |f|), in per cent; 0 where both are 0."""
    size = np.abs(actual) + np.abs(forecast)
    return (200 * np.abs(actual - forecast) / np.where(size > 0, size, 1.0)).mean(axis=1)


def weighted_quantile_loss(actual: Array, quantiles: Array, probabilities: Array) -> float:
    """2 sum_{n,h} rho_p(y - q_p) / sum |y|, mean over p; (N, H, Q) quantiles. An estimate of CRPS / mean |y|.

    >>> weighted_quantile_loss(np.array([[2.0]]), np.array([[[1.0]]]), np.array([0.5]))
    0.5
    """
    error = actual[:, :, None] - quantiles
    loss = np.maximum(probabilities * error, (probabilities - 1) * error)
    size = np.abs(actual).sum()
    return float(2 * loss.sum(axis=(0, 1)).mean() / (size if size > 0 else 1.0))


def coverage(actual: Array, lower: Array, upper: Array) -> float:
    """The share of values within their interval."""
    return float(((lower <= actual) & (actual <= upper)).mean())
