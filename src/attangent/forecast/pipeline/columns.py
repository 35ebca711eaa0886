"""One series per column: `forecast_frame`."""

from collections.abc import Sequence
from typing import Any

from attangent._core.checks import check_between, check_size
from attangent.forecast.pipeline.forecaster import SeriesForecaster
from attangent.forecast.pipeline.result import SeriesForecast


def forecast_frame(
    frame: Any,
    targets: Sequence[str],
    horizon: int,
    *,
    model: str = "auto",
    levels: Sequence[float] = (0.8, 0.95),
    period: int | None = None,
    date: str | None = None,
) -> SeriesForecast:
    """Forecast columns of a table with one row per time, and measure the expected errors.

    Args:
        frame: Frame with times as its index or in a column, or a CSV or Parquet file.
        targets: Columns to forecast; an empty sequence takes all numeric ones.
        horizon: Number of steps ahead.
        model: "auto", or the name of a model (see `SeriesForecaster`).
        levels: Levels of the prediction intervals, between 0 and 1.
        period: Number of steps after which the calendar repeats; by default what the times say.
        date: Column of times; by default the index, or a column that is found.

    Returns:
        The forecasts, with `expected` errors per target.

    Raises:
        AttangentError: If the table cannot be used or an argument is out of range.

    Example:
        >>> import numpy as np
        >>> import pandas as pd
        >>> days = pd.date_range("2024-01-01", periods=60, freq="D")
        >>> result = forecast_frame(pd.DataFrame({"units": np.arange(60) % 7}, index=days), ["units"], 7)
        >>> result.plain().columns.tolist()
        ['target', 'time', 'forecast', 'forecast-lo-80', 'forecast-hi-80', 'forecast-lo-95', 'forecast-hi-95']
    """
    check_size("horizon", horizon)
    for level in levels:
        check_between("level", level, 0.01, 0.999)
    forecaster = SeriesForecaster(model, period, id_col=None, time_col=date, target_col=targets)
    percent = [100 * level for level in levels]
    return forecaster.fit(frame).outlook(horizon, percent, measure=True)
