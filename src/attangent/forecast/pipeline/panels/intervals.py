"""Quantiles of forecasts from the errors of earlier ones, pooled over the series of a set."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

ENOUGH = 40
"""With so many residuals of every step their own quantiles are taken, with fewer Student's t."""
OVERLAP = 6.0
"""Residuals of one forecast at neighbouring steps are alike: so many count as one."""
USUAL_COUNTS_FOR = 4.0
"""What is usual for series of this period counts as much as so many residuals that are not alike."""
FAR_BELOW = 30.0
"""The usual variance is held to so many times that of the residuals: intervals of exact series are narrow."""


def usual_spread(period: int) -> float:
    """1.5 m^-0.6 seasonal steps for one step of the square root: about that of a random walk, 1.25 m^-0.5.

    Chosen with the counts above on training parts of the M1, M3, tourism and hospital series, each by itself.
    """
    return 1.5 * period**-0.6


@dataclass(frozen=True)
class Spread:
    """Scaled residuals (R, H) of forecasts from earlier origins; NaN for steps that nothing is known of."""

    residuals: Array
    period: int = 1

    def quantiles(self, probabilities: Array, lengths: NDArray[np.int64]) -> Array:
        """(N, H, Q): quantiles of the scaled error for series of these lengths; they grow with Q.

        Where each step has 40 residuals or more they are divided by the mean size at their step, made to grow
        with the step, and their quantiles are taken over all steps, at the rank that covers exchangeable
        errors as often as it says. Else Student's t about zero, grown with the square root of the step and
        half a season; its variance is the mean square of the residuals shrunk towards what is usual for the
        period, which is all there is where nothing could be held out.
        """
        known = np.isfinite(self.residuals).sum(axis=0) if len(self.residuals) else np.zeros(1)
        if known.min() >= ENOUGH:
            growth = _growing(np.nanmean(np.abs(self.residuals), axis=0))
            scaled = self.residuals / growth
            tails = _ranked(np.sort(scaled[np.isfinite(scaled)]), probabilities)
            return np.broadcast_to(growth[:, None] * tails, (len(lengths), len(growth), len(tails)))
        return self._student(probabilities, lengths)

    def _student(self, probabilities: Array, lengths: NDArray[np.int64]) -> Array:
        from scipy.special import stdtrit as student

        growth = np.sqrt(np.arange(1, self.residuals.shape[1] + 1) + (self.period - 1) / 2)
        squares = np.square(self.residuals / growth)[np.isfinite(self.residuals)]
        own = len(squares) / OVERLAP
        usual = np.clip(lengths - 1.0, 2.0, USUAL_COUNTS_FOR)  # (N,)
        variance = usual_spread(self.period) ** 2
        if len(squares) > 1:
            variance = min(variance, FAR_BELOW * float(squares.mean()))
        total = usual * variance + squares.sum() / OVERLAP
        tails = student((usual + own)[:, None], probabilities[None, :])  # (N, Q)
        spread = np.sqrt(total / (usual + own))
        return spread[:, None, None] * growth[None, :, None] * tails[:, None, :]


def _growing(sizes: Array) -> Array:
    """g_i = max_{j <= i} min_{k >= i} mean(s_j ... s_k): nearest by least squares of what never falls.

    At least a little above zero.
    """
    sums = np.concatenate(([0.0], np.cumsum(sizes)))
    first, last = np.arange(len(sizes))[:, None], np.arange(len(sizes))
    means = np.where(last >= first, (sums[1:] - sums[:-1, None]) / np.maximum(last - first + 1, 1), np.inf)
    lowest = np.minimum.accumulate(means[:, ::-1], axis=1)[:, ::-1]  # over k >= i, in row j
    return np.maximum(np.where(last >= first, lowest, -np.inf).max(axis=0), 1e-12)


def _ranked(ordered: Array, probabilities: Array) -> Array:
    """Quantiles at rank p (n + 1), between neighbours linearly; the extremes beyond them."""
    ranks = probabilities * (len(ordered) + 1) - 1
    return np.interp(ranks, np.arange(len(ordered)), ordered)
