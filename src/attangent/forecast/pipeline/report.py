"""The report on a forecast: one HTML file that needs nothing else, with errors on held-back values."""

import base64
import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from attangent._core.errors import AttangentError
from attangent._core.files import write_whole
from attangent.forecast.data.panel import Array, Panel
from attangent.forecast.pipeline.evaluation import QUANTILES, coverage, smape, weighted_quantile_loss
from attangent.forecast.pipeline.hierarchy import TOTAL
from attangent.forecast.pipeline.result import NAME, SeriesForecast

if TYPE_CHECKING:
    from markupsafe import Markup


MOST_ROWS = 1000
"""Number of series in the table, the largest first."""
MOST_CHARTS = 6
"""Number of series drawn as the worst and as the largest."""
SCRIPT = """
const box = document.getElementById("search"), shown = document.getElementById("shown");
const rows = [...document.querySelectorAll("#series tbody tr")];
const filter = () => {
  const text = box.value.toLowerCase();
  let count = 0;
  for (const row of rows) {
    row.hidden = !row.textContent.toLowerCase().includes(text);
    count += !row.hidden;
  }
  shown.textContent = text ? `${count} of ${rows.length}` : "";
};
box.addEventListener("input", filter);
"""


@dataclass(frozen=True)
class HeldBack:
    """Forecasts of held-back values, by series.

    Attributes:
        ids: Series with held-back values.
        actual: (n, H).
        forecasts: (n, H).
        quantiles: (n, H, 9), tenths.
        ends: Lower and upper ends (n, H) of the interval of each level in per cent.
        scale: (n,), mean absolute seasonal step before the cutoff.
    """

    ids: list[Any]
    actual: Array
    forecasts: Array
    quantiles: Array
    ends: dict[str, tuple[Array, Array]]
    scale: Array

    @classmethod
    def of(cls, table: pd.DataFrame, result: SeriesForecast, period: int) -> "HeldBack":
        """Read a frame of `cross_validation` with one window, levels and tenths."""
        ids = table.iloc[:, 0].drop_duplicates().tolist()
        levels = [name.removeprefix(f"{NAME}-lo-") for name in table if name.startswith(f"{NAME}-lo-")]

        def wide(name: str) -> Array:
            return table[name].to_numpy(dtype=np.float64).reshape(len(ids), -1)

        actual = wide(str(table.columns[3]))
        past = dict(zip(result.series.ids, result.series.series, strict=True))
        known = [past[key][: len(past[key]) - actual.shape[1]] for key in ids]
        order = np.argsort([-len(values) for values in known], kind="stable")
        scale = np.empty(len(ids))
        scale[order] = Panel.of([known[k] for k in order], period).scale
        return cls(
            ids,
            actual,
            wide(NAME),
            np.stack([wide(f"{NAME}-q{p:g}") for p in QUANTILES], axis=2),
            {level: (wide(f"{NAME}-lo-{level}"), wide(f"{NAME}-hi-{level}")) for level in levels},
            scale,
        )

    def scaled_errors(self) -> Array:
        """(n, H): |y - f| / s, whose mean is MASE."""
        return np.abs(self.actual - self.forecasts) / self.scale[:, None]

    def by_id(self) -> dict[Any, tuple[Array, float]]:
        """Return the held-back forecasts and the MASE of each series."""
        errors = self.scaled_errors().mean(axis=1).tolist()
        return dict(zip(self.ids, zip(self.forecasts, errors, strict=True), strict=True))

    def score(self) -> dict[str, Any]:
        """Return the measures over all series, rounded for display."""
        loss = weighted_quantile_loss(self.actual, self.quantiles, np.array(QUANTILES))
        return {
            "series": len(self.ids),
            "mase": f"{self.scaled_errors().mean():.3f}",
            "smape": f"{smape(self.actual, self.forecasts).mean():.1f}",
            "wql": f"{loss:.3f}",
            "coverage": [
                (level, f"{100 * coverage(self.actual, low, high):.0f}")
                for level, (low, high) in self.ends.items()
            ],
            "by_step": bars(self.scaled_errors().mean(axis=0)),
        }


def write_report(
    result: SeriesForecast,
    path: str | Path,
    held_back: HeldBack | None = None,
    command: str = "",
) -> None:
    """Write the report.

    Args:
        result: The forecast.
        path: File to write, ending in .html.
        held_back: Forecasts of held-back values; None if no series is long enough.
        command: Command that made the forecast.
    """
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise AttangentError(f"the report would be written to {path}, expected a name ending in .html")
    write_whole(path, page(result, held_back, command).encode(errors="replace"))


def page(result: SeriesForecast, held_back: HeldBack | None, command: str) -> str:
    """Return the report as HTML; all text from the data is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    before = {} if held_back is None else held_back.by_id()
    views = [_SeriesView.of(result, k, before.get(key)) for k, key in enumerate(result.series.ids)]
    largest = sorted(views, key=lambda view: -view.size)
    scored = [view for view in views if view.error is not None]
    worst = sorted(scored, key=lambda view: -(view.error or 0.0))
    chosen = [("Largest series", largest), ("Series with the largest errors", worst)]
    if len(views) <= MOST_CHARTS:
        chosen = [("Forecasts", largest)]
    errors = sorted((error, name) for name, error in result.errors.items() if error == error)
    levels = [name.removeprefix(f"{NAME}-lo-") for name in result.frame if name.startswith(f"{NAME}-lo-")]
    environment = Environment(
        loader=PackageLoader("attangent.forecast.pipeline"), autoescape=True, undefined=StrictUndefined
    )
    return environment.get_template("report.html").render(
        count=len(views),
        steps=len(result.frame) // len(views),
        step=result.series.step.describe(),
        date=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        command=command,
        reason=_sentence(result.why[0]),
        models=", ".join(f"{name} for {n}" for name, n in Counter(result.models).most_common()),
        score=None if held_back is None else held_back.score(),
        errors=[(name, f"{error:.3f}") for error, name in errors],
        total=_totals(result),
        groups=[(title, [view.chart() for view in some[:MOST_CHARTS]]) for title, some in chosen if some],
        band=f", with its {levels[0]} % interval" if levels else "",
        rows=[view.row() for view in largest[:MOST_ROWS]],
        notes=result.notes,
        script=Markup(SCRIPT),
        script_hash=base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode(),
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _totals(result: SeriesForecast) -> dict[str, str]:
    ids = result.series.ids
    steps = len(result.frame) // len(ids)
    # With a hierarchy, totals follow the series, and the total of all is the first of them.
    count = ids.index(TOTAL) if TOTAL in ids else len(ids)
    past = sum(float(values[-steps:].sum()) for values in result.series.series[:count])
    ahead = float(result.frame[NAME].iloc[: count * steps].sum())
    change = f", {100 * (ahead / past - 1):+.1f} %" if past > 0 else ""
    return {"past": readable(past), "ahead": readable(ahead), "change": change}


@dataclass(frozen=True)
class _SeriesView:
    """One series: its past, its forecast and, if it is long enough, its held-back forecast."""

    name: str
    past: Array
    ahead: Array
    band: tuple[Array, Array] | None
    before: Array | None
    error: float | None
    model: str
    size: float

    @classmethod
    def of(cls, result: SeriesForecast, k: int, held_back: tuple[Array, float] | None) -> "_SeriesView":
        steps = len(result.frame) // len(result.series.ids)
        rows = result.frame.iloc[k * steps : (k + 1) * steps]
        ends = [name for name in rows if name.startswith((f"{NAME}-lo-", f"{NAME}-hi-"))][:2]
        band = (rows[ends[0]].to_numpy(), rows[ends[1]].to_numpy()) if ends else None
        past = result.series.series[k][-max(3 * steps, 48) :]
        before, error = held_back or (None, None)
        size = float(np.abs(past).mean())
        name = str(result.series.ids[k])
        return cls(name, past, rows[NAME].to_numpy(), band, before, error, result.models[k], size)

    def chart(self) -> dict[str, Any]:
        """Return the picture with intervals and the held-back forecast."""
        return {"name": self.name, "mase": self._mase(), "picture": self._picture(320, 110, full=True)}

    def row(self) -> dict[str, Any]:
        """Return the cells of the table."""
        return {
            "name": self.name,
            "picture": self._picture(144, 28, full=False),
            "last": readable(float(self.past[-1])),
            "mean": readable(float(self.ahead.mean())),
            "mase": self._mase(),
            "model": self.model,
        }

    def _mase(self) -> str:
        return "" if self.error is None else f"{self.error:.2f}"

    def _picture(self, width: int, height: int, full: bool) -> "Markup":
        count = len(self.past)
        lines = [("past", 0, self.past), ("ahead", count - 1, np.append(self.past[-1], self.ahead))]
        if full and self.before is not None:
            start = count - len(self.before)
            lines.insert(1, ("before", start, self.before))
        band = self.band if full else None
        return picture(lines, band, count, (width, height))


def picture(
    lines: Sequence[tuple[str, int, Array]],
    band: tuple[Array, Array] | None,
    start: int,
    size: tuple[int, int],
) -> "Markup":
    """Draw lines (class, first time, values) and a band that begins at `start`; numbers only, no text."""
    from markupsafe import Markup

    everything = np.concatenate([values for _, _, values in lines] + list(band or ()))
    low = float(everything.min())
    reach = float(everything.max()) - low or 1.0
    last = max(first + len(values) - 1 for _, first, values in lines)
    width, height = size

    def points(first: int, values: Array) -> list[str]:
        x = (first + np.arange(len(values))) / max(last, 1) * width
        y = height - 3 - (values - low) / reach * (height - 6)
        return [f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True)]

    shapes = []
    if band is not None:
        area = points(start, band[0]) + points(start, band[1])[::-1]
        shapes.append(f'<polygon class="band" points="{" ".join(area)}"/>')
    shapes += [
        f'<polyline class="{name}" points="{" ".join(points(first, values))}"/>'
        for name, first, values in lines
    ]
    box = f'<svg viewBox="0 0 {width} {height}" preserveAspectRatio="none" role="img" aria-label="chart">'
    return Markup(f"{box}{''.join(shapes)}</svg>")


def bars(values: Array) -> "Markup":
    """Draw a bar per step with the value of the first, the largest and the last."""
    from markupsafe import Markup

    width = 640 / len(values)
    top = max(float(values.max()), 1e-300)
    labelled = {0, int(values.argmax()), len(values) - 1}
    shapes = []
    for k, value in enumerate(values):
        tall = 90 * float(value) / top
        shapes.append(
            f'<rect class="bar" x="{k * width:.1f}" y="{110 - tall:.1f}" width="{0.8 * width:.1f}" '
            f'height="{tall:.1f}"><title>step {k + 1}: {value:.3f}</title></rect>'
        )
        if k in labelled:
            shapes.append(f'<text x="{k * width:.1f}" y="{106 - tall:.1f}">{value:.2f}</text>')
    axis = f'<text x="0" y="125">1</text><text x="620" y="125">{len(values)}</text>'
    box = '<svg viewBox="0 0 640 130" role="img" aria-label="MASE by step">'
    return Markup(f"{box}{''.join(shapes)}{axis}</svg>")


def readable(value: float) -> str:
    """Return a number with four significant digits, and thousands apart.

    >>> readable(1234567.8), readable(0.123456), readable(0.0)
    ('1,234,568', '0.1235', '0')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 or value == 0 else f"{value:.4g}"
