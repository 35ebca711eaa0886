"""Forecasters of windows in closed form: the last value, the last season, ridge regression."""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from attangent._core.checks import check_between, check_size
from attangent._core.errors import AttangentError
from attangent.forecast.data.calendar import repetition
from attangent.forecast.models.linear import (
    ALPHAS,
    Normalise,
    RidgePath,
    WindowSums,
    anchor_row,
    normaliser,
    window_sums,
)
from attangent.papers.p5_forecasting.windows.forecaster import Forecaster

Array = NDArray[np.float64]
Weights = Literal["shared", "channel"]


class Persistence(Forecaster):
    """Repeat the last value.

    Args:
        lookback: Number of values that a forecast sees.
        horizon: Number of values to forecast.

    Example:
        >>> Persistence(lookback=2, horizon=3).fit(np.arange(9.0)).predict([4.0, 5.0])
        array([5., 5., 5.])
    """

    def __init__(self, lookback: int, horizon: int):
        self.lookback = lookback
        self.horizon = horizon
        self._check_sizes()

    def _fit(self, train: Array, validation: Array | None) -> None:
        pass

    def _predict(self, windows: Array) -> Array:
        return np.repeat(windows[:, -1:], self.horizon, axis=1)


class SeasonalNaive(Forecaster):
    """y_h = x_{L - p + (h mod p)}: repeat the last period; p is found by autocorrelation if `period` is None.

    Args:
        lookback: Number of values that a forecast sees.
        horizon: Number of values to forecast.
        period: Number of steps per season, at most the look-back.

    Raises:
        AttangentError: If the period is longer than the look-back.

    Example:
        >>> SeasonalNaive(3, 4, period=3).fit([1, 2, 3, 1, 2, 3, 1]).predict([3.0, 1.0, 2.0])
        array([3., 1., 2., 3.])
    """

    def __init__(self, lookback: int, horizon: int, period: int | None = None):
        self.lookback = lookback
        self.horizon = horizon
        self.period = period
        self._check_sizes()
        if period is not None and check_size("period", period) > self.lookback:
            raise AttangentError(f"period is {period}, expected at most the look-back of {self.lookback}")

    def _fit(self, train: Array, validation: Array | None) -> None:
        self.period_ = self.period or find_period(train, self.lookback)

    def _predict(self, windows: Array) -> Array:
        last = windows[:, self.lookback - self.period_ :]
        return last[:, np.arange(self.horizon) % self.period_]


def find_period(series: Array, longest: int) -> int:
    """Return the lag of the highest autocorrelation peak of (T, C); 1 if there is none.

    Args:
        series: (T, C).
        longest: Longest lag.

    Example:
        >>> find_period(np.tile([0.0, 1.0, 3.0, 1.0], 20)[:, None], longest=12)
        4
    """
    if series.ndim != 2:
        raise AttangentError(f"series has shape {series.shape}, expected (times, channels)")
    return repetition(series, check_size("longest", longest))


class LinearForecaster(Forecaster):
    """y = level + W'(x - level - mean) + offset, with W by ridge regression (P5 Definition 6.2 for "last").

    Args:
        lookback: Number of values that a forecast sees.
        horizon: Number of values to forecast.
        normalise: Level that is subtracted from a window and added to its forecast: its "last" value, its
            "mean" or "none".
        weights: "shared" by all channels, or one set per "channel".
        alpha: Penalty, relative to the mean square of the inputs. None chooses it from `alphas` by the error
            on the validation series or, without one, on the last fifth of train.
        alphas: Penalties to choose from.
        intercept: Whether windows drift as they did over train; None chooses by the same error. "none"
            always has an intercept.

    Example:
        >>> model = LinearForecaster(lookback=4, horizon=2).fit(np.arange(40.0))
        >>> model.predict([7.0, 8.0, 9.0, 10.0]).round(3)
        array([11., 12.])
    """

    def __init__(
        self,
        lookback: int,
        horizon: int,
        normalise: Normalise = "last",
        weights: Weights = "shared",
        alpha: float | None = None,
        alphas: Sequence[float] = ALPHAS,
        intercept: bool | None = False,
    ):
        self.lookback = lookback
        self.horizon = horizon
        self.normalise: Normalise = normalise
        self.weights: Weights = weights
        self.alpha = alpha
        self.alphas = alphas
        self.intercept = intercept
        self._check_sizes()
        anchor_row(normalise, self.lookback)
        if weights not in get_args(Weights):
            raise AttangentError(f"weights is {weights!r}, expected one of {', '.join(get_args(Weights))}")
        for value in alphas if alpha is None else [alpha]:
            check_between("alpha", value, 0.0, np.inf if np.isfinite(value) else 1e300)

    def _fit(self, train: Array, validation: Array | None) -> None:
        self._centre = train.mean(axis=0)
        complete = train
        if self.alpha is None and validation is None:
            train, validation = self._last_fifth(train)
        groups = self._groups(train)
        self.intercept_kept_ = self._choose_intercept(groups, validation)
        self.alpha_ = self._choose_alphas(groups, validation)
        paths = [self._path(sums) for sums in (groups if complete is train else self._groups(complete))]
        self.coef_ = np.stack([path.weights(a) for path, a in zip(paths, self.alpha_, strict=True)])
        centres = [(path.moments.centre_x, path.moments.centre_y) for path in paths]
        self.intercept_ = np.stack([y - x @ W for (x, y), W in zip(centres, self.coef_, strict=True)])

    def _last_fifth(self, train: Array) -> tuple[Array, Array]:
        cut = len(train) - max(len(train) // 5, self.horizon)
        if cut < self.lookback + self.horizon:
            return train, train
        return train[:cut], train[cut - self.lookback :]

    def _groups(self, series: Array) -> list[WindowSums]:
        """Return one set of normalised sums if weights are shared, otherwise one per channel."""
        matrix = normaliser(self.normalise, self.lookback, self.horizon)
        centred = (series - self._centre).T
        sums = [window_sums(channel, self.lookback + self.horizon) for channel in centred]
        if self.weights == "shared":
            sums = [sum(sums[1:], start=sums[0])]
        return [group.mapped(matrix) for group in sums]

    def _path(self, sums: WindowSums) -> RidgePath:
        """Decompose the sums, about their mean if there is an intercept."""
        return RidgePath.of_sums(sums, self.lookback, self.normalise == "none" or self.intercept_kept_)

    def _choose_intercept(self, groups: list[WindowSums], validation: Array | None) -> bool:
        if self.intercept is not None or validation is None:
            return bool(self.intercept)
        errors = {}
        for kept in (False, True):
            self.intercept_kept_ = kept
            errors[kept] = sum(float(error.min()) for error in self._errors(groups, validation))
        return errors[True] < errors[False]

    def _choose_alphas(self, groups: list[WindowSums], validation: Array | None) -> list[float]:
        if self.alpha is not None or validation is None:
            return [float(self.alpha or 0.0)] * len(groups)
        return [float(self.alphas[int(np.argmin(error))]) for error in self._errors(groups, validation)]

    def _errors(self, groups: list[WindowSums], validation: Array) -> list[Array]:
        """Return the validation error of every penalty, per group."""
        alphas = np.asarray(self.alphas if self.alpha is None else [self.alpha], dtype=np.float64)
        held_out = self._groups(validation)
        paths = [self._path(sums) for sums in groups]
        return [path.errors(alphas, path.held_out(sums)) for path, sums in zip(paths, held_out, strict=True)]

    def _predict(self, windows: Array) -> Array:
        x = np.moveaxis(windows - self._centre, 2, 0)  # (C, n, L)
        level = x @ anchor_row(self.normalise, self.lookback)  # (C, n)
        y = (x - level[:, :, None]) @ self.coef_ + self.intercept_[:, None, :] + level[:, :, None]
        return np.moveaxis(y, 0, 2) + self._centre
