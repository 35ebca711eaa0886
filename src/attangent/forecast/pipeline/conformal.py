"""Prediction intervals by split conformal calibration, on residuals of windows outside the fit."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attangent._core.checks import check_between, check_size
from attangent._core.errors import AttangentError
from attangent.forecast.data.windows import every_window
from attangent.forecast.models.forecaster import Forecaster

Array = NDArray[np.float64]

QUIETEST = 0.1
MEMORY = 1000
"""How many of the latest residuals a calibration keeps: older ones tell of another time."""


@dataclass(frozen=True)
class Residuals:
    """|y - prediction| / s of windows in order of time, (n, H, C); s is the deviation within the window.

    Dividing by s lets an interval widen where the series is restless.
    """

    scaled: Array
    usual: Array | float = 0.0
    """The deviation (C,) of the whole series: the scale of a quiet window does not fall far below it."""

    @classmethod
    def of(cls, forecaster: Forecaster, series: Array, stride: int = 1) -> "Residuals":
        """The residuals over every `stride`-th window of (T, C)."""
        parts, usual = [], series.std(axis=0)
        for inputs, targets in every_window(series, forecaster.lookback, forecaster.horizon, stride):
            predicted = forecaster.predict(inputs[..., 0] if forecaster.flat_ else inputs)
            parts.append(np.abs(predicted.reshape(targets.shape) - targets) / window_scale(inputs, usual))
        return cls(np.concatenate(parts), usual)

    def __add__(self, later: "Residuals") -> "Residuals":
        return Residuals(np.concatenate((self.scaled, later.scaled)), self.usual)

    def quantile(self, level: float, memory: int = MEMORY) -> Array:
        """The ceil((n + 1) level)-th smallest of the latest n residuals, for each step and channel (H, C).

        Where there are too few windows for the level, the steps of the horizon are pooled.
        """
        check_between("level", level, 1e-9, 1 - 1e-9)
        latest = self.scaled[-memory:]
        needed = values_needed(level)
        if len(latest) >= needed:
            return _ranked(latest, level)
        pooled = latest.reshape(-1, latest.shape[2])
        if len(pooled) < needed:
            raise AttangentError(
                f"an interval at {level:g} needs {needed} held-out values, there are {len(pooled)}: give a "
                "longer series or a lower level"
            )
        return np.broadcast_to(_ranked(pooled, level), latest.shape[1:])

    def coverage(self, level: float, calibration: "Residuals") -> float:
        """The share of these residuals inside intervals that were calibrated once, on others."""
        return float((self.scaled <= calibration.quantile(level)).mean())


def values_needed(level: float) -> int:
    """How many residuals it takes to tell this level from certainty."""
    return int(np.ceil(level / (1 - level)))


def _ranked(residuals: Array, level: float) -> Array:
    rank = min(int(np.ceil((len(residuals) + 1) * level)), len(residuals))
    return np.partition(residuals, rank - 1, axis=0)[rank - 1]


def window_scale(windows: Array, usual: Array | float) -> Array:
    """(n, 1, C): the deviation within each window, at least a tenth of `usual`, that of the whole series.

    A stretch of equal values would else make the errors after it infinitely large, and intervals with them.
    """
    scale = np.maximum(windows.std(axis=1, keepdims=True), QUIETEST * np.asarray(usual))
    return np.maximum(scale, 1e-12 + 1e-9 * np.abs(windows).max(axis=1, keepdims=True))


def interval(
    forecaster: Forecaster, windows: Array, residuals: Residuals, level: float
) -> tuple[Array, Array]:
    """Lower and upper ends (n, H, C) around the prediction for windows (n, L, C)."""
    predicted = forecaster.predict(windows[..., 0] if forecaster.flat_ else windows)
    predicted = predicted.reshape(len(windows), forecaster.horizon, -1)
    half = window_scale(windows, residuals.usual) * residuals.quantile(level)
    return predicted - half, predicted + half


@dataclass(frozen=True)
class Rolling:
    """How intervals are calibrated anew as time goes on.

    Every `every` windows (a quarter of the horizon, where that is more) the widths are taken from the latest
    `memory` residuals known by then, and the level that is asked of them moves by `step` times what the
    intervals fell short of theirs, less for long horizons, whose outcomes are known late. The defaults are
    those that cover best on the validation months of ETTh1 at horizons 24 and 96.
    """

    memory: int = MEMORY
    every: int = 24
    step: float = 0.1

    def __post_init__(self) -> None:
        check_size("memory", self.memory)
        check_size("every", self.every)
        check_between("step", self.step, 0.0, 1.0)


@dataclass(frozen=True)
class Recalibrated:
    """What rolling intervals covered in the last fold, and the level to ask of all residuals from now on."""

    coverage: float
    level: float


def recalibrate(
    folds: Sequence[Residuals], level: float, delay: int, plan: Rolling | None = None
) -> Recalibrated:
    """Go through folds that follow each other in time; the first only calibrates.

    A window's residuals are known `delay` windows later, those of a fold when the next one begins.
    """
    plan = plan or Rolling()
    every = max(plan.every, delay // 4)
    asked = _Asked(level, plan.step / (1 + delay / every), level)
    past, hits = folds[0].scaled, []
    for fold in folds[1:]:
        before, hits = past, list(_batches(fold.scaled, past, asked, delay, every, plan.memory))
        past = np.concatenate((past, fold.scaled))[-plan.memory :]
        if fold is folds[-1] and not hits:
            Residuals(before).quantile(level)  # says how many are missing
    return Recalibrated(float(np.concatenate(hits).mean()), asked.of(Residuals(past)))


@dataclass
class _Asked:
    """The level asked of the residuals so that intervals cover `nominal`."""

    nominal: float
    step: float
    value: float

    def hear(self, hits: NDArray[np.bool_]) -> None:
        self.value = float(np.clip(self.value + self.step * (self.nominal - hits.mean()), 0.01, 1.0))

    def of(self, known: Residuals) -> float:
        """The level, no higher than so many residuals can answer."""
        count, steps, _ = known.scaled.shape
        count = count if count >= values_needed(self.nominal) else count * steps
        return min(self.value, max(self.nominal, count / (count + 1) - 1e-9))


def _batches(
    scaled: Array, past: Array, asked: _Asked, delay: int, every: int, memory: int
) -> Iterator[NDArray[np.bool_]]:
    """Which residuals of a fold are inside, batch by batch; `asked` hears of each when it is known."""
    waiting: list[tuple[int, NDArray[np.bool_]]] = []
    for start in range(0, len(scaled), every):
        while waiting and waiting[0][0] <= start:
            asked.hear(waiting.pop(0)[1])
        known = Residuals(np.concatenate((past, scaled[: max(0, start - delay + 1)]))[-memory:])
        if known.scaled[..., 0].size >= values_needed(asked.nominal):
            inside = scaled[start : start + every] <= known.quantile(asked.of(known), memory)
            waiting.append((start + every - 1 + delay, inside))
            yield inside
    for _, inside in waiting:
        asked.hear(inside)
