"""A picture of forecasts: the recent past, the forecast, its intervals."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from attangent._errors import AttangentError
from attangent._files import writing
from attangent.forecast.outlook.outlooks import Outlook

COLOUR = "#1f5fa8"


def plot_outlooks(frame: pd.DataFrame, outlooks: Sequence[Outlook], path: str | Path) -> None:
    """Write one panel for each target, as png, svg or pdf by the ending of `path`."""
    check_ending(path)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 2.8 * len(outlooks)), layout="constrained")
    panels = figure.subplots(len(outlooks), squeeze=False)[:, 0]
    for panel, outlook in zip(panels, outlooks, strict=True):
        past = pd.Series(frame[outlook.target]).iloc[-max(3 * len(outlook.values), 40) :]
        draw(panel, past, outlook.values, outlook.model)
        panel.set_title(outlook.target, loc="left", fontsize=10)
        panel.legend(loc="upper left", frameon=False, fontsize=8)
    with writing(path) as temporary:
        figure.savefig(temporary, dpi=120)


def check_ending(path: str | Path) -> None:
    """Refuse a picture that is none by its name."""
    if Path(path).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise AttangentError(
            f"the plot is to be written to {path}, expected a name ending in .png, .svg or .pdf"
        )


def draw(panel: Any, past: pd.Series, values: pd.DataFrame, name: str) -> None:
    """The past, a fan of intervals and the forecast, which starts from the last value of the past."""
    panel.plot(past.index, past.to_numpy(), color="#333333", lw=1.1, label="past")
    index = past.index[-1:].append(values.index)
    start = past.to_numpy()[-1:]
    levels = [column.removeprefix("lower_") for column in values.columns if column.startswith("lower_")]
    for place, level in enumerate(sorted(levels, key=float, reverse=True)):  # the widest first, and palest
        lower, upper = (np.concatenate((start, values[f"{side}_{level}"])) for side in ("lower", "upper"))
        shade = _shaded(COLOUR, 0.18 + 0.3 * place / len(levels))
        panel.fill_between(index, lower, upper, color=shade, lw=0, label=f"{level} %")
    panel.plot(index, np.concatenate((start, values["forecast"])), color=COLOUR, lw=1.6, label=name)
    panel.axvline(index[0], color="#999999", lw=0.6, ls=":")
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(axis="y", color="#eeeeee", lw=0.8)
    panel.set_axisbelow(True)
    panel.margins(x=0.01)


def _shaded(colour: str, share: float) -> tuple[float, ...]:
    """`colour` mixed with white, so that overlapping bands and the legend show the same."""
    from matplotlib.colors import to_rgb

    return tuple(share * part + 1 - share for part in to_rgb(colour))
