"""Ridge regression on levels and seasons: a linear map per step from few features, over all series."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from attangent.forecast.data.panel import Logarithms, Panel
from attangent.forecast.models.base import PanelModel
from attangent.forecast.models.lag_features import Mask, Windows, shortest

Array = NDArray[np.float64]

PENALTY = 0.003
"""Relative to the mean square of the features."""
FEWEST_WINDOWS = 60


class LagRidge(PanelModel):
    """(y - a) / s = w'x + b per step, a the mean of the last season and s the seasonal scale.

    x are levels over several spans, which let a forecast return to the usual level, and the values one
    season and one longer season before. It runs on the series and ("-log") on logarithms of positive ones.
    """

    families = ("lags",)

    def forecast(self, panel: Panel, horizon: int, earlier: Mapping[str, Array]) -> dict[str, Array]:
        """Return "lags" and "lags-log"; series shorter than two seasons get Theta's forecast."""
        logs = Logarithms.of(panel)
        everywhere = np.ones(len(panel), dtype=bool)
        forecasts = {}
        for ending, scaled, usable in (("", panel, everywhere), ("-log", logs.panel, logs.usable)):
            answer = earlier[f"theta{ending}"]
            values = _fitted(scaled, horizon, usable)
            if values is not None:
                values = logs.back(values, answer) if ending else values
                long_enough = (panel.lengths >= shortest(panel.period)) & usable
                answer = np.where(long_enough[:, None], values, answer)
            forecasts[f"lags{ending}"] = answer
        return forecasts


def _fitted(panel: Panel, horizon: int, usable: Mask) -> Array | None:
    """Return forecasts (N, H), or None if there are too few windows."""
    windows = Windows.of(panel, horizon, usable)
    if len(windows.y) < FEWEST_WINDOWS:
        return None
    forecasts = np.empty((len(panel), horizon))
    for h in range(horizon):
        x = _with_constant(windows.x[:, h])
        gram = x.T @ x / len(x)
        ridge = PENALTY * np.trace(gram) / len(gram)
        weights = np.linalg.solve(gram + ridge * np.eye(len(gram)), x.T @ windows.y[:, h] / len(x))
        forecasts[:, h] = _with_constant(windows.last[:, h]) @ weights
    return windows.unscaled(forecasts)


def _with_constant(features: Array) -> Array:
    """Append a constant to (n, K); an unknown season is no deviation from the level."""
    return np.column_stack((np.nan_to_num(features), np.ones(len(features))))
