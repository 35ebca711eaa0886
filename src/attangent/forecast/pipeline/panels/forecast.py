"""One panel from values to forecasts: models are tried on the past, and errors there give quantiles."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attangent._core.checks import check_choice
from attangent.forecast.data.panel import Panel, seasonal_scale
from attangent.forecast.pipeline.panels.backtest import Members, PanelTrial, try_models
from attangent.forecast.pipeline.panels.combine import FAMILIES, Combination
from attangent.forecast.pipeline.panels.intervals import Spread

Array = NDArray[np.float64]

SIMPLE = ("persistence", "seasonal")
PANEL_MODELS = (*SIMPLE, *FAMILIES, "combination")
"""What `model` may name, besides "auto"."""
FEW = 10
CLEARLY = 0.5
"""With fewer errors than FEW a simple model must have had this part of the combination's error to replace it.

On training parts of single series 0.5 was better than 0.6 to 1 and than never: few errors tell little.
"""


@dataclass(frozen=True)
class Tried:
    """One model of a panel: its forecasts and, from each earlier origin, errors and residuals."""

    forecasts: Array
    errors: Array
    """Mean absolute scaled errors (origins, N); NaN where a series was not scored."""
    residuals: Array

    @property
    def error(self) -> float:
        """The mean over series and origins, NaN where none was scored."""
        return float(np.nanmean(self.errors)) if np.isfinite(self.errors).any() else float("nan")


@dataclass(frozen=True)
class PanelForecast:
    """Forecasts (N, H) and quantiles (N, H, Q) of series longest first, and how they were come by.

    `errors` are those of each model on the past, means over series and origins, in seasonal steps.
    """

    model: str
    why: str
    forecasts: Array
    quantiles: Array
    errors: dict[str, float]
    origins: int


def forecast_panel(
    panel: Panel, horizon: int, probabilities: Sequence[float] = (), model: str = "auto"
) -> PanelForecast:
    """Forecast every series of a panel by one model, "auto" for the one its own past speaks for."""
    check_choice("model", model, ("auto", *PANEL_MODELS))
    tried, trials = try_all(panel, horizon)
    chosen, why = _choose(tried) if model == "auto" else (model, f"{model} was asked for")
    taken = tried[chosen]
    forecasts = non_negative(panel, taken.forecasts)
    quantiles = _quantiles(panel, forecasts, taken, np.asarray(probabilities, dtype=np.float64))
    errors = {name: one.error for name, one in tried.items()}
    return PanelForecast(chosen, why, forecasts, quantiles, errors, len(trials))


def try_all(panel: Panel, horizon: int) -> tuple[dict[str, Tried], list[PanelTrial]]:
    """Every model that can be named, with its forecasts and its errors on the past."""
    members, trials = Members.of(panel, horizon), try_models(panel, horizon)
    tried = {
        name: _tried(members.forecasts[name], [t.members.forecasts[name] for t in trials], trials)
        for name in SIMPLE
    }
    for name in (*FAMILIES, "combination"):
        families = list(FAMILIES) if name == "combination" else [name]
        combined = Combination.of(families, members, trials)
        tried[name] = _tried(
            combined.apply(members), [combined.apply(trial.members) for trial in trials], trials
        )
    return tried, trials


def _tried(forecasts: Array, earlier: Sequence[Array], trials: Sequence[PanelTrial]) -> Tried:
    errors = np.full((len(trials), len(forecasts)), np.nan)
    residuals = [np.empty((0, forecasts.shape[1]))]
    for row, trial, past in zip(errors, trials, earlier, strict=True):
        row[: len(past)] = trial.errors(past)
        residuals.append(trial.residuals(past))
    return Tried(forecasts, errors, np.concatenate(residuals))


def _choose(tried: dict[str, Tried]) -> tuple[str, str]:
    """The combination, unless a simple forecast was better on the past by more than noise."""
    combined = tried["combination"]
    if not np.isfinite(combined.error):
        return "combination", "the series are too short to try models on: all were combined"
    best = min(SIMPLE, key=lambda name: tried[name].error)
    difference = (combined.errors - tried[best].errors)[np.isfinite(combined.errors)]
    if len(difference) < FEW:
        beaten = tried[best].error < CLEARLY * combined.error
    else:
        beaten = difference.mean() > 2 * difference.std() / np.sqrt(len(difference))
    compared = f"mean error {combined.error:.3g} against {tried[best].error:.3g} of {best}, in seasonal steps"
    if beaten:
        return best, f"{best} was better than the combination of all models on the past ({compared})"
    return "combination", f"all models were combined by their errors on the past ({compared})"


def non_negative(panel: Panel, values: Array) -> Array:
    """Values (N, H, ...) held to zero or more for series that never were below it."""
    low = np.nanmin(panel.values, axis=1) >= 0
    return np.where(low.reshape(-1, *[1] * (values.ndim - 1)), np.maximum(values, 0.0), values)


def _quantiles(panel: Panel, forecasts: Array, taken: Tried, probabilities: Array) -> Array:
    spread = Spread(taken.residuals, panel.period).quantiles(probabilities, panel.lengths)
    constant = np.nanmax(panel.values, axis=1) == np.nanmin(panel.values, axis=1)
    scale = np.where(constant, 0.0, seasonal_scale(panel))
    return non_negative(panel, forecasts[:, :, None] + scale[:, None, None] * spread)
