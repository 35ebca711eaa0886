"""Outlooks of columns that are too short for windows: they are forecast together, as a panel."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attangent._core.errors import AttangentError
from attangent.forecast.data.inputs import continued_index
from attangent.forecast.data.panel import SHORTEST, Panel
from attangent.forecast.pipeline.outlooks import Outlook
from attangent.forecast.pipeline.panels.backtest import FEWEST_VALUES
from attangent.forecast.pipeline.panels.forecast import PanelForecast, forecast_panel

Array = NDArray[np.float64]


def panel_outlooks(
    frame: pd.DataFrame,
    targets: Sequence[str],
    horizon: int,
    period: int,
    model: str,
    levels: Sequence[float],
) -> list[Outlook]:
    """An outlook for each target. The expected error is that of the same forecast from a horizon earlier."""
    if len(frame) < SHORTEST:
        raise AttangentError(
            f"the series has {len(frame)} times, expected at least {SHORTEST}: there is nothing to learn from"
        )
    series = [frame[target].to_numpy(dtype=np.float64) for target in targets]
    panel = Panel.of(series, period)
    found = forecast_panel(panel, horizon, _probabilities(levels), model)
    index = continued_index(frame.index, horizon)
    expected = _expected(panel, horizon, found.model, levels)
    return [
        Outlook(str(target), found.model, found.why, _table(found, k, levels, index), expected[k])
        for k, target in enumerate(targets)
    ]


def _probabilities(levels: Sequence[float]) -> list[float]:
    return [p for level in levels for p in (0.5 - level / 2, 0.5 + level / 2)]


def _table(found: PanelForecast, row: int, levels: Sequence[float], index: pd.Index) -> pd.DataFrame:
    columns = {"forecast": found.forecasts[row]}
    for k, level in enumerate(levels):
        columns[f"lower_{100 * level:g}"] = found.quantiles[row, :, 2 * k]
        columns[f"upper_{100 * level:g}"] = found.quantiles[row, :, 2 * k + 1]
    return pd.DataFrame(columns, index=index)


def _expected(panel: Panel, horizon: int, model: str, levels: Sequence[float]) -> list[dict[str, float]]:
    """Errors from the last origin that leaves five values; empty where there is none."""
    length = int(panel.lengths[0])
    back = min(horizon, length - FEWEST_VALUES)
    if back < 1:
        return [{} for _ in range(len(panel))]
    earlier = panel.before(back)
    found = forecast_panel(earlier, horizon, _probabilities(levels), model)
    actual = panel.values[:, length - back :]
    return [_measured(found, k, actual[k], float(earlier.values[k, -1]), levels) for k in range(len(panel))]


def _measured(
    found: PanelForecast, row: int, actual: Array, last: float, levels: Sequence[float]
) -> dict[str, float]:
    error = np.abs(found.forecasts[row, : len(actual)] - actual)
    measured = {
        "mae": float(error.mean()),
        "rmse": float(np.sqrt(np.square(error).mean())),
        "mae of persistence": float(np.abs(actual - last).mean()),
        "mae at the first step": float(error[0]),
        "mae at the last step": float(error[-1]),
        "held out": float(len(actual)),
    }
    for k, level in enumerate(levels):
        low, high = found.quantiles[row, : len(actual), 2 * k : 2 * k + 2].T
        measured[f"coverage at {level:g}"] = float(((low <= actual) & (actual <= high)).mean())
    return measured
