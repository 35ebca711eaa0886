"""From a panel to forecasts with intervals: models are combined, or one is chosen, by their past errors."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from attangent._core.checks import check_choice
from attangent.forecast.data.panel import Panel, seasonal_scale
from attangent.forecast.models import MODELS
from attangent.forecast.pipeline.backtest import FEWEST_VALUES, LONG, Backtest, Members, Trial
from attangent.forecast.pipeline.intervals import error_quantiles

Array = NDArray[np.float64]

SIMPLE = ("persistence", "seasonal")
"""Baselines: never combined, chosen alone if they beat the combination."""
FAMILIES = tuple(name for model in MODELS for name in model.families if name not in SIMPLE)
"""Families that are combined, with equal weights before any error is known."""
MODEL_NAMES = ("auto", *SIMPLE, *FAMILIES, "combination")
SHARPNESS = 4.0
"""A model with twice the error gets 2^-4 of the weight."""
PANEL_COUNTS_FOR = 3.0
"""The errors of the panel count as much as this many origins of a series itself."""
FEW_ERRORS = 10
CLEARLY = 0.5
"""With fewer than FEW_ERRORS errors, a baseline replaces the combination below this fraction of its error.

On training parts of single series 0.5 was better than 0.6 to 1 and than never: few errors say little.
"""
HELD_OUT_ENDS = 3
"""Number of earlier ends at which the expected error of long series is measured; one for others."""


@dataclass(frozen=True)
class PanelRequest:
    """What to forecast.

    Attributes:
        horizon: Number of steps ahead.
        period: Number of steps after which the calendar repeats.
        probabilities: Probabilities of the quantiles to return.
        model: Family, "combination", or "auto".
        measure: Whether to measure the expected error of every series on held-out values.
    """

    horizon: int
    period: int
    probabilities: tuple[float, ...] = ()
    model: str = "auto"
    measure: bool = False


@dataclass(frozen=True)
class PanelForecast:
    """Forecasts (N, H) and quantiles (N, H, Q) of the series of a panel.

    Attributes:
        model: Name of the model that was used.
        why: Reason for it.
        forecasts: (N, H).
        quantiles: (N, H, Q).
        errors: Mean error of each model on the past, in seasonal steps.
        expected: Held-out errors per series, if the request asks for them; empty for short series.
    """

    model: str
    why: str
    forecasts: Array
    quantiles: Array
    errors: dict[str, float]
    expected: list[dict[str, float]] = field(default_factory=list)


@dataclass(frozen=True)
class Candidate:
    """Forecasts of one model, its errors (origins, N) and its residuals (R, H) from earlier origins."""

    forecasts: Array
    errors: Array
    residuals: Array

    @property
    def error(self) -> float:
        """Mean over series and origins; NaN if none was scored."""
        return float(np.nanmean(self.errors)) if np.isfinite(self.errors).any() else float("nan")


def forecast_panel(panel: Panel, request: PanelRequest, backtest: Backtest | None = None) -> PanelForecast:
    """Forecast every series of a panel.

    Args:
        panel: Series, the longest first.
        request: What to forecast.
        backtest: Backtest of the panel, to share between requests that differ in the model only.

    Returns:
        The forecasts of the requested model or, for "auto", of the one that the past speaks for.
    """
    check_choice("model", request.model, MODEL_NAMES)
    backtest = backtest or Backtest.of(panel, request.horizon, [request.model])
    result = _forecast(backtest, 0, request)
    return _measured(result, backtest, request) if request.measure else result


def candidates(backtest: Backtest, back: int = 0) -> dict[str, Candidate]:
    """Return every model by name, from `back` steps before the end."""
    members = backtest.members(back)
    trials = backtest.trials(back)
    results = {
        name: _candidate(members[name], [trial.members[name] for trial in trials], trials) for name in SIMPLE
    }
    present = [name for name in FAMILIES if any(family(member) == name for member in members)]
    for name in (*present, "combination"):
        combination = Combination.of(present if name == "combination" else [name], members, trials)
        past = [combination.apply(trial.members) for trial in trials]
        results[name] = _candidate(combination.apply(members), past, trials)
    return results


def _forecast(backtest: Backtest, back: int, request: PanelRequest) -> PanelForecast:
    panel = backtest.panel.before(back)
    results = candidates(backtest, back)
    model, why = _choose(results) if request.model == "auto" else (request.model, f"{request.model} was named")
    chosen = results[model]
    forecasts = panel.non_negative(chosen.forecasts)
    probabilities = np.asarray(request.probabilities, dtype=np.float64)
    spread = error_quantiles(chosen.residuals, panel.period, probabilities, panel.lengths)
    constant = np.nanmax(panel.values, axis=1) == np.nanmin(panel.values, axis=1)
    scale = np.where(constant, 0.0, seasonal_scale(panel))
    quantiles = panel.non_negative(forecasts[:, :, None] + scale[:, None, None] * spread)
    errors = {name: candidate.error for name, candidate in results.items()}
    return PanelForecast(model, why, forecasts, quantiles, errors)


def _candidate(forecasts: Array, past: Sequence[Array], trials: Sequence[Trial]) -> Candidate:
    errors = np.full((len(trials), len(forecasts)), np.nan)
    residuals = [np.empty((0, forecasts.shape[1]))]
    for row, trial, values in zip(errors, trials, past, strict=True):
        row[: len(values)] = trial.errors(values)
        residuals.append(trial.residuals(values))
    return Candidate(forecasts, errors, np.concatenate(residuals))


def _choose(results: dict[str, Candidate]) -> tuple[str, str]:
    """Return the combination, unless a baseline was better on the past by more than noise."""
    combined = results["combination"]
    if not np.isfinite(combined.error):
        return "combination", "the series are too short to compare models on, so all were combined"
    best = min(SIMPLE, key=lambda name: results[name].error)
    difference = (combined.errors - results[best].errors)[np.isfinite(combined.errors)]
    if len(difference) < FEW_ERRORS:
        beaten = results[best].error < CLEARLY * combined.error
    else:
        beaten = difference.mean() > 2 * difference.std() / np.sqrt(len(difference))
    errors = f"mean error {combined.error:.3g} against {results[best].error:.3g} of {best}, in seasonal steps"
    if beaten:
        return best, f"{best} was better than the combination of all models on the past ({errors})"
    return "combination", f"all models were combined by their errors on the past ({errors})"


def family(member: str) -> str:
    """Return the family of a member: its name up to the first dash."""
    return member.split("-")[0]


@dataclass(frozen=True)
class Combination:
    """Weights (N, M) of the members of some families, for series longest first; rows sum to 1."""

    names: list[str]
    weights: Array

    @classmethod
    def of(cls, families: Sequence[str], members: Members, trials: Sequence[Trial]) -> "Combination":
        """w ~ prior (E / min E)^-4, E the mean relative error over origins of the series and of the panel."""
        names = [name for name in members if family(name) in families]
        count = len(members[names[0]])
        # Families share the prior equally, so a family does not gain weight by having many members.
        prior = np.array([1 / sum(family(other) == family(name) for other in names) for name in names])
        error = _relative_errors(names, trials, count)
        weights = prior * (error / error.min(axis=1, keepdims=True)) ** -SHARPNESS
        return cls(names, weights / weights.sum(axis=1, keepdims=True))

    def apply(self, members: Members) -> Array:
        """Combine the forecasts (n, H) of the first n series."""
        stacked = np.stack([members[name] for name in self.names], axis=2)  # (n, H, M)
        return np.einsum("nhm,nm->nh", stacked, self.weights[: len(stacked)])


def _relative_errors(names: Sequence[str], trials: Sequence[Trial], count: int) -> Array:
    """(N, M) errors relative to the mean over members: those of the panel and of the series, averaged."""
    total = np.zeros((count, len(names)))
    scored = np.zeros((count, 1))
    for trial in trials:
        errors = np.stack([trial.errors(trial.members[name]) for name in names], axis=1)
        known = np.isfinite(errors).all(axis=1, keepdims=True)
        total[: len(errors)] += np.where(known, _relative(np.where(known, errors, 1.0)), 0.0)
        scored[: len(errors)] += known
    if not scored.any():
        return np.ones((count, len(names)))
    # One to three origins say little about a single series, so its errors shrink towards the panel's.
    of_panel = total.sum(axis=0) / scored.sum()
    return (total + PANEL_COUNTS_FOR * of_panel) / (scored + PANEL_COUNTS_FOR)


def _relative(errors: Array) -> Array:
    """Divide each row by its mean; a row without errors becomes ones, and no member counts as perfect."""
    mean = errors.mean(axis=1, keepdims=True)
    return np.where(mean > 0, np.maximum(errors / np.where(mean > 0, mean, 1.0), 0.05), 1.0)


def _measured(result: PanelForecast, backtest: Backtest, request: PanelRequest) -> PanelForecast:
    """Add the errors of the chosen model at earlier ends: nothing after an end took part in its forecast."""
    panel = backtest.panel
    median = int(np.median(panel.lengths))
    back = min(request.horizon, median - FEWEST_VALUES)
    count = HELD_OUT_ENDS if median >= max(LONG, (HELD_OUT_ENDS + 1) * back) else 1
    ends = []
    for end in range(back, count * back + 1, back) if back > 0 else ():
        known = panel.before(end)
        earlier = _forecast(backtest, end, replace(request, model=result.model))
        start = panel.values.shape[1] - end
        actual = panel.values[: len(known), start : start + back]
        ends.append((actual, earlier.forecasts[:, :back], known.values[:, -1:], earlier.quantiles[:, :back]))
    expected = [
        _expected([tuple(values[row] for values in end) for end in ends if row < len(end[0])], request)
        for row in range(len(panel))
    ]
    return replace(result, expected=expected)


def _expected(ends: Sequence[tuple[Array, ...]], request: PanelRequest) -> dict[str, float]:
    """Summarise the held-out forecasts of one series; empty without any."""
    if not ends:
        return {}
    actual, forecasts, last, quantiles = (np.stack(values) for values in zip(*ends, strict=True))
    error = np.abs(forecasts - actual)
    summary = {
        "mae": float(error.mean()),
        "rmse": float(np.sqrt(np.square(error).mean())),
        "mae of persistence": float(np.abs(actual - last).mean()),
        "mae at the first step": float(error[:, 0].mean()),
        "mae at the last step": float(error[:, -1].mean()),
        "held out": float(actual.size),
    }
    for k, p in enumerate(request.probabilities):
        upper = [j for j, other in enumerate(request.probabilities) if p < 0.5 and abs(other - 1 + p) < 1e-9]
        for j in upper[:1]:
            inside = (quantiles[:, :, k] <= actual) & (actual <= quantiles[:, :, j])
            summary[f"coverage at {1 - 2 * p:.6g}"] = float(inside.mean())
    return summary
