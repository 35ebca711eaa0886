"""The targets of a frame: forecasts with intervals, an honest expected error, the reason for the model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attangent._checks import check_between, check_size
from attangent._errors import AttangentError
from attangent.forecast.data.inputs import continued_index
from attangent.forecast.models.catalogue import AUTO, make
from attangent.forecast.outlook.choose import Choice, Standardised, choose, default_lookback, folds
from attangent.forecast.outlook.conformal import Residuals, recalibrate, window_scale

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Outlook:
    """The forecast of one target.

    `values` has the column `forecast` and for each level `lower_80`, `upper_80`. `expected` was measured on
    the last fold, which neither fitted nor chose the model: mae, rmse, the mae of persistence there, and the
    coverage of the intervals, which were calibrated anew as the fold went on.
    """

    target: str
    model: str
    why: str
    values: pd.DataFrame
    expected: dict[str, float]
    choice: Choice

    def sentence(self) -> str:
        """The expected error in words."""
        compared, usual = "", self.expected["mae of persistence"]
        if usual > 0:
            skill = 1 - self.expected["mae"] / usual
            compared = f", {abs(skill):.0%} {'less' if skill >= 0 else 'more'} than repeating the last value"
        return (
            f"expect a mean absolute error of {self.expected['mae']:.4g} (root mean square "
            f"{self.expected['rmse']:.4g}){compared}; "
            f"measured on the last {self.expected['held out']:.0f} times"
        )


def forecast_frame(
    frame: pd.DataFrame,
    targets: Sequence[str],
    horizon: int,
    lookback: int | None = None,
    model: str = "auto",
    levels: Sequence[float] = (0.8, 0.95),
    tell: Callable[[str], None] = lambda target: None,
) -> list[Outlook]:
    """An outlook for each target, from its own past; `tell` gets each target's name before its turn."""
    check_size("horizon", horizon)
    for level in levels:
        check_between("level", level, 0.01, 0.999)
    lookback = default_lookback(len(frame), horizon) if lookback is None else check_size("lookback", lookback)
    names = AUTO if model == "auto" else ("persistence", model)
    for name in names:
        make(name, lookback, horizon)
    for target in targets:
        if target not in frame.columns:
            raise AttangentError(
                f"there is no column {target!r}, there are {', '.join(map(str, frame.columns))}"
            )
    folds(len(frame), lookback, horizon)
    outlooks = []
    for target in targets:
        tell(target)
        series = pd.Series(frame[target])
        outlooks.append(_outlook(series, names, model, lookback, horizon, levels))
    return outlooks


def _outlook(
    series: pd.Series, names: Sequence[str], model: str, lookback: int, horizon: int, levels: Sequence[float]
) -> Outlook:
    values = series.to_numpy(dtype=np.float64)
    choice = choose(names, values, lookback, horizon)
    chosen = choice.model if model == "auto" else model
    why = choice.why if model == "auto" else f"{model} was asked for"
    fitted = Standardised.fit(make(chosen, lookback, horizon), values)
    trials = choice.of(chosen)
    delay = -(-horizon // trials[-1].stride)
    calibrated = {level: recalibrate([t.residuals for t in trials], level, delay) for level in levels}
    residuals = sum((t.residuals for t in trials[1:]), start=trials[0].residuals)
    columns = _columns(fitted, values[-lookback:], residuals, {k: v.level for k, v in calibrated.items()})
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
    scale = window_scale(inputs[None, :, None])[0] * fitted.scale
    half = np.zeros_like(scale)
    for level in sorted(asked):
        half = np.maximum(half, scale * residuals.quantile(asked[level]))  # levels move apart, never across
        percent = f"{100 * level:g}"
        columns[f"lower_{percent}"], columns[f"upper_{percent}"] = centre - half[:, 0], centre + half[:, 0]
    return columns


def tidy(outlooks: Sequence[Outlook]) -> pd.DataFrame:
    """All outlooks in one frame: target, time, forecast and the ends of the intervals."""
    parts = [outlook.values.rename_axis("time").reset_index() for outlook in outlooks]
    for part, outlook in zip(parts, outlooks, strict=True):
        part.insert(0, "target", outlook.target)
    return pd.concat(parts, ignore_index=True)
