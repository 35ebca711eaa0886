"""Checks at the border of this room: series, windows and sizes, from arrays and frames."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attangent._core.errors import AttangentError
from attangent.forecast.data.calendar import frequency_of

Array = NDArray[np.float64]


def as_values(name: str, data: Any) -> Array:
    """Finite numbers as float64, from anything array-like."""
    try:
        values = np.asarray(data.detach() if hasattr(data, "detach") else data, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise AttangentError(f"{name} cannot be read as numbers: {error}") from None
    if not np.isfinite(values).all():
        bad = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        raise AttangentError(
            f"{name} is not finite at index {bad}: fill or drop missing values first, "
            "for example with attangent.forecast.read_frame"
        )
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
        frequency = index.freq or (len(index) > 2 and frequency_of(index[-50:])) or index[-1] - index[-2]
        return pd.date_range(index[-1], periods=steps + 1, freq=frequency)[1:]
    return pd.RangeIndex(len(index), len(index) + steps)
