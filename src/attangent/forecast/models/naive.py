"""Naive forecasts: the baselines that every other model has to beat."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from attangent.forecast.data.panel import Panel
from attangent.forecast.models.base import PanelModel

Array = NDArray[np.float64]


class Naive(PanelModel):
    """Repeat the last value ("persistence") or the last season ("seasonal")."""

    families = ("persistence", "seasonal")

    def forecast(self, panel: Panel, horizon: int, earlier: Mapping[str, Array]) -> dict[str, Array]:
        """Return y_T, and y_{T - m + (h mod m)}; series shorter than a season repeat their last value."""
        last = np.repeat(panel.values[:, -1:], horizon, axis=1)
        m = min(panel.period, panel.values.shape[1])
        season = panel.values[:, panel.values.shape[1] - m :][:, np.arange(horizon) % m]
        return {
            "persistence": last,
            "seasonal": np.where((panel.lengths >= panel.period)[:, None], season, last),
        }
