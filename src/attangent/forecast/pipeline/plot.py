"""Pictures of forecasts: recent past, forecast, intervals."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from attangent._core.plots import COLOURS, FAINT, PAST, check_picture, finished, in_style, panels

if TYPE_CHECKING:
    from attangent.forecast.pipeline.result import SeriesForecast

COLOUR = COLOURS[0]
MOST = 12
"""Number of series that are drawn, evenly spaced over all."""


def write_plot(result: "SeriesForecast", path: str | Path) -> None:
    """Write a picture of up to twelve series, as png, svg or pdf by the ending of `path`."""
    check_picture(path)
    finished(draw_forecast(result), path)


@in_style
def draw_forecast(result: "SeriesForecast") -> Any:
    """Draw up to twelve series, one panel each: a column of wide panels if there are at most three."""
    count = len(result.series.ids)
    shown = np.unique(np.linspace(0, count - 1, min(MOST, count)).astype(int))
    wide = len(shown) <= 3
    figure, axes = panels(len(shown), 1 if wide else 3, (9.0, 2.8) if wide else (4.2, 2.5))
    for panel, k in zip(axes, shown, strict=True):
        past, values = _past_and_values(result, int(k))
        _draw(panel, past, values, result.models[k])
        _set_times(panel, past.index, most=8 if wide else 6)
        panel.set_title(str(result.series.ids[k]))
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=len(labels))
    return figure


def _past_and_values(result: "SeriesForecast", k: int) -> tuple[pd.Series, pd.DataFrame]:
    series = result.series
    steps = len(result.frame) // len(series.ids)
    plain = result.plain().iloc[k * steps : (k + 1) * steps]
    past = series.series[k][-max(4 * steps, 36) :]
    times = series.step.apart(series.last[k], np.arange(1 - len(past), 1))
    return pd.Series(past, index=times), plain.set_index(plain.columns[1])


def _draw(panel: Any, past: pd.Series, values: pd.DataFrame, name: str) -> None:
    """Draw past, intervals and the forecast, which starts from the last value of the past."""
    panel.plot(past.index, past.to_numpy(), color=PAST, lw=1.1, label="past")
    index = past.index[-1:].append(values.index)
    start = past.to_numpy()[-1:]
    levels = [column.removeprefix("forecast-lo-") for column in values.columns if "-lo-" in column]
    for rank, level in enumerate(sorted(levels, key=float, reverse=True)):  # the widest first, and palest
        lower, upper = (np.concatenate((start, values[f"forecast-{side}-{level}"])) for side in ("lo", "hi"))
        shade = _shaded(COLOUR, 0.18 + 0.3 * rank / len(levels))
        panel.fill_between(index, lower, upper, color=shade, lw=0, label=f"{level} %")
    panel.plot(index, np.concatenate((start, values["forecast"])), color=COLOUR, lw=1.6, label=name)
    panel.axvline(index[0], color=FAINT, lw=0.8, ls=":")
    panel.margins(x=0.01)


def _set_times(panel: Any, index: pd.Index, most: int) -> None:
    """Write dates as short as they can be told apart."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    if isinstance(index, pd.DatetimeIndex):
        locator = AutoDateLocator(minticks=3, maxticks=most)
        panel.xaxis.set_major_locator(locator)
        panel.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def _shaded(colour: str, share: float) -> tuple[float, ...]:
    """Mix a colour with white, so that overlapping bands and the legend look the same."""
    from matplotlib.colors import to_rgb

    return tuple(share * channel + 1 - share for channel in to_rgb(colour))
