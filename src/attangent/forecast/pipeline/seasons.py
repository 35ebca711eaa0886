"""The period of a set, if the calendar offers several: a day or a week, a year or none."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from attangent.forecast.data.calendar import TimeStep, period_of
from attangent.forecast.data.panel import Panel, seasonal_scale
from attangent.forecast.pipeline.combination import PanelRequest, forecast_panel

Array = NDArray[np.float64]

SAMPLE = 60
"""Number of series on which periods are compared."""
MOST_VALUES = 2_000
ENDS = 2
"""Number of earlier ends at which they are compared, a horizon apart."""
CLEARLY = 0.98
"""Another period than the calendar's first is taken below this fraction of its error."""


def choose_period(series: Sequence[Array], step: TimeStep, horizon: int) -> int:
    """Return the period whose forecasts of held-out values were best.

    Series sampled several times per day may repeat by the day or by the week, weekly series by the year or
    not at all. Other calendars have one period, and so have series too short to compare.
    """
    first = period_of(series, step)
    periods = [first, *(other for other in step.other_periods() if other != first)]
    needed = 2 * max(periods) + (ENDS + 1) * horizon
    long = [values[-MOST_VALUES:] for values in series if len(values) >= needed]
    if len(periods) == 1 or len(long) < min(len(series), SAMPLE) / 2:
        return first if len(periods) == 1 else _fitting(series, periods, horizon)
    chosen = np.unique(np.linspace(0, len(long) - 1, min(SAMPLE, len(long))).astype(int))
    sample = sorted((long[k] for k in chosen), key=len, reverse=True)
    errors = {period: _error(sample, period, step.longer_period(period), horizon) for period in periods}
    best = min(errors, key=lambda period: errors[period])
    return best if errors[best] < CLEARLY * errors[first] else first


def _fitting(series: Sequence[Array], periods: Sequence[int], horizon: int) -> int:
    """Return the first period of which most series hold two; the last if there is none."""
    median = np.median([len(values) for values in series])
    return next((period for period in periods if median >= 2 * period), periods[-1])


def _error(sample: Sequence[Array], period: int, longer: int, horizon: int) -> float:
    """Return the mean absolute error of forecasts from earlier ends, in units of single steps."""
    errors = []
    for back in (horizon * (k + 1) for k in range(ENDS)):
        panel = Panel.of([values[: len(values) - back] for values in sample], period, longer=longer)
        actual = np.stack([values[len(values) - back :][:horizon] for values in sample])
        forecasts = forecast_panel(panel, PanelRequest(horizon, period)).forecasts
        scale = seasonal_scale(Panel(panel.values, panel.lengths, 1))
        errors.append(float((np.abs(forecasts - actual).mean(axis=1) / scale).mean()))
    return float(np.mean(errors))
