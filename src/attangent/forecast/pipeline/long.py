"""Outlooks of columns that are long enough to be forecast from windows of their own past, each by itself."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attangent._core.checks import check_size
from attangent.forecast.data.inputs import continued_index
from attangent.forecast.models.catalogue import AUTO, make
from attangent.forecast.pipeline.choose import Standardised, choose, default_lookback, folds
from attangent.forecast.pipeline.conformal import Residuals, recalibrate, window_scale
from attangent.forecast.pipeline.outlooks import Outlook

Array = NDArray[np.float64]


def window_outlooks(
    frame: pd.DataFrame,
    targets: Sequence[str],
    horizon: int,
    lookback: int | None,
    model: str,
    levels: Sequence[float],
    tell: Callable[[str], None],
    period: int | None,
) -> list[Outlook]:
    """An outlook for each target, in order; `tell` gets each target's name before its turn."""
    lookback = default_lookback(len(frame), horizon) if lookback is None else check_size("lookback", lookback)
    names = AUTO if model == "auto" else ("persistence", model)
    for name in names:
        make(name, lookback, horizon)
    folds(len(frame), lookback, horizon)
    outlooks = []
    for target in targets:
        tell(target)
        series = pd.Series(frame[target])
        outlooks.append(_outlook(series, names, model, lookback, horizon, levels, period))
    return outlooks


def _outlook(
    series: pd.Series,
    names: Sequence[str],
    model: str,
    lookback: int,
    horizon: int,
    levels: Sequence[float],
    period: int | None,
) -> Outlook:
    values = series.to_numpy(dtype=np.float64)
    choice = choose(names, values, lookback, horizon, period)
    chosen = choice.model if model == "auto" else model
    why = choice.why if model == "auto" else f"{model} was asked for"
    fitted = Standardised.fit(make(chosen, lookback, horizon, period), values)
    trials = choice.of(chosen)
    delay = -(-horizon // trials[-1].stride)
    calibrated = {level: recalibrate([t.residuals for t in trials], level, delay) for level in levels}
    residuals = sum((t.residuals for t in trials[1:]), start=trials[0].residuals)
    columns = _columns(fitted, values[-lookback:], residuals, {k: v.level for k, v in calibrated.items()})
    if values.min() >= 0:
        columns = {name: np.maximum(column, 0.0) for name, column in columns.items()}
    table = pd.DataFrame(columns, index=continued_index(series.index, horizon))
    persistence = choice.of("persistence")[-1]
    last = folds(len(values), lookback, horizon)[-1]
    expected = {
        "mae": trials[-1].mae,
        "rmse": float(np.sqrt(trials[-1].mse)),
        "mae of persistence": persistence.mae,
        "mae at the first step": float(trials[-1].mae_by_step[0]),
        "mae at the last step": float(trials[-1].mae_by_step[-1]),
        "held out": float(last.end - last.origin),
    }
    for level, found in calibrated.items():
        expected[f"coverage at {level:g}"] = found.coverage
    return Outlook(str(series.name), chosen, why, table, expected, choice)


def _columns(
    fitted: Standardised, window: Array, residuals: Residuals, asked: Mapping[float, float]
) -> dict[str, Array]:
    """The forecast and its intervals; `asked` maps each level to the one asked of the residuals."""
    inputs = fitted.apply(window)
    centre = fitted.forecaster.predict(inputs) * fitted.scale + fitted.mean
    columns = {"forecast": centre}
    scale = window_scale(inputs[None, :, None], 1.0)[0] * fitted.scale
    half = np.zeros_like(scale)
    for level in sorted(asked):
        half = np.maximum(half, scale * residuals.quantile(asked[level]))  # levels move apart, never across
        percent = f"{100 * level:g}"
        columns[f"lower_{percent}"], columns[f"upper_{percent}"] = centre - half[:, 0], centre + half[:, 0]
    return columns
