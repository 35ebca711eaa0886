"""Forecasters of windows: fit, predict, forecast and score on arrays and frames, as scikit-learn does."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from attangent._core.checks import check_size
from attangent._core.errors import AttangentError

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

    lookback: int
    horizon: int

    def _check_sizes(self) -> None:
        self.lookback = check_size("lookback", self.lookback)
        self.horizon = check_size("horizon", self.horizon)

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
