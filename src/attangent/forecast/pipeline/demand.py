"""Forecasts of intermittent series: mean demand, and quantiles of what followed such means in the past."""

from collections.abc import Sequence

import numpy as np

from attangent.forecast.data.panel import Array, Mask
from attangent.forecast.pipeline.backtest import Backtest, Members, Trial

MOST_BINS = 20
FEWEST_PER_BIN = 100
SHARPNESS = 30.0
"""A member with 10 % more squared error gets 1.1^-30 of the weight: members differ by little."""


def demand_forecasts(backtest: Backtest, back: int, rows: Mask, probabilities: Array) -> tuple[Array, Array]:
    """Return mean demand (N,) and quantiles (N, Q) of one step's demand, for the intermittent `rows`.

    If there are too few values that followed a forecast, the quantiles are those of each series' past,
    scaled to the mean.
    """
    trials = backtest.trials(back)
    means, past = demand_means(backtest.members(back), trials, rows)
    quantiles = demand_quantiles(means, past, trials, rows, probabilities)
    if quantiles is None:
        values = backtest.panel.before(back).values
        usual = np.maximum(np.nanmean(values, axis=1), 1e-12)
        quantiles = np.nanquantile(values, probabilities, axis=1).T * (means / usual)[:, None]
    return means, quantiles


def demand_means(members: Members, trials: Sequence[Trial], rows: Mask) -> tuple[Array, list[Array]]:
    """Return the mean demand (N,) from the end and from each trial, combined over the members.

    Weights follow squared errors, which the mean minimises: absolute errors would reward forecasts of zero.
    """
    names = [name for name in members if name.startswith("intermittent")]
    errors = np.ones(len(names))
    for k, name in enumerate(names):
        squares = [
            np.square((trial.members[name][:, :1] - trial.actual)[_taken(trial, rows)]).mean()
            for trial in trials
            if _taken(trial, rows).any()
        ]
        errors[k] = np.mean(squares) if squares else 1.0
    weights = (errors / max(errors.min(), 1e-300)) ** -SHARPNESS
    weights /= weights.sum()
    runs = [members, *(trial.members for trial in trials)]
    means = [sum(w * run[name][:, 0] for w, name in zip(weights, names, strict=True)) for run in runs]
    return np.asarray(means[0]), [np.asarray(mean) for mean in means[1:]]


def _taken(trial: Trial, rows: Mask) -> Mask:
    return rows[: len(trial.actual)] & trial.scored


def demand_quantiles(
    means: Array, past: Sequence[Array], trials: Sequence[Trial], rows: Mask, probabilities: Array
) -> Array | None:
    """Return quantiles (N, Q) of one step's demand: those of values that followed similar means.

    Pairs of a mean and a value that followed are sorted into bins by the mean; quantiles are linear in the
    mean between the centres of bins and proportional to it beyond. None if there are too few pairs.
    """
    pairs = [(mean[_taken(t, rows)], t.actual[_taken(t, rows)]) for mean, t in zip(past, trials, strict=True)]
    x = np.concatenate([np.repeat(mean, actual.shape[1]) for mean, actual in pairs] or [np.empty(0)])
    y = np.concatenate([actual.ravel() for _, actual in pairs] or [np.empty(0)])
    bins = min(MOST_BINS, len(x) // FEWEST_PER_BIN)
    if bins < 1:
        return None
    order = np.argsort(x, kind="stable")
    centres = np.array([x[part].mean() for part in np.array_split(order, bins)])
    table = np.stack([np.quantile(y[part], probabilities) for part in np.array_split(order, bins)])
    inside = np.clip(means, centres[0], centres[-1])
    answer = np.empty((len(means), len(probabilities)))
    for k, column in enumerate(table.T):
        answer[:, k] = np.interp(inside, centres, column)
    return answer * (means / np.where(inside > 0, inside, 1.0))[:, None]
