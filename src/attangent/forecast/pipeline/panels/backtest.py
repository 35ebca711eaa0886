"""What every model would have forecast from earlier origins, and what came."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attangent.forecast.data.panel import Panel, seasonal_scale
from attangent.forecast.models.panels.local import last_season, last_value, smoothing_and_theta
from attangent.forecast.models.panels.pooled import pooled_ridges

Array = NDArray[np.float64]

MOST_ORIGINS = 3
FEWEST_VALUES = 5
"""A series that has fewer values before an origin is not scored there."""


@dataclass(frozen=True)
class Members:
    """Forecasts (N, H) of every single model, by its name."""

    forecasts: dict[str, Array]

    @classmethod
    def of(cls, panel: Panel, horizon: int) -> "Members":
        found = {"persistence": last_value(panel, horizon), "seasonal": last_season(panel, horizon)}
        found |= smoothing_and_theta(panel, horizon)
        return cls(found | pooled_ridges(panel, horizon, found))


@dataclass(frozen=True)
class PanelTrial:
    """Forecasts of the first series of a panel from `back` steps before its end, with what came.

    `actual` (n, min(H, back)); `scored` says which series had enough values; errors are in units of `scale`,
    the mean absolute seasonal step before the origin.
    """

    back: int
    members: Members
    actual: Array
    scale: Array
    scored: NDArray[np.bool_]

    def errors(self, forecasts: Array) -> Array:
        """Mean absolute scaled errors (n,) of forecasts (n, H); NaN where a series is not scored."""
        steps = self.actual.shape[1]
        errors = np.abs(forecasts[:, :steps] - self.actual).mean(axis=1) / self.scale
        return np.where(self.scored, errors, np.nan)

    def residuals(self, forecasts: Array) -> Array:
        """Signed scaled errors (scored, H), NaN for steps that nothing is known of."""
        steps = self.actual.shape[1]
        found = np.full((int(self.scored.sum()), forecasts.shape[1]), np.nan)
        found[:, :steps] = ((self.actual - forecasts[:, :steps]) / self.scale[:, None])[self.scored]
        return found


def origins(panel: Panel, horizon: int, most: int = MOST_ORIGINS) -> list[int]:
    """How many steps before the end to forecast from: a horizon apart, less where series are short.

    As many as leave the median series two seasons and ten values, at least one if it leaves five values.
    """
    median = int(np.median(panel.lengths))
    spacing = horizon if median >= 2 * horizon else max(1, median // 4)
    room = (median - max(2 * panel.period, 10)) // spacing
    count = int(np.clip(room, 1, most))
    return [k * spacing for k in range(1, count + 1) if median - k * spacing >= FEWEST_VALUES]


def try_models(panel: Panel, horizon: int, most: int = MOST_ORIGINS) -> list[PanelTrial]:
    """A trial from each origin, the latest first; empty where the series are too short for any."""
    return [_try(panel, horizon, back) for back in origins(panel, horizon, most)]


def _try(panel: Panel, horizon: int, back: int) -> PanelTrial:
    earlier = panel.before(back)
    start = panel.values.shape[1] - back
    actual = panel.values[: len(earlier), start : start + min(back, horizon)]
    scored = earlier.lengths >= FEWEST_VALUES
    return PanelTrial(back, Members.of(earlier, horizon), actual, seasonal_scale(earlier), scored)
