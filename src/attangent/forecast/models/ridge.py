"""Ridge regression from window sums: every penalty from one eigendecomposition, scored from sums alone."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attangent.forecast.models.statistics import WindowSums

Array = NDArray[np.float64]

JITTER = 1e-9
"""Added to the Gram matrix, relative to its mean diagonal: anchored windows are linearly dependent."""


@dataclass(frozen=True)
class Moments:
    """Second moments of inputs x (L) and targets y (H) about a centre, divided by the number of windows."""

    centre_x: Array
    centre_y: Array
    xx: Array
    xy: Array
    yy: float

    @classmethod
    def about(cls, centre: Array, sums: WindowSums, lookback: int) -> "Moments":
        """The moments of `sums` about `centre` (P,), which need not be their own mean."""
        cross, L = np.outer(sums.first / sums.count, centre), lookback
        second = sums.second / sums.count - cross - cross.T + np.outer(centre, centre)
        spread = float(np.trace(second[L:, L:]))
        return cls(centre[:L], centre[L:], second[:L, :L], second[:L, L:], spread)


@dataclass(frozen=True)
class RidgePath:
    """W(alpha) = (G + alpha I)^-1 B of y ~ W'(x - centre x) + centre y for every alpha, G = xx, B = xy.

    alpha is relative to the mean diagonal of G, so one grid serves series of any scale.
    """

    moments: Moments
    values: Array
    vectors: Array
    rotated: Array
    """V' B."""
    scale: float

    @classmethod
    def of(cls, moments: Moments) -> "RidgePath":
        scale = float(np.trace(moments.xx)) / len(moments.xx)
        scale = scale if scale > 0 else 1.0
        values, vectors = np.linalg.eigh(moments.xx)
        return cls(moments, np.maximum(values, 0.0), vectors, vectors.T @ moments.xy, scale)

    def held_out(self, sums: WindowSums) -> Moments:
        """Moments of other windows about this path's centre, for `errors`."""
        centre = np.concatenate((self.moments.centre_x, self.moments.centre_y))
        return Moments.about(centre, sums, len(self.moments.centre_x))

    def _shrink(self, alpha: float) -> Array:
        return 1.0 / (self.values + (alpha + JITTER) * self.scale)

    def weights(self, alpha: float) -> Array:
        """W (L, H)."""
        return self.vectors @ (self._shrink(alpha)[:, None] * self.rotated)

    def errors(self, alphas: Array, held_out: Moments) -> Array:
        """Mean squared error per step on the windows of `held_out`, taken about the same centre.

        (tr W'GW - 2 tr W'B + y'y) / H with W = V D V'B: each alpha costs O(L^2), whatever the windows.
        """
        gram = self.vectors.T @ held_out.xx @ self.vectors
        quadratic = gram * (self.rotated @ self.rotated.T)
        linear = np.sum(self.rotated * (self.vectors.T @ held_out.xy), axis=1)
        D = np.stack([self._shrink(alpha) for alpha in alphas])
        total = np.einsum("ai,ij,aj->a", D, quadratic, D) - 2 * D @ linear + held_out.yy
        return total / len(held_out.centre_y)
