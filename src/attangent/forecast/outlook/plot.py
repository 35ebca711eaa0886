"""A picture of forecasts: the recent past, the forecast, its intervals."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from attangent._errors import AttangentError
from attangent._files import writing
from attangent.forecast.outlook.targets import Outlook


def plot_outlooks(frame: pd.DataFrame, outlooks: Sequence[Outlook], path: str | Path) -> None:
    """Write one panel for each target, as png, svg or pdf by the ending of `path`."""
    ending = Path(path).suffix.lower()
    if ending not in (".png", ".svg", ".pdf"):
        raise AttangentError(
            f"the plot is to be written to {path}, expected a name ending in .png, .svg or .pdf"
        )
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 2.8 * len(outlooks)), layout="constrained")
    panels = figure.subplots(len(outlooks), squeeze=False)[:, 0]
    for panel, outlook in zip(panels, outlooks, strict=True):
        _draw(panel, frame, outlook)
    with writing(path) as temporary:
        figure.savefig(temporary, dpi=120)


def _draw(panel: Any, frame: pd.DataFrame, outlook: Outlook) -> None:
    values = outlook.values
    past = frame[outlook.target].iloc[-3 * len(values) :]
    panel.plot(past.index, past.to_numpy(), color="#444444", lw=1, label="past")
    levels = [name.removeprefix("lower_") for name in values.columns if name.startswith("lower_")]
    for place, level in enumerate(sorted(levels, key=float, reverse=True)):  # the widest first, and palest
        shade = 0.2 + 0.4 * place / len(levels)
        lower, upper = values[f"lower_{level}"], values[f"upper_{level}"]
        panel.fill_between(
            values.index, lower, upper, color=_shaded("#1f77b4", shade), lw=0, label=f"{level} %"
        )
    panel.plot(values.index, values["forecast"], color="#1f77b4", lw=1.5, label=outlook.model)
    panel.set_title(outlook.target)
    panel.legend(loc="upper left", frameon=False, fontsize=8)


def _shaded(colour: str, share: float) -> tuple[float, ...]:
    """`colour` mixed with white, so that overlapping bands and the legend show the same."""
    from matplotlib.colors import to_rgb

    return tuple(share * part + 1 - share for part in to_rgb(colour))
