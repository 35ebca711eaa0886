"""Pictures of a set's forecasts as small multiples, and a report in one HTML file."""

import base64
import io
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from attangent._core.errors import AttangentError
from attangent._core.files import write_whole
from attangent._core.plots import check_picture, finished, in_style, panels
from attangent.forecast.data.long_frames import SeriesSet
from attangent.forecast.pipeline.panels.forecaster import SetForecast
from attangent.forecast.pipeline.plot import draw, set_times

MOST = 12
"""So many series are drawn, evenly taken from all."""
ACROSS = 3
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; }
td, th { padding: .25rem .8rem; text-align: right; border-bottom: 1px solid #ddd; }
td:first-child, th:first-child { text-align: left; }
.best { font-weight: 600; }
img { max-width: 100%; }
"""


def plot_set(given: SeriesSet, found: SetForecast, path: str | Path) -> None:
    """Write small multiples of up to twelve series, as png, svg or pdf by the ending of `path`."""
    check_picture(path)
    finished(figure_of(given, found), path)


def write_report(given: SeriesSet, found: SetForecast, path: str | Path) -> None:
    """Write a page that needs nothing else: errors of the models on the past, some of the series, notes."""
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise AttangentError(f"the report is to be written to {path}, expected a name ending in .html")
    picture = io.BytesIO()
    figure_of(given, found).savefig(picture, format="png", dpi=110)
    write_whole(path, _page(given, found, base64.b64encode(picture.getvalue()).decode()))


@in_style
def figure_of(given: SeriesSet, found: SetForecast) -> Any:
    """Up to twelve series, evenly taken from all, with their forecasts."""
    shown = np.unique(np.linspace(0, len(given.ids) - 1, min(MOST, len(given.ids))).astype(int))
    figure, axes = panels(len(shown), ACROSS, (4.2, 2.5))
    for panel, k in zip(axes, shown, strict=True):
        past, values = _past_and_values(given, found, int(k))
        draw(panel, past, values, found.models[k])
        set_times(panel, past.index, most=6)
        panel.set_title(str(given.ids[k]))
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=len(labels))
    return figure


def _past_and_values(given: SeriesSet, found: SetForecast, k: int) -> tuple[pd.Series, pd.DataFrame]:
    steps = len(found.frame) // len(given.ids)
    values = found.plain().iloc[k * steps : (k + 1) * steps].set_index(given.columns.time)
    past = given.series[k][-max(4 * steps, 36) :]
    times = given.step.apart(given.last[k], np.arange(1 - len(past), 1))
    return pd.Series(past, index=times), values


def _page(given: SeriesSet, found: SetForecast, picture: str) -> str:
    best, used = min(found.errors, key=lambda name: found.errors[name]), set(found.models)
    rows = "".join(
        f"<tr{' class=best' if name == best else ''}>"
        f"<td>{escape(name)}{', used' if name in used else ''}</td><td>{error:.4g}</td></tr>"
        for name, error in sorted(found.errors.items(), key=lambda item: item[1])
    )
    notes = "".join(f"<li>{escape(note)}</li>" for note in found.notes) or "<li>none</li>"
    counts = pd.Series(found.models).value_counts()
    taken = ", ".join(f"{escape(str(name))} for {count}" for name, count in counts.items())
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Forecast of {len(given.ids)} series</title>
<style>{STYLE}</style></head><body>
<h1>Forecast of {len(given.ids)} series</h1>
<p>{len(found.frame) // len(given.ids)} steps of {escape(given.step.describe())}. Model: {taken}.
{escape(". ".join(why[:1].upper() + why[1:] for why in found.why[:3]))}.</p>
<h2>Errors on the past</h2>
<p>Mean absolute errors of forecasts from earlier ends, in units of each series' mean seasonal step.</p>
<table><tr><th>model</th><th>error</th></tr>{rows}</table>
<h2>Some of the series</h2>
<img alt="Past, forecast and intervals of some series" src="data:image/png;base64,{picture}">
<h2>Notes on the data</h2><ul>{notes}</ul>
</body></html>
"""
