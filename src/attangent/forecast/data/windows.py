"""Every window of a series, in pieces of bounded memory."""

from collections.abc import Iterator

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from attangent.forecast.data.inputs import check_length

Array = NDArray[np.float64]

PIECE_BYTES = 64 * 2**20


def window_count(length: int, lookback: int, horizon: int) -> int:
    return max(0, length - lookback - horizon + 1)


def every_window(
    series: Array, lookback: int, horizon: int, stride: int = 1
) -> Iterator[tuple[Array, Array]]:
    """Pieces of (n, lookback, C) windows with the (n, horizon, C) that follow, over all of (T, C)."""
    check_length("series", series, lookback, horizon)
    views = sliding_window_view(series, lookback + horizon, axis=0)[::stride]  # (n, C, P)
    piece = max(1, PIECE_BYTES // (8 * (lookback + horizon) * series.shape[1]))
    for start in range(0, len(views), piece):
        part = views[start : start + piece].transpose(0, 2, 1)
        yield part[:, :lookback], part[:, lookback:]
