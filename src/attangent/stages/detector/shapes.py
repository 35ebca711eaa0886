"""The shapes a fall may have, each laid out by the steps where a tenth and nine tenths of it are gone."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
SHAPES = ("logistic", "ramp", "kink")
_LOG_9, _LOG_10_9 = np.log(9.0), np.log(10 / 9)


def fallen(shape: str, steps: Array, onset: float, end: float) -> Array:
    """What is left of a fall of height 1: 1 long before, .9 at `onset`, .1 at `end`, 0 long after.

    "logistic": 1 / (1 + e^((t - c) / w)); "ramp": straight down; "kink": 1, then at once e^(-t / tau).
    """
    duration = max(end - onset, 1e-12)
    if shape == "logistic":
        return 1 / (1 + np.exp(np.clip((steps - (onset + end) / 2) * 2 * _LOG_9 / duration, -60, 60)))
    if shape == "ramp":
        return np.clip(0.9 - 0.8 * (steps - onset) / duration, 0.0, 1.0)
    tau = duration / _LOG_9
    return np.exp(-np.clip((steps - onset) / tau + _LOG_10_9, 0.0, 60))


@dataclass(frozen=True)
class Shift:
    """A fall (sign 1) or a rise (sign -1) between two places, counted in readings from 0.

    Places are fractions of readings, so that unevenly spaced steps need no other search than even ones.
    """

    shape: str
    place: float
    length: float
    sign: float = 1.0

    def column(self, steps: Array) -> Array:
        """The change over the steps, of height 1."""
        onset, end = at(steps, self.place), at(steps, self.place + self.length)
        return self.sign * fallen(self.shape, steps, onset, end)

    def shaped(self, shape: str) -> "Shift":
        return replace(self, shape=shape)


def at(steps: Array, place: float) -> float:
    """The step at a place between readings, or beyond them at the spacing of the last or first two."""
    last = len(steps) - 1
    if place > last:
        return float(steps[-1] + (place - last) * (steps[-1] - steps[-2]))
    if place < 0:
        return float(steps[0] + place * (steps[1] - steps[0]))
    return float(np.interp(place, np.arange(len(steps)), steps))
