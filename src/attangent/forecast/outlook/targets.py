"""The targets of a frame: forecasts with intervals, an honest expected error, the reason for the model."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attangent._checks import check_between, check_size
from attangent._errors import AttangentError
from attangent.forecast.data.inputs import continued_index
from attangent.forecast.data.periods import period_of
from attangent.forecast.data.steps import find_step
from attangent.forecast.models.catalogue import AUTO, make
from attangent.forecast.outlook.choose import Standardised, choose, default_lookback, folds
from attangent.forecast.outlook.conformal import Residuals, recalibrate, window_scale
from attangent.forecast.outlook.outlooks import Outlook
from attangent.forecast.outlook.panels.combine import FAMILIES
from attangent.forecast.outlook.short import panel_outlooks

Array = NDArray[np.float64]


LONG = 400
"""Series of so many times or more are forecast from windows of their own past, shorter ones as a panel."""


def forecast_frame(
    frame: pd.DataFrame,
    targets: Sequence[str],
    horizon: int,
    lookback: int | None = None,
    model: str = "auto",
    levels: Sequence[float] = (0.8, 0.95),
    tell: Callable[[str], None] = lambda target: None,
    period: int | None = None,
) -> list[Outlook]:
    """An outlook for each target; `tell` gets each target's name before its turn.

    Short frames, and the models "smoothing", "theta", "ridge" and "combination", go through a panel: the
    targets are forecast together. Else each is forecast from windows of its own past. `period` is the number
    of steps after which the calendar repeats, by default what the times say.
    """
    check_size("horizon", horizon)
    for level in levels:
        check_between("level", level, 0.01, 0.999)
    _check_targets(frame, targets)
    usual = period_of_frame(frame.loc[:, list(targets)]) if period is None else check_size("period", period)
    if model in (*FAMILIES, "combination") or (model == "auto" and lookback is None and len(frame) < LONG):
        tell(", ".join(targets[:3]))
        return panel_outlooks(frame, targets, horizon, usual, model, sorted(levels))
    return _from_windows(frame, targets, horizon, lookback, model, levels, tell, usual if usual > 1 else None)


def _check_targets(frame: pd.DataFrame, targets: Sequence[str]) -> None:
    for target in targets:
        if target not in frame.columns:
            raise AttangentError(
                f"there is no column {target!r}, there are {', '.join(map(str, frame.columns))}"
            )


def period_of_frame(frame: pd.DataFrame) -> int:
    """The period that the times of a frame's rows say, or that its columns show where they are numbered."""
    index = frame.index
    step = find_step(index, np.ones(len(index) - 1, dtype=bool)) if len(index) > 1 else None
    columns = [frame[name].to_numpy(dtype=np.float64) for name in frame.columns]
    return period_of(columns, step) if step is not None else 1


def _from_windows(
    frame: pd.DataFrame,
    targets: Sequence[str],
    horizon: int,
    lookback: int | None,
    model: str,
    levels: Sequence[float],
    tell: Callable[[str], None],
    period: int | None,
) -> list[Outlook]:
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
