"""Effects of known columns on many series: taken off before a forecast and put back after it."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from attangent.forecast.data.panel import Panel, seasonal_scale

Array = NDArray[np.float64]

POOLED_COUNTS_FOR = 20.0
"""What all series agree on counts as much as so many of a series' own steps."""
RIDGE = 1e-3


def effects(panel: Panel, past: Sequence[Array]) -> Array:
    """b (N, K) of (y_t - y_{t-1}) / s = b'(c_t - c_{t-1}), s the seasonal scale, in units of the columns.

    b_n = (G_n + k D)^-1 (g_n + k D b), with G_n and g_n the sums of one series, b the solution for all of
    them together, D the mean square of each column's steps and k = 20: a series with few steps, or whose
    columns hardly move, takes what the others say.
    """
    scale = seasonal_scale(panel)
    grams, crosses, count = [], [], 0
    for values, length, s, columns in zip(panel.values, panel.lengths, scale, past, strict=True):
        x, y = np.diff(columns, axis=0), np.diff(values[len(values) - length :]) / s
        grams.append(x.T @ x)
        crosses.append(x.T @ y)
        count += len(x)
    gram, cross = np.sum(grams, axis=0), np.sum(crosses, axis=0)
    spread = np.diag(gram) / max(count, 1)
    prior = np.diag(np.where(spread > 0, spread, 1.0))
    pooled = np.linalg.solve(gram + RIDGE * count * prior, cross)
    own = [
        np.linalg.solve(G + POOLED_COUNTS_FOR * prior, g + POOLED_COUNTS_FOR * prior @ pooled)
        for G, g in zip(grams, crosses, strict=True)
    ]
    return np.stack(own) * scale[:, None]


def without(panel: Panel, past: Sequence[Array], sizes: Array) -> Panel:
    """The panel less the effects b'(c_t - c_T), so that its last values stand as they are."""
    values = panel.values.copy()
    for row, length, columns, b in zip(values, panel.lengths, past, sizes, strict=True):
        row[len(row) - length :] -= (columns - columns[-1]) @ b
    return panel.with_values(values)


def ahead(past: Sequence[Array], future: Sequence[Array], sizes: Array) -> Array:
    """(N, H): the effects b'(c_{T+h} - c_T) to be put back."""
    return np.stack([(f - p[-1]) @ b for p, f, b in zip(past, future, sizes, strict=True)])
