"""A picture of forecasts: the recent past, the forecast, its intervals."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from attangent._core.errors import AttangentError
from attangent._core.plots import COLOURS, FAINT, PAST, check_picture, finished, in_style, panels
from attangent.forecast.pipeline.outlooks import Outlook

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOUR = COLOURS[0]


@in_style
def plot_outlooks(frame: pd.DataFrame, outlooks: Sequence[Outlook], path: str | Path) -> None:
    """Write one panel for each target, as png, svg or pdf by the ending of `path`."""
    check_picture(path)
    figure, axes = panels(len(outlooks), across=1, size=(9.0, 2.8))
    for panel, outlook in zip(axes, outlooks, strict=True):
        _draw_outlook(panel, outlook, pd.Series(frame[outlook.target]))
    finished(figure, path)


@in_style
def plot_outlook(
    outlook: Outlook, past: pd.Series | None = None, path: str | PathLike[str] | None = None
) -> "Figure":
    """One forecast, behind its past where that is given."""
    if past is not None and not isinstance(past, pd.Series):
        raise AttangentError(f"past is {type(past).__name__}, expected a pandas Series")
    if past is not None and len(past) < 1:
        raise AttangentError("past has no value, expected those that the forecast follows")
    figure, (panel,) = panels(1, size=(8.0, 3.2))
    _draw_outlook(panel, outlook, past)
    return finished(figure, path)


def _draw_outlook(panel: Any, outlook: Outlook, past: pd.Series | None) -> None:
    shown = None if past is None else past.iloc[-max(3 * len(outlook.values), 40) :]
    draw(panel, shown, outlook.values, outlook.model)
    set_times(panel, outlook.values.index)
    panel.set_title(outlook.target)
    panel.legend(loc="upper left")


def draw(panel: Any, past: pd.Series | None, values: pd.DataFrame, name: str) -> None:
    """The past, a fan of intervals and the forecast, which starts from the last value of the past."""
    index, start = values.index, np.empty(0)
    if past is not None:
        panel.plot(past.index, past.to_numpy(), color=PAST, lw=1.1, label="past")
        index, start = past.index[-1:].append(values.index), past.to_numpy()[-1:]
    levels = [column.removeprefix("lower_") for column in values.columns if column.startswith("lower_")]
    for place, level in enumerate(sorted(levels, key=float, reverse=True)):  # the widest first, and palest
        lower, upper = (np.concatenate((start, values[f"{side}_{level}"])) for side in ("lower", "upper"))
        shade = _shaded(COLOUR, 0.18 + 0.3 * place / len(levels))
        panel.fill_between(index, lower, upper, color=shade, lw=0, label=f"{level} %")
    panel.plot(index, np.concatenate((start, values["forecast"])), color=COLOUR, lw=1.6, label=name)
    if past is not None:
        panel.axvline(index[0], color=FAINT, lw=0.8, ls=":")
    panel.margins(x=0.01)


def set_times(panel: Any, index: pd.Index, most: int = 8) -> None:
    """Dates written as short as they can be told apart."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    if isinstance(index, pd.DatetimeIndex):
        locator = AutoDateLocator(minticks=3, maxticks=most)
        panel.xaxis.set_major_locator(locator)
        panel.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def _shaded(colour: str, share: float) -> tuple[float, ...]:
    """`colour` mixed with white, so that overlapping bands and the legend show the same."""
    from matplotlib.colors import to_rgb

    return tuple(share * part + 1 - share for part in to_rgb(colour))
