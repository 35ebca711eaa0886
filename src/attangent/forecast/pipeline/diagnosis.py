"""What kind of series this is, and which kind of model it rewards: numbers first, then a verdict in words."""

from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attangent._core.checks import check_size
from attangent._core.display import brief, table_html
from attangent._core.errors import AttangentError
from attangent._core.plots import bars, finished, in_style, one_panel
from attangent.forecast.data.inputs import as_series
from attangent.forecast.models.baselines import Persistence, SeasonalNaive
from attangent.forecast.models.forecaster import Forecaster
from attangent.forecast.models.linear import LinearForecaster
from attangent.forecast.models.statistics import Normalise
from attangent.forecast.pipeline.choose import default_lookback
from attangent.forecast.pipeline.headroom import Headroom, nonlinear_headroom
from attangent.forecast.pipeline.protocol import errors_by_step

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

Array = NDArray[np.float64]


_NORMALISE: dict[str, Normalise] = {"linear": "last", "linear-mean": "mean", "linear-none": "none"}


@dataclass(frozen=True)
class Shift:
    """How the held-out end differs from the rest, as the largest over channels."""

    mean: float
    """|difference of means| in deviations of train."""
    spread: float
    """held-out deviation / train deviation; the one furthest from 1."""
    steps: float
    """The same ratio for the steps x_t - x_{t-1}."""


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """Errors are mean squares over every held-out window, in units of the train variance of each channel."""

    times: int
    channels: int
    lookback: int
    horizon: int
    period: int
    sign_inconsistent: float
    """Share of steps with x_t x_{t+1} < 0 once the train mean is taken off (P5 Definition 6.1)."""
    errors: dict[str, float]
    headroom: Headroom
    shift: Shift
    verdict: str

    def __repr__(self) -> str:
        best = min(self.errors, key=lambda name: self.errors[name])
        return brief(self, times=self.times, channels=self.channels, best=best, headroom=self.headroom.share)

    def _repr_html_(self) -> str:
        rows = sorted(self.errors.items(), key=lambda item: item[1])
        about = f"{self.times} times, {self.channels} channels, period {self.period}"
        columns = ("model", "mean squared error")
        return table_html(f"Diagnosis: {about}", columns, rows, self.verdict.split(". "))

    @in_style
    def plot(self, path: str | PathLike[str] | None = None) -> "Picture":
        """Draw the errors of the models that were tried; also to a file, where one is named."""
        figure, axes = one_panel((6.4, 1.0 + 0.32 * len(self.errors)))
        errors = dict(sorted(self.errors.items(), key=lambda item: item[1]))
        bars(axes, errors, "mean squared error in units of the variance", next(iter(errors)))
        return finished(figure, path)


def diagnose(
    series: Any, *, horizon: int | None = None, lookback: int | None = None, seed: int = 0
) -> Diagnosis:
    """Fit on the first four fifths, measure on the last, and say what that means.

    >>> diagnose(np.sin(0.3 * np.arange(900.0)), horizon=8, lookback=32).errors["linear"] < 1e-6
    True
    """
    values = as_series("series", series)
    horizon = check_size("horizon", horizon or max(1, min(96, len(values) // 20)))
    lookback = check_size("lookback", lookback or default_lookback(len(values) // 2, horizon))
    cut = len(values) - max(len(values) // 5, horizon)
    if cut < 2 * (lookback + horizon):
        raise AttangentError(
            f"the series has {len(values)} times, too few for a look-back of {lookback} and a horizon "
            f"of {horizon}: expected about {int(2.5 * (lookback + horizon)) + 1}"
        )
    mean, scale = values[:cut].mean(axis=0), values[:cut].std(axis=0)
    if not (scale > 1e-12 * np.maximum(1.0, np.abs(mean))).any():
        raise AttangentError("every channel is constant: there is nothing to diagnose")
    moving = scale > 1e-12 * np.maximum(1.0, np.abs(mean))
    values = (values - mean)[:, moving] / scale[moving]
    train, held_out = values[:cut], values[cut - lookback :]
    models = _models(lookback, horizon)
    errors = {name: _error(model.fit(train), held_out) for name, model in models.items()}
    best = min(_NORMALISE, key=lambda name: errors[name])
    one_step = LinearForecaster(lookback, 1, normalise=_NORMALISE[best])
    headroom = nonlinear_headroom(one_step, train, held_out, seed)
    shift = _shift(train, values[cut:])
    signs = float((values[1:] * values[:-1] < 0).mean())
    period = int(getattr(models["seasonal"], "period_"))  # noqa: B009 - set by fit
    words = _verdict(errors, best, headroom, shift, signs)
    return Diagnosis(
        len(values), values.shape[1], lookback, horizon, period, signs, errors, headroom, shift, words
    )


def _models(lookback: int, horizon: int) -> dict[str, Forecaster]:
    return {
        "persistence": Persistence(lookback, horizon),
        "seasonal": SeasonalNaive(lookback, horizon),
        **{name: LinearForecaster(lookback, horizon, normalise) for name, normalise in _NORMALISE.items()},
    }


def _error(model: Forecaster, held_out: Array) -> float:
    return float(errors_by_step(model, held_out)[0].mean())


def _shift(train: Array, held_out: Array) -> Shift:
    def ratio(before: Array, after: Array) -> float:
        ratios = after.std(axis=0) / np.maximum(before.std(axis=0), 1e-12)
        return float(ratios[np.argmax(np.abs(np.log(np.maximum(ratios, 1e-12))))])

    moved = np.abs(held_out.mean(axis=0) - train.mean(axis=0)) / np.maximum(train.std(axis=0), 1e-12)
    return Shift(
        float(moved.max()), ratio(train, held_out), ratio(np.diff(train, axis=0), np.diff(held_out, axis=0))
    )


def _verdict(errors: dict[str, float], best: str, headroom: Headroom, shift: Shift, signs: float) -> str:
    simple = min(("persistence", "seasonal"), key=lambda name: errors[name])
    gain = 1 - errors[best] / errors[simple] if errors[simple] > 0 else 0.0
    lines = []
    if gain > 0.02:
        lines.append(f"A linear model ({best}) has {gain:.0%} less squared error than {simple}: use it.")
    else:
        lines.append(f"A linear model gains nothing over {simple} ({gain:+.0%}): {simple} will do.")
    low, high = headroom.interval
    share = f"{headroom.share:.0%} of its one-step error (95 % interval {low:.0%} to {high:.0%})"
    if low > 0.02:
        lines.append(f"Non-linear models have room: they remove {share}.")
    elif high < 0.1:
        lines.append(f"Non-linear models have next to no room over it: {share}.")
    else:
        lines.append(f"Whether non-linear models would help cannot be told: {share}.")
    if shift.mean > 0.5 or not 0.67 < shift.spread < 1.5:
        lines.append(
            f"The end of the series differs from its past: its mean by {shift.mean:.1f} deviations, "
            f"its spread by a factor of {shift.spread:.2f}; prefer models that take off each window's level."
        )
    lines.append(f"{signs:.1%} of steps change sign about the mean.")
    return " ".join(lines)
