"""Forecasters of windows: the interface (fit, predict, forecast, score) and those fitted in closed form."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from attangent._core.checks import check_between, check_choice, check_size
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

Array = NDArray[np.float64]

PIECE_BYTES = 64 * 2**20


class Forecaster(BaseEstimator):
    """Map the last `lookback` values of each channel to the next `horizon`.

    A series is (T,) or (T, C); windows have the shape of the series with T = lookback and any axes before
    that. Parameters are those of the constructor (scikit-learn's `get_params`, `clone`); fitted attributes
    end in an underscore.

    Attributes:
        lookback: Number of values that a forecast sees.
        horizon: Number of values to forecast.
    """

    def __init__(self, lookback: int, horizon: int):
        self.lookback = check_size("lookback", lookback)
        self.horizon = check_size("horizon", horizon)

    @abstractmethod
    def _fit(self, train: Array, validation: Array | None) -> None:
        """Learn from (T, C) series that hold at least one window each."""

    @abstractmethod
    def _predict(self, windows: Array) -> Array:
        """(n, lookback, C) -> (n, horizon, C)."""

    def fit(self, train: Any, validation: Any = None) -> Self:
        """Fit to a series.

        Args:
            train: (T,) or (T, C).
            validation: Later series that starts with its look-back.

        Returns:
            The forecaster.

        Raises:
            AttangentError: If a series is not finite or too short.
        """
        values = as_series("train", train)
        check_length("train", values, self.lookback, self.horizon)
        held_out = None if validation is None else as_series("validation", validation)
        if held_out is not None:
            check_length("validation", held_out, self.lookback, self.horizon)
            if held_out.shape[1] != values.shape[1]:
                raise AttangentError(
                    f"validation has {held_out.shape[1]} channels, expected {values.shape[1]} as in train"
                )
        self._fit(values, held_out)
        self.channels_ = values.shape[1]
        self.flat_ = np.ndim(train) == 1
        return self

    def predict(self, windows: Any) -> Any:
        """Return the next `horizon` values after each window.

        Args:
            windows: (..., lookback) if the series was a vector, otherwise (..., lookback, C).

        Returns:
            (..., horizon) or (..., horizon, C).

        Raises:
            AttangentError: If the forecaster is not fitted or the shape is wrong.
        """
        self._check_fitted()
        values = as_values("windows", windows)
        shape = (self.lookback,) if self.flat_ else (self.lookback, self.channels_)
        if values.shape[-len(shape) :] != shape:
            raise AttangentError(
                f"windows have shape {values.shape}, expected (..., {str(shape)[1:-1].strip(',')})"
            )
        leading = values.shape[: values.ndim - len(shape)]
        answer = self._predict(values.reshape(-1, self.lookback, self.channels_))
        return answer.reshape(*leading, self.horizon, *shape[1:])

    def score(self, series: Any) -> float:
        """R^2 = 1 - squared error / variance of the targets, over every window of a series.

        Args:
            series: (T,) or (T, C).

        Returns:
            At most 1.
        """
        self._check_fitted()
        values = as_series("series", series)
        check_length("series", values, self.lookback, self.horizon)
        squares = spread = total = count = 0.0
        for inputs, targets in every_window(values, self.lookback, self.horizon):
            squares += np.square(self._predict(inputs) - targets).sum()
            spread += np.square(targets).sum()
            total += targets.sum()
            count += targets.size
        spread -= total**2 / count
        return float(1 - squares / spread) if spread > 0 else float(squares == 0)

    def _check_fitted(self) -> None:
        if not hasattr(self, "channels_"):
            raise AttangentError(f"{type(self).__name__} is not fitted; call fit(train) first")


def as_values(name: str, data: Any) -> Array:
    """Convert anything array-like to finite float64."""
    try:
        values = np.asarray(data.detach() if hasattr(data, "detach") else data, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise AttangentError(f"{name} cannot be read as numbers: {error}") from None
    if not np.isfinite(values).all():
        bad = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        raise AttangentError(f"{name} is not finite at index {bad}: fill or drop missing values first")
    return values


def as_series(name: str, data: Any) -> Array:
    """Convert a vector or matrix to a series (T, C)."""
    values = as_values(name, data)
    if values.ndim not in (1, 2) or values.size == 0:
        raise AttangentError(f"{name} has shape {values.shape}, expected (times,) or (times, channels)")
    return values[:, None] if values.ndim == 1 else values


def check_length(name: str, series: Array, lookback: int, horizon: int) -> None:
    """Raise if a series holds no window."""
    needed = lookback + horizon
    if len(series) < needed:
        raise AttangentError(
            f"{name} has {len(series)} times, expected at least look-back + horizon = {lookback} + {horizon} "
            f"= {needed}; use a longer series or a shorter look-back or horizon"
        )


def window_count(length: int, lookback: int, horizon: int) -> int:
    """Return the number of windows with their futures in `length` values."""
    return max(0, length - lookback - horizon + 1)


def every_window(
    series: Array, lookback: int, horizon: int, stride: int = 1
) -> Iterator[tuple[Array, Array]]:
    """Yield windows (n, lookback, C) with the (n, horizon, C) that follow, in pieces of bounded memory."""
    check_length("series", series, lookback, horizon)
    views = sliding_window_view(series, lookback + horizon, axis=0)[::stride]  # (n, C, P)
    piece = max(1, PIECE_BYTES // (8 * (lookback + horizon) * series.shape[1]))
    for start in range(0, len(views), piece):
        windows = views[start : start + piece].transpose(0, 2, 1)
        yield windows[:, :lookback], windows[:, lookback:]


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
        super().__init__(lookback, horizon)
        self.period = period
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
        super().__init__(lookback, horizon)
        self.normalise: Normalise = normalise
        self.weights: Weights = weights
        self.alpha = alpha
        self.alphas = alphas
        self.intercept = intercept
        anchor_row(normalise, self.lookback)
        check_choice("weights", weights, get_args(Weights))
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
