"""Series on the scale that a model works on: as they are, or their logarithms."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attangent.forecast.data.panel import Panel

Array = NDArray[np.float64]


def positive(panel: Panel) -> NDArray[np.bool_]:
    """Which series have values above zero only."""
    return np.nanmin(panel.values, axis=1) > 0


@dataclass(frozen=True)
class Logarithms:
    """The logarithms of the series that are positive; the others stand as zeros and are not to be used.

    Forecasts go back by the exponential, held to one range of the history above it and below.
    """

    panel: Panel
    usable: NDArray[np.bool_]
    low: Array
    high: Array

    @classmethod
    def of(cls, panel: Panel) -> "Logarithms":
        usable = positive(panel)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(usable[:, None], np.log(panel.values), panel.values * 0.0)
        low, high = np.nanmin(logs, axis=1), np.nanmax(logs, axis=1)
        return cls(panel.with_values(logs), usable, 2 * low - high, 2 * high - low)

    def back(self, forecasts: Array, otherwise: Array) -> Array:
        """Forecasts (N, H) on the scale of the series; `otherwise` where a series has no logarithm."""
        held = np.clip(forecasts, self.low[:, None], self.high[:, None])
        return np.where(self.usable[:, None], np.exp(held), otherwise)
