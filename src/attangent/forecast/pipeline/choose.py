"""Rolling-origin validation: models are fitted on the past and scored on what came next, several times."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attangent._core.errors import AttangentError
from attangent.forecast.data.windows import every_window, window_count
from attangent.forecast.models.catalogue import make
from attangent.forecast.models.forecaster import Forecaster
from attangent.forecast.pipeline.conformal import MEMORY, Residuals, window_scale

Array = NDArray[np.float64]

MOST_WINDOWS = 2 * MEMORY
"""At most so many windows are scored in each fold, evenly spaced."""


@dataclass(frozen=True)
class Standardised:
    """A forecaster of a vector that sees it with mean 0 and deviation 1, whatever its units."""

    forecaster: Forecaster
    mean: float
    scale: float

    @classmethod
    def fit(cls, forecaster: Forecaster, series: Array) -> "Standardised":
        mean, spread = float(series.mean()), float(series.std())
        scale = spread if spread > 1e-12 * max(1.0, abs(mean)) else 1.0
        return cls(forecaster.fit((series - mean) / scale), mean, scale)

    def apply(self, series: Array) -> Array:
        return (series - self.mean) / self.scale


@dataclass(frozen=True)
class Fold:
    """Windows that begin at `origin` or later and end by `end`, scored by models fitted before `origin`."""

    origin: int
    end: int


@dataclass(frozen=True)
class Trial:
    """How one model did in one fold, in the units of the series."""

    model: str
    fold: int
    mse: float
    mae: float
    mae_by_step: Array
    residuals: Residuals
    stride: int
    """The windows that were scored begin so many times apart."""


def folds(length: int, lookback: int, horizon: int) -> list[Fold]:
    """Two to five folds at the end of a series: a tenth each, at least a horizon long."""
    size = max(horizon, length // 10)
    room = length - lookback - horizon - 1
    count = min(5, room // size)
    if count < 2:
        needed = lookback + 3 * horizon + 1
        way = "shorten the look-back or" if lookback > 1 else "take --model auto, or shorten"
        raise AttangentError(
            f"the series has {length} times, expected at least look-back + 3 horizons + 1 = {needed} for a "
            f"forecast that can be checked: {way} the horizon"
        )
    starts = [length - k * size for k in range(count, 0, -1)]
    return [Fold(start, start + size) for start in starts]


def default_lookback(length: int, horizon: int) -> int:
    """At most 336, and short enough to leave most of the series for folds."""
    return int(np.clip((length - 3 * horizon - 1) // 3, 1, 336))


def try_model(
    name: str, series: Array, fold: Fold, number: int, lookback: int, horizon: int, period: int | None = None
) -> Trial:
    """Fit on the series before the fold, score inside it."""
    fitted = Standardised.fit(make(name, lookback, horizon, period), series[: fold.origin])
    part = fitted.apply(series[fold.origin - lookback : fold.end])[:, None]
    stride = max(1, -(-window_count(len(part), lookback, horizon) // MOST_WINDOWS))
    errors, residuals = _errors(fitted.forecaster, part, stride)
    errors = fitted.scale * errors
    mae = np.abs(errors).mean(axis=0)
    return Trial(name, number, float(np.square(errors).mean()), float(mae.mean()), mae, residuals, stride)


def _errors(forecaster: Forecaster, part: Array, stride: int) -> tuple[Array, Residuals]:
    """Errors (n, H) of every `stride`-th window and the residuals they leave, from one prediction each."""
    errors, scales = [], []
    for inputs, targets in every_window(part, forecaster.lookback, forecaster.horizon, stride):
        errors.append(forecaster.predict(inputs[..., 0]) - targets[..., 0])
        scales.append(window_scale(inputs, 1.0))
    error = np.concatenate(errors)
    return error, Residuals(np.abs(error)[..., None] / np.concatenate(scales), 1.0)


@dataclass(frozen=True)
class Choice:
    """The chosen model, the trials, and the reason. The last fold had no say: it is for the honest error."""

    model: str
    why: str
    trials: tuple[Trial, ...]

    def of(self, model: str) -> list[Trial]:
        return [trial for trial in self.trials if trial.model == model]

    def table(self) -> pd.DataFrame:
        rows = [{"model": t.model, "fold": t.fold, "mse": t.mse, "mae": t.mae} for t in self.trials]
        return pd.DataFrame(rows)


def choose(
    names: Sequence[str], series: Array, lookback: int, horizon: int, period: int | None = None
) -> Choice:
    """The model of the lowest mean squared error over all folds but the last; the first named on a tie."""
    parts = folds(len(series), lookback, horizon)
    trials = tuple(
        try_model(name, series, fold, number, lookback, horizon, period)
        for name in names
        for number, fold in enumerate(parts)
    )
    scored = [t for t in trials if t.fold < len(parts) - 1]
    errors = {name: float(np.mean([t.mse for t in scored if t.model == name])) for name in names}
    ranking = sorted(names, key=lambda name: errors[name])
    best = next(name for name in names if errors[name] <= errors[ranking[0]] * (1 + 1e-9))
    return Choice(best, _reason(best, errors, scored, ranking), trials)


def _reason(best: str, errors: dict[str, float], scored: Sequence[Trial], ranking: Sequence[str]) -> str:
    others = [name for name in ranking if name != best]
    count = 1 + max(t.fold for t in scored)
    if not others:
        return f"{best} was asked for"
    wins = sum(
        min((t for t in scored if t.fold == number), key=lambda t: t.mse).model == best
        for number in range(count)
    )
    return (
        f"{best} had the lowest mean squared error over {count} rolling-origin folds: "
        f"{errors[best]:.4g} against {errors[others[0]]:.4g} of {others[0]}, the next of {len(errors)}; "
        f"it was best in {wins} of {count}"
    )
