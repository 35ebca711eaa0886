"""Forecasters of windows: fit, predict, forecast and score on arrays and frames, as scikit-learn does."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from attangent._core.checks import check_size
from attangent._core.errors import AttangentError

Array = NDArray[np.float64]

PIECE_BYTES = 64 * 2**20


class Forecaster(BaseEstimator):
    """Maps the last `lookback` values of each channel to the next `horizon`.

    A series is (T,) or (T, C), an array or a frame; windows have the shape of the series with T = lookback
    and any axes before that. Parameters are those of the constructor (scikit-learn's `get_params`, `clone`);
    what was learned ends in an underscore.
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
        """Learn from a series; `validation` is a later series with its own look-back at its head."""
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
        """The next `horizon` values after each window; a frame of `lookback` rows gives a frame."""
        self._check_fitted()
        if isinstance(windows, pd.DataFrame | pd.Series):
            return self.forecast(windows, exactly=True)
        values = as_values("windows", windows)
        shape = (self.lookback,) if self.flat_ else (self.lookback, self.channels_)
        if values.shape[-len(shape) :] != shape:
            raise AttangentError(
                f"windows have shape {values.shape}, expected (..., {str(shape)[1:-1].strip(',')})"
            )
        leading = values.shape[: values.ndim - len(shape)]
        answer = self._predict(values.reshape(-1, self.lookback, self.channels_))
        return answer.reshape(*leading, self.horizon, *shape[1:])

    def forecast(self, series: Any, *, exactly: bool = False) -> Any:
        """The `horizon` values after the end of a series; a frame gives a frame with its index continued."""
        self._check_fitted()
        if not isinstance(series, pd.DataFrame | pd.Series):
            series = as_values("series", series)
        length = len(series) if series.ndim else 0
        if length < self.lookback or (exactly and length != self.lookback):
            raise AttangentError(f"the series has {length} times, expected the look-back of {self.lookback}")
        if not isinstance(series, pd.DataFrame | pd.Series):
            return self.predict(series[-self.lookback :])
        values = self.predict(series.to_numpy()[-self.lookback :])
        index = continued_index(series.index, self.horizon)
        if isinstance(series, pd.Series):
            return pd.Series(values, index=index, name=series.name)
        return pd.DataFrame(values, index=index, columns=series.columns)

    def score(self, series: Any) -> float:
        """R^2 over every window of a series: 1 - squared error / variance of the targets about their mean."""
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
            raise AttangentError(f"{type(self).__name__} is not fitted: call fit(train) first")


def as_values(name: str, data: Any) -> Array:
    """Finite numbers as float64, from anything array-like."""
    try:
        values = np.asarray(data.detach() if hasattr(data, "detach") else data, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise AttangentError(f"{name} cannot be read as numbers: {error}") from None
    if not np.isfinite(values).all():
        bad = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        raise AttangentError(f"{name} is not finite at index {bad}: fill or drop missing values first")
    return values


def as_series(name: str, data: Any) -> Array:
    """A series as (T, C), from a vector, a matrix, a pandas Series or a frame of numbers."""
    values = as_values(name, data)
    if values.ndim not in (1, 2) or values.size == 0:
        raise AttangentError(f"{name} has shape {values.shape}, expected (times,) or (times, channels)")
    return values[:, None] if values.ndim == 1 else values


def check_length(name: str, series: Array, lookback: int, horizon: int) -> None:
    needed = lookback + horizon
    if len(series) < needed:
        raise AttangentError(
            f"{name} has {len(series)} times, expected at least look-back + horizon = {lookback} + {horizon} "
            f"= {needed}: give a longer series or a shorter look-back or horizon"
        )


def continued_index(index: pd.Index, steps: int) -> pd.Index:
    """The next `steps` labels after a regular index; numbered from its length where it has no frequency."""
    if isinstance(index, pd.DatetimeIndex) and len(index) > 1:
        inferred = pd.infer_freq(index[-50:]) if len(index) > 2 else None
        frequency = index.freq or inferred or index[-1] - index[-2]
        return pd.date_range(index[-1], periods=steps + 1, freq=frequency)[1:]
    return pd.RangeIndex(len(index), len(index) + steps)


def window_count(length: int, lookback: int, horizon: int) -> int:
    return max(0, length - lookback - horizon + 1)


def every_window(
    series: Array, lookback: int, horizon: int, stride: int = 1
) -> Iterator[tuple[Array, Array]]:
    """Pieces of (n, lookback, C) windows with the (n, horizon, C) that follow, over all of (T, C)."""
    check_length("series", series, lookback, horizon)
    views = sliding_window_view(series, lookback + horizon, axis=0)[::stride]  # (n, C, P)
    piece = max(1, PIECE_BYTES // (8 * (lookback + horizon) * series.shape[1]))
    for start in range(0, len(views), piece):
        part = views[start : start + piece].transpose(0, 2, 1)
        yield part[:, :lookback], part[:, lookback:]
