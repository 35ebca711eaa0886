"""A table of all models of a set: forecasts from earlier ends against what came."""

from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attangent._core.checks import check_size
from attangent._core.display import brief, table_html
from attangent._core.errors import AttangentError
from attangent._core.plots import bars, finished, in_style, one_panel
from attangent.forecast.data.long_frames import SeriesSet
from attangent.forecast.data.panel import SHORTEST, Panel, seasonal_scale
from attangent.forecast.pipeline.panels.forecast import PANEL_MODELS, forecast_panel
from attangent.forecast.pipeline.panels.groups import in_groups
from attangent.forecast.pipeline.panels.metrics import coverage, mase, smape, weighted_quantile_loss

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

Array = NDArray[np.float64]

QUANTILES = tuple(k / 10 for k in range(1, 10))
ENDS = (0.025, 0.1, 0.9, 0.975)


@dataclass(frozen=True, repr=False)
class Evaluation:
    """`table` has one row for each model, the best first: mase, smape, wql, shares within 80 and 95 %."""

    table: pd.DataFrame
    series: int
    windows: int
    left_out: int
    """Series too short for any window."""

    def __repr__(self) -> str:
        return brief(self, winner=self.winner, series=self.series, windows=self.windows)

    def _repr_html_(self) -> str:
        rows = [
            (str(model), *row) for model, row in zip(self.table.index, self.table.to_numpy(), strict=True)
        ]
        note = f"{self.series} series, {self.windows} windows; {self.left_out} series were too short"
        return table_html(f"Best: {self.winner}", ["model", *map(str, self.table.columns)], rows, [note])

    @in_style
    def plot(self, path: str | PathLike[str] | None = None) -> "Picture":
        """Draw each model's MASE, the best coloured; also to a file, where one is named."""
        figure, axes = one_panel((6.4, 1.0 + 0.32 * len(self.table)))
        errors = dict(zip(map(str, self.table.index), self.table["mase"].tolist(), strict=True))
        bars(axes, errors, "MASE, less is better", self.winner)
        return finished(figure, path)

    @property
    def winner(self) -> str:
        return str(self.table.index[0])


def evaluate_models(
    given: SeriesSet,
    horizon: int,
    period: int,
    windows: int = 1,
    models: tuple[str, ...] = ("auto", *PANEL_MODELS),
) -> Evaluation:
    """Every model from `windows` earlier ends, a horizon apart, each fitted and chosen on what was known."""
    check_size("horizon", horizon)
    check_size("windows", windows)
    longest = max(len(one) for one in given.series)
    needed = windows * horizon + SHORTEST
    if longest < needed:
        raise AttangentError(
            f"the longest series has {longest} values, expected at least windows x horizon + {SHORTEST} = "
            f"{needed:,} to hold them out: take a shorter horizon or fewer windows"
        )
    scores: dict[str, list[dict[str, float]]] = {model: [] for model in models}
    used: set[int] = set()
    for back in (horizon * (k + 1) for k in range(windows)):
        kept = [k for k, one in enumerate(given.series) if len(one) - back >= SHORTEST]
        used |= set(kept)
        for group in in_groups([given.series[k] for k in kept]):
            part = [given.series[kept[k]] for k in group]
            for model in models:
                scores[model].append(_score(part, back, horizon, period, model))
    rows = {model: _averaged(found) for model, found in scores.items()}
    table = pd.DataFrame(rows).T.sort_values("mase", kind="stable").rename_axis("model")
    return Evaluation(table, len(used), windows, len(given.series) - len(used))


def _score(part: list[Array], back: int, horizon: int, period: int, model: str) -> dict[str, float]:
    panel = Panel.of([one[: len(one) - back] for one in part], period)
    found = forecast_panel(panel, horizon, (*ENDS, *QUANTILES), model)
    actual = np.stack([one[len(one) - back :][:horizon] for one in part])
    q = found.quantiles
    return {
        "mase": float(mase(actual, found.forecasts, seasonal_scale(panel)).mean()),
        "smape": float(smape(actual, found.forecasts).mean()),
        "wql": weighted_quantile_loss(actual, q[:, :, len(ENDS) :], np.array(QUANTILES)),
        "within 80 %": coverage(actual, q[:, :, 1], q[:, :, 2]),
        "within 95 %": coverage(actual, q[:, :, 0], q[:, :, 3]),
        "series": float(len(part)),
    }


def _averaged(scores: list[dict[str, float]]) -> dict[str, float]:
    weights = np.array([one["series"] for one in scores])
    return {
        name: float(np.average([one[name] for one in scores], weights=weights))
        for name in scores[0]
        if name != "series"
    }
