"""Quantiles of forecasts from the errors of earlier ones, pooled over the series of a set."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

ENOUGH = 40
"""With so many residuals of a step their own quantiles are taken, with fewer Student's t."""
OVERLAP = 3.0
"""Residuals of one forecast at neighbouring steps are alike: so many count as one."""


@dataclass(frozen=True)
class Spread:
    """Scaled residuals (R, H) of forecasts from earlier origins; NaN for steps that nothing is known of."""

    residuals: Array

    def quantiles(self, probabilities: Array, lengths: NDArray[np.int64]) -> Array:
        """(N, H, Q): quantiles of the scaled error for series of these lengths; they grow with Q.

        Where each step has 40 residuals or more: their own quantiles, at the rank that covers exchangeable
        series as often as it says. Else Student's t about zero with the spread of all steps, grown with the
        square root of the step; and where nothing is known, a spread of one scale and as few degrees of
        freedom as the series is short.
        """
        known = np.isfinite(self.residuals).sum(axis=0) if len(self.residuals) else np.zeros(1)
        steps = self.residuals.shape[1]
        if known.min() >= ENOUGH:
            found = np.stack([_ranked(self._near(h), probabilities) for h in range(steps)])
            return np.broadcast_to(found, (len(lengths), *found.shape))
        return self._student(probabilities, lengths)

    def _near(self, step: int) -> Array:
        """The residuals of a step; of its neighbours too where that gives a steadier tail."""
        wide = 1 if len(self.residuals) < 1000 else 0
        part = self.residuals[:, max(0, step - wide) : step + wide + 1]
        return np.sort(part[np.isfinite(part)])

    def _student(self, probabilities: Array, lengths: NDArray[np.int64]) -> Array:
        from scipy.stats import t as student

        growth = np.sqrt(np.arange(1, self.residuals.shape[1] + 1))
        scaled = (self.residuals / growth)[np.isfinite(self.residuals)]
        if len(scaled) >= 2:
            spread = max(float(np.sqrt(np.mean(np.square(scaled)))), 1e-12)
            freedom = np.full(len(lengths), max(2.0, len(scaled) / OVERLAP))
        else:
            spread, freedom = 1.0, np.maximum(2.0, lengths - 2.0)
        tails = student.ppf(probabilities[None, :], freedom[:, None])  # (N, Q)
        return spread * growth[None, :, None] * tails[:, None, :]


def _ranked(ordered: Array, probabilities: Array) -> Array:
    """Quantiles at rank p (n + 1), between neighbours linearly; the extremes beyond them."""
    ranks = probabilities * (len(ordered) + 1) - 1
    return np.interp(ranks, np.arange(len(ordered)), ordered)
