"""Prediction intervals by split conformal calibration, on residuals of windows outside the fit."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attangent._checks import check_between
from attangent._errors import AttangentError
from attangent.forecast.forecaster import Forecaster
from attangent.forecast.windows import every_window

Array = NDArray[np.float64]

MEMORY = 1000
"""How many of the latest residuals a calibration keeps: older ones tell of another time."""


@dataclass(frozen=True)
class Residuals:
    """|y - prediction| / s of windows in order of time, (n, H, C); s is the deviation within the window.

    Dividing by s lets an interval widen where the series is restless.
    """

    scaled: Array

    @classmethod
    def of(cls, forecaster: Forecaster, series: Array, stride: int = 1) -> "Residuals":
        """The residuals over every `stride`-th window of (T, C)."""
        parts = []
        for inputs, targets in every_window(series, forecaster.lookback, forecaster.horizon, stride):
            predicted = forecaster.predict(inputs[..., 0] if forecaster.flat_ else inputs)
            parts.append(np.abs(predicted.reshape(targets.shape) - targets) / window_scale(inputs))
        return cls(np.concatenate(parts))

    def __add__(self, later: "Residuals") -> "Residuals":
        return Residuals(np.concatenate((self.scaled, later.scaled)))

    def quantile(self, level: float, memory: int = MEMORY) -> Array:
        """The ceil((n + 1) level)-th smallest of the latest n residuals, for each step and channel (H, C).

        Where there are too few windows for the level, the steps of the horizon are pooled.
        """
        check_between("level", level, 1e-9, 1 - 1e-9)
        latest = self.scaled[-memory:]
        needed = int(np.ceil(level / (1 - level)))
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


def _ranked(residuals: Array, level: float) -> Array:
    rank = min(int(np.ceil((len(residuals) + 1) * level)), len(residuals))
    return np.partition(residuals, rank - 1, axis=0)[rank - 1]


def window_scale(windows: Array) -> Array:
    """(n, 1, C): the deviation within each window, never quite zero."""
    scale = windows.std(axis=1, keepdims=True)
    return np.maximum(scale, 1e-12 + 1e-9 * np.abs(windows).max(axis=1, keepdims=True))


def interval(
    forecaster: Forecaster, windows: Array, residuals: Residuals, level: float
) -> tuple[Array, Array]:
    """Lower and upper ends (n, H, C) around the prediction for windows (n, L, C)."""
    predicted = forecaster.predict(windows[..., 0] if forecaster.flat_ else windows)
    predicted = predicted.reshape(len(windows), forecaster.horizon, -1)
    half = window_scale(windows) * residuals.quantile(level)
    return predicted - half, predicted + half


def rolling_coverage(
    residuals: Residuals, first: int, levels: Sequence[float], every: int = 24, memory: int = MEMORY
) -> dict[float, float]:
    """Coverage from window `first` on, calibrated anew `every` so many windows on what is known by then.

    A window's targets are known `horizon` steps later; `residuals` are of consecutive windows.
    """
    scaled = residuals.scaled
    horizon = scaled.shape[1]
    inside: dict[float, list[NDArray[np.bool_]]] = {level: [] for level in levels}
    for start in range(first, len(scaled), every):
        known = Residuals(scaled[: start - horizon + 1])
        for level in levels:
            inside[level].append(scaled[start : start + every] <= known.quantile(level, memory))
    return {level: float(np.concatenate(hits).mean()) for level, hits in inside.items()}
