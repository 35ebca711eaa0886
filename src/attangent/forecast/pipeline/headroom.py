"""How much a non-linear model could still take off a linear one's error, with its uncertainty."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attangent.forecast.data.windows import every_window
from attangent.forecast.models.forecaster import Forecaster

Array = NDArray[np.float64]

MOST_WINDOWS = 6000
LAGS = 12
RESAMPLES = 400


@dataclass(frozen=True)
class Headroom:
    """`share` = 1 - (error of linear + trees) / (error of linear) one step ahead on held-out windows.

    `interval` holds 95 % of the shares of a bootstrap over blocks of time. Negative: noise was fitted.
    """

    share: float
    interval: tuple[float, float]
    linear_mse: float


def nonlinear_headroom(linear: Forecaster, train: Array, held_out: Array, seed: int = 0) -> Headroom:
    """Boosted trees learn what `linear`, of horizon 1, leaves over, from its answer and the last lags."""
    linear.fit(train)
    x, left = _leftover(linear, train)
    x_new, left_new = _leftover(linear, held_out)
    residual = left_new - _trees(x, left, x_new, seed)
    share, interval = _share(np.square(left_new), np.square(residual), seed)
    return Headroom(share, interval, float(np.mean(np.square(left_new))))


def _leftover(linear: Forecaster, series: Array) -> tuple[Array, Array]:
    """Inputs of the trees and errors of the linear model, thinned evenly, channel after channel."""
    stride = max(1, -(-len(series) * series.shape[1] // MOST_WINDOWS))
    inputs, errors = [], []
    for windows, targets in every_window(series, linear.lookback, 1, stride):
        answer = linear.predict(windows)
        inputs.append(np.concatenate((windows[:, -LAGS:], answer), axis=1))
        errors.append((targets - answer)[:, 0])
    x = np.concatenate(inputs).transpose(2, 0, 1)
    return x.reshape(-1, x.shape[2]), np.concatenate(errors).T.reshape(-1)


def _trees(x: Array, y: Array, x_new: Array, seed: int) -> Array:
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(
        max_iter=200, learning_rate=0.08, max_leaf_nodes=15, random_state=seed
    )
    return np.asarray(model.fit(x, y).predict(x_new), dtype=np.float64)


def _share(before: Array, after: Array, seed: int) -> tuple[float, tuple[float, float]]:
    """1 - sum after / sum before, and its 95 % interval from a bootstrap of about fifty blocks."""
    scale = before.sum()
    if scale <= 1e-12 * len(before):
        return 0.0, (0.0, 0.0)
    blocks = min(50, len(before))
    sums = np.array(
        [
            (part.sum(), other.sum())
            for part, other in zip(np.array_split(before, blocks), np.array_split(after, blocks), strict=True)
        ]
    )
    drawn = sums[np.random.default_rng(seed).integers(0, blocks, (RESAMPLES, blocks))].sum(axis=1)
    shares = 1 - drawn[:, 1] / np.maximum(drawn[:, 0], 1e-300)
    low, high = np.quantile(shares, (0.025, 0.975))
    return float(1 - after.sum() / scale), (float(low), float(high))
