"""Fitted values: one-step forecasts over the past, with intervals and flags for values outside them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from attangent.forecast.data.panel import Array, Panel
from attangent.forecast.data.series import SeriesSet
from attangent.forecast.models.smoothing import fitted_values
from attangent.forecast.pipeline.groups import in_groups
from attangent.forecast.pipeline.result import NAME, long_frame

MAD_TO_DEVIATION = 1.4826
"""Standard deviation of a normal variable over its median absolute deviation."""


def fitted_frame(series: SeriesSet, period: int, levels: Sequence[float]) -> pd.DataFrame:
    """Return the past of every series with fitted values, intervals and `anomaly`.

    `anomaly` is True for values outside the widest interval. Columns are those of a forecast, and the values.
    """
    fitted: list[Array] = [np.empty(0)] * len(series.ids)
    for group in in_groups(series.series):
        panel = Panel.of([series.series[k] for k in group], period)
        for k, row, length in zip(group, fitted_values(panel), panel.lengths, strict=True):
            fitted[k] = row[len(row) - length :]
    errors = [values - past for values, past in zip(series.series, fitted, strict=True)]
    sizes = [_size(error, values) for error, values in zip(errors, series.series, strict=True)]
    relative = np.abs(np.concatenate([error / size for error, size in zip(errors, sizes, strict=True)]))
    width = np.concatenate([np.full(len(e), size) for e, size in zip(errors, sizes, strict=True)])
    middle = np.concatenate(fitted)
    value = "y" if series.columns.id is None else series.columns.targets[0]
    table: dict[str, Any] = {value: np.concatenate(series.series), NAME: middle}
    for level in sorted(levels):
        reach = width * half_width(relative, level / 100)
        table[f"{NAME}-lo-{level:g}"] = middle - reach
        table[f"{NAME}-hi-{level:g}"] = middle + reach
    table["anomaly"] = relative > half_width(relative, max(levels) / 100)
    return long_frame(series, series.past(), table)


def half_width(relative: Array, level: float) -> float:
    """Return the half width of intervals, in units of a series' usual error.

    It is the larger of a normal variable's and of the errors' own quantile, so at most 1 - level of all
    values lie outside.
    """
    from scipy.special import ndtri

    return max(float(ndtri(0.5 + level / 2)), float(np.quantile(relative, level)))


def _size(error: Array, values: Array) -> float:
    """Return the usual error: of the median, so that a few outliers do not widen the intervals."""
    size = MAD_TO_DEVIATION * float(np.median(np.abs(error)))
    floor = 1e-6 * float(np.abs(values).max()) or 1.0
    return max(size, floor)
