"""Forecasts that learn nothing or next to nothing: the bar every other model has to clear."""

import numpy as np
from numpy.typing import NDArray

from attangent._core.checks import check_size
from attangent._core.errors import AttangentError
from attangent.forecast.data.periods import repetition
from attangent.forecast.models.forecaster import Forecaster

Array = NDArray[np.float64]


class Persistence(Forecaster):
    """The last value, again and again.

    >>> Persistence(lookback=2, horizon=3).fit(np.arange(9.0)).predict([4.0, 5.0])
    array([5., 5., 5.])
    """

    def __init__(self, lookback: int, horizon: int):
        self.lookback, self.horizon = lookback, horizon
        self._check_sizes()

    def _fit(self, train: Array, validation: Array | None) -> None:
        pass

    def _predict(self, windows: Array) -> Array:
        return np.repeat(windows[:, -1:], self.horizon, axis=1)


class SeasonalNaive(Forecaster):
    """The last whole period, again and again: y_h = x_{L - p + (h mod p)}; None finds p by autocorrelation.

    >>> SeasonalNaive(3, 4, period=3).fit([1, 2, 3, 1, 2, 3, 1]).predict([3.0, 1.0, 2.0])
    array([3., 1., 2., 3.])
    """

    def __init__(self, lookback: int, horizon: int, period: int | None = None):
        self.lookback, self.horizon, self.period = lookback, horizon, period
        self._check_sizes()
        if period is not None and check_size("period", period) > self.lookback:
            raise AttangentError(f"period is {period}, expected at most the look-back of {self.lookback}")

    def _fit(self, train: Array, validation: Array | None) -> None:
        self.period_ = self.period or find_period(train, self.lookback)

    def _predict(self, windows: Array) -> Array:
        last = windows[:, self.lookback - self.period_ :]
        return last[:, np.arange(self.horizon) % self.period_]


def find_period(series: Array, longest: int) -> int:
    """The lag of the highest peak of the autocorrelation of (T, C) up to `longest`; 1 if there is none."""
    if series.ndim != 2:
        raise AttangentError(f"series has shape {series.shape}, expected (times, channels)")
    return repetition(series, check_size("longest", longest))
