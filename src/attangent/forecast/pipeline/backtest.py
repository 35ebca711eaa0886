"""Forecasts of every model from earlier ends of the series, and the values that followed."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from attangent._core.plugins import installed_parts
from attangent.forecast.data.panel import Array, Mask, Panel
from attangent.forecast.models import GROUP, MODELS
from attangent.forecast.models.base import PanelModel

Members = dict[str, Array]
"""Forecasts (N, H) by the name of the member."""

MOST_ORIGINS = 3
FEWEST_VALUES = 5
"""A series with fewer values before an origin is not scored there."""
LONG = 400
FEW_SERIES = 14
"""Panels of fewer series run the models for long series too if most are LONG or longer."""


def all_models() -> list[PanelModel]:
    """Return the forecasters of the registry, then those that installed packages add."""
    return [*MODELS, *installed_parts(GROUP, PanelModel)]


@dataclass(frozen=True)
class Trial:
    """Forecasts of the first n series of a panel from an earlier end, with the values that followed.

    Errors are in units of `scale`, the mean absolute seasonal step before the origin.

    Attributes:
        members: Forecasts of every member from the origin.
        actual: (n, steps), steps at most the horizon.
        scale: (n,).
        scored: (n,), whether a series had enough values before the origin.
    """

    members: Members
    actual: Array
    scale: Array
    scored: Mask

    def errors(self, forecasts: Array) -> Array:
        """Return the mean absolute scaled errors (n,) of forecasts (n, H); NaN for series not scored."""
        steps = self.actual.shape[1]
        errors = np.abs(forecasts[:, :steps] - self.actual).mean(axis=1) / self.scale
        return np.where(self.scored, errors, np.nan)

    def residuals(self, forecasts: Array) -> Array:
        """Return signed scaled errors (scored, H), NaN for steps without a value."""
        steps = self.actual.shape[1]
        residuals = np.full((int(self.scored.sum()), forecasts.shape[1]), np.nan)
        residuals[:, :steps] = ((self.actual - forecasts[:, :steps]) / self.scale[:, None])[self.scored]
        return residuals


@dataclass(frozen=True)
class Backtest:
    """All models on a panel, run once per end: the last value, or any number of steps before it.

    Attributes:
        panel: The series.
        horizon: Number of steps ahead.
        models: Models to run, in the order of the registry.
    """

    panel: Panel
    horizon: int
    models: Sequence[PanelModel]
    _runs: dict[int, Members] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, panel: Panel, horizon: int, named: Sequence[str] = ()) -> "Backtest":
        """Choose the models for a panel; those that a user named are always among them."""
        long = len(panel) < FEW_SERIES and np.median(panel.lengths) >= LONG
        demand = bool(panel.intermittent.any())
        models = [
            model
            for model in all_models()
            if ((long or not model.long_only) and (demand or not model.zeros_only))
            or set(named) & set(model.families)
        ]
        return cls(panel, horizon, models)

    def members(self, back: int) -> Members:
        """Forecast from `back` steps before the end."""
        if back not in self._runs:
            panel = self.panel.before(back)
            members: Members = panel.repeated(self.horizon)
            for model in self.models:
                members |= model.forecast(panel, self.horizon, members)
            self._runs[back] = members
        return self._runs[back]

    def trials(self, back: int) -> list[Trial]:
        """Score forecasts from origins before the end `back`, the latest first; empty for short series."""
        known = self.panel.before(back)
        trials = []
        for origin in origins(known, self.horizon):
            earlier = known.before(origin)
            start = known.values.shape[1] - origin
            actual = known.values[: len(earlier), start : start + min(origin, self.horizon)]
            scored = earlier.lengths >= FEWEST_VALUES
            trials.append(Trial(self.members(back + origin), actual, earlier.scale, scored))
        return trials


def origins(panel: Panel, horizon: int) -> list[int]:
    """Return how many steps before the end to forecast from: a horizon apart, fewer if series are short.

    There are as many as leave the median series two seasons and ten values, at least one if it retains five
    values.
    """
    median = int(np.median(panel.lengths))
    spacing = horizon if median >= 2 * horizon else max(1, median // 4)
    room = (median - max(2 * panel.period, 10)) // spacing
    count = int(np.clip(room, 1, MOST_ORIGINS))
    return [k * spacing for k in range(1, count + 1) if median - k * spacing >= FEWEST_VALUES]
