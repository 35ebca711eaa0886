"""From a panel to forecasts with intervals: models are combined, or one is chosen, by their past errors."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from attangent.forecast.data.panel import Array, Mask, Panel
from attangent.forecast.pipeline.backtest import FEWEST_VALUES, LONG, Backtest, Trial, all_models
from attangent.forecast.pipeline.demand import demand_forecasts
from attangent.forecast.pipeline.intervals import Residuals, error_quantiles
from attangent.forecast.pipeline.short_series import SHORT, short_forecasts

SIMPLE = ("persistence", "seasonal")
"""Baselines: never combined, chosen alone if they beat the combination."""
DEMAND = "intermittent"
"""Family for series with many zeros: never combined with the others, used for those series alone."""
SHARPNESS = 8.0
"""A model with twice the error gets 2^-8 of the weight."""
FAVOURED = {"folded": 1.5}
"""Weight of a family before any error is known, if it is not 1: it errs least like the others."""
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
    """A request to forecast the series of a panel.

    Attributes:
        horizon: Number of steps ahead.
        period: Number of steps after which the calendar repeats.
        probabilities: Probabilities of the quantiles to return.
        model: Family, "combination", or "auto".
        measure: Whether to measure the expected error of every series on held-out values.
        longer: Number of steps of a longer season, 0 if there is none.
    """

    horizon: int
    period: int
    probabilities: tuple[float, ...] = ()
    model: str = "auto"
    measure: bool = False
    longer: int = 0


@dataclass(frozen=True)
class PanelForecast:
    """Forecasts (N, H) and quantiles (N, H, Q) of the series of a panel.

    Attributes:
        model: Name of the model that was used for most series.
        why: Reason for it.
        forecasts: (N, H).
        quantiles: (N, H, Q).
        errors: MASE of each model on the past.
        expected: Held-out errors per series, if the request asks for them; empty for short series.
        models: Model of each series.
        added: (N, H, K) contribution of each covariate to the forecasts; empty without any.
    """

    model: str
    why: str
    forecasts: Array
    quantiles: Array
    errors: dict[str, float]
    expected: list[dict[str, float]]
    models: list[str]
    added: Array


@dataclass(frozen=True)
class Candidate:
    """One model, with its forecasts from earlier origins scored.

    Attributes:
        forecasts: (N, H).
        spread: (N, H), scaled disagreement of the members.
        errors: Mean absolute scaled errors (origins, N); NaN for series not scored.
        residuals: Errors from earlier origins, for the intervals.
        error: Mean of the errors; NaN if no series was scored.
    """

    forecasts: Array
    spread: Array
    errors: Array
    residuals: Residuals
    error: float


def model_names() -> tuple[str, ...]:
    """Return every name that a user may pass as `model`."""
    families = [name for model in all_models() for name in model.families]
    return ("auto", *SIMPLE, *families, "combination")


def forecast_panel(panel: Panel, request: PanelRequest, backtest: Backtest | None = None) -> PanelForecast:
    """Forecast every series of a panel.

    Args:
        panel: Series, the longest first.
        request: Horizon, model and quantiles.
        backtest: Backtest of the panel, to share between requests that differ in the model only.

    Returns:
        The forecasts of the requested model or, for "auto", of the one that the past speaks for.
    """
    backtest = backtest or Backtest.of(panel, request.horizon, [request.model])
    result = forecast_from(backtest, 0, request)
    return _measured(result, backtest, request) if request.measure else result


def candidates(backtest: Backtest, back: int = 0) -> dict[str, Candidate]:
    """Return every model by name, from `back` steps before the end."""
    members = backtest.members(back)
    trials = backtest.trials(back)
    everywhere = [members, *(trial.members for trial in trials)]
    scale = backtest.panel.before(back).scale
    results = {}
    for name in SIMPLE:
        runs = [(run[name], np.zeros_like(run[name])) for run in everywhere]
        results[name] = _candidate(runs, trials, scale)
    by_family: dict[str, list[str]] = {}
    for name in members:
        if name not in SIMPLE:
            by_family.setdefault(name.partition("-")[0], []).append(name)
    choices = {name: [group] for name, group in by_family.items()}
    choices["combination"] = [group for name, group in by_family.items() if name != DEMAND]
    for name, groups in choices.items():
        names = [member for group in groups for member in group]
        # The members of a family share its prior, so it does not gain weight by having many of them.
        shares = [FAVOURED.get(group[0].partition("-")[0], 1.0) / len(group) for group in groups]
        prior = np.repeat(shares, [len(group) for group in groups])
        weights = combination_weights(names, prior, trials, len(members[names[0]]))
        runs = [_mean_and_spread([run[member] for member in names], weights) for run in everywhere]
        results[name] = _candidate(runs, trials, scale)
    return results


def _mean_and_spread(members: Sequence[Array], weights: Array) -> tuple[Array, Array]:
    """Return the weighted mean (n, H) of members and their standard deviation about it."""
    weights = weights[: len(members[0])]
    mean = np.zeros_like(members[0])
    for member, weight in zip(members, weights.T, strict=True):
        mean += weight[:, None] * member
    variance = np.zeros_like(mean)
    for member, weight in zip(members, weights.T, strict=True):
        variance += weight[:, None] * np.square(member - mean)
    return mean, np.sqrt(variance)


def forecast_from(backtest: Backtest, back: int, request: PanelRequest) -> PanelForecast:
    """Forecast from `back` steps before the end; nothing after it takes part."""
    panel = backtest.panel.before(back)
    results = candidates(backtest, back)
    demand = panel.intermittent if DEMAND in results else np.zeros(len(panel), dtype=bool)
    if request.model == "auto":
        model, why = _choose(results, ~demand)
    else:
        model, why = request.model, f"{request.model} was named"
    chosen = results[model]
    forecasts = chosen.forecasts.copy()
    probabilities = np.asarray(request.probabilities, dtype=np.float64)
    spread = error_quantiles(chosen.residuals, chosen.spread, panel.period, probabilities, panel.lengths)
    constant = np.nanmax(panel.values, axis=1) == np.nanmin(panel.values, axis=1)
    forecasts[constant] = panel.values[constant, -1:]
    scale = np.where(constant, 0.0, panel.scale)
    quantiles = panel.non_negative(forecasts)[:, :, None] + scale[:, None, None] * spread
    models = np.full(len(panel), model, dtype=object)
    if model == "combination" and panel.lengths[-1] < SHORT:
        for rows, middle, ends in short_forecasts(panel, request.horizon, probabilities):
            forecasts[rows] = middle
            quantiles[rows] = ends
    if demand.any() and request.model in ("auto", DEMAND):
        middle, ends = demand_forecasts(backtest, back, demand, probabilities)
        forecasts[demand] = middle[demand, None]
        quantiles[demand] = ends[demand, None]
        models[demand] = DEMAND
    return PanelForecast(
        model,
        why,
        panel.non_negative(forecasts),
        panel.non_negative(quantiles),
        {name: candidate.error for name, candidate in results.items()},
        expected=[],
        models=models.tolist(),
        added=np.empty((0, 0, 0)),
    )


def _candidate(runs: Sequence[tuple[Array, Array]], trials: Sequence[Trial], scale: Array) -> Candidate:
    """Score forecasts of one model with their spread: first the wanted ones, then those of the trials."""
    latest, spread = runs[0]
    errors = np.full((len(trials), len(latest)), np.nan)
    residuals = [np.empty((0, latest.shape[1]))]
    spreads = [np.empty((0, latest.shape[1]))]
    for row, trial, (values, apart) in zip(errors, trials, runs[1:], strict=True):
        row[: len(values)] = trial.errors(values)
        residuals.append(trial.residuals(values))
        spreads.append((apart / trial.scale[:, None])[trial.scored])
    rows = np.concatenate([np.empty(0, dtype=np.int64), *(np.flatnonzero(t.scored) for t in trials)])
    mean = float(np.nanmean(errors)) if np.isfinite(errors).any() else float("nan")
    past = Residuals(np.concatenate(residuals), np.concatenate(spreads), rows)
    return Candidate(latest, spread / scale[:, None], errors, past, mean)


def _choose(results: dict[str, Candidate], regular: Mask) -> tuple[str, str]:
    """Return the combination, unless a baseline was better on the past by more than noise.

    Series with many zeros do not count: their absolute errors reward forecasts of zero.
    """
    if not regular.any():
        return DEMAND, "the series are mostly zero, so their mean demand and its quantiles were forecast"
    combined = results["combination"]
    if not np.isfinite(combined.error):
        return "combination", "the series are too short to compare models on, so all were combined"
    best = SIMPLE[int(np.argmin([results[name].error for name in SIMPLE]))]
    difference = (combined.errors - results[best].errors)[np.isfinite(combined.errors) & regular]
    if len(difference) < FEW_ERRORS:
        beaten = results[best].error < CLEARLY * combined.error
    else:
        beaten = difference.mean() > 2 * difference.std() / np.sqrt(len(difference))
    if beaten:
        return best, f"{best} was better than the combination of all models on the past"
    return "combination", "all models were combined by their errors on the past"


def combination_weights(names: Sequence[str], prior: Array, trials: Sequence[Trial], count: int) -> Array:
    """w ~ prior (E / min E)^-8 (N, M), E the mean relative error over origins of the series and the panel.

    Args:
        names: Members to combine.
        prior: (M,), weights before any error is known.
        trials: Forecasts of the members from earlier origins.
        count: Number of series N.
    """
    total = np.zeros((count, len(names)))
    scored = np.zeros((count, 1))
    for trial in trials:
        errors = np.stack([trial.errors(trial.members[name]) for name in names], axis=1)
        known = np.isfinite(errors).all(axis=1, keepdims=True)
        errors = np.where(known, errors, 1.0)
        # Relative to the mean over members, so that hard origins do not dominate; the bound keeps a member
        # that was right by chance from taking all the weight.
        mean = errors.mean(axis=1, keepdims=True)
        relative = np.where(mean > 0, np.maximum(errors / np.where(mean > 0, mean, 1.0), 0.05), 1.0)
        total[: len(errors)] += np.where(known, relative, 0.0)
        scored[: len(errors)] += known
    error = np.ones((count, len(names)))
    if scored.any():
        # One to three origins say little about a single series, so its errors shrink towards the panel's.
        of_panel = total.sum(axis=0) / scored.sum()
        error = (total + PANEL_COUNTS_FOR * of_panel) / (scored + PANEL_COUNTS_FOR)
    weights = prior * (error / error.min(axis=1, keepdims=True)) ** -SHARPNESS
    return weights / weights.sum(axis=1, keepdims=True)


def _measured(result: PanelForecast, backtest: Backtest, request: PanelRequest) -> PanelForecast:
    """Add the errors of the chosen model at earlier ends."""
    panel = backtest.panel
    median = int(np.median(panel.lengths))
    back = min(request.horizon, median - FEWEST_VALUES)
    count = HELD_OUT_ENDS if median >= max(LONG, (HELD_OUT_ENDS + 1) * back) else 1
    model = result.model if len(set(result.models)) == 1 else request.model
    ends = []
    for end in range(back, count * back + 1, back) if back > 0 else ():
        known = panel.before(end)
        earlier = forecast_from(backtest, end, replace(request, model=model))
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
