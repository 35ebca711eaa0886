"""After how many steps many series repeat: by the calendar, or found where it has no say."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from attangent.forecast.data.steps import Step

Array = NDArray[np.float64]

SAMPLE = 200
LONGEST = 400


def period_of(series: Sequence[Array], step: Step) -> int:
    """The calendar's period; for numbered steps the one that most of the longer series show, else 1."""
    if step.kind != "number":
        return step.period()
    longer = sorted(series, key=len, reverse=True)[:SAMPLE]
    found = [repetition(one[-10 * LONGEST :, None], LONGEST) for one in longer]
    period, count = max(((p, found.count(p)) for p in set(found)), key=lambda pair: pair[1])
    return period if 2 * count > len(found) else 1


def repetition(series: Array, longest: int) -> int:
    """The lag of the highest peak of the autocorrelation of (T, C), summed over channels; 1 if there is none.

    A peak is higher than both neighbours and above 0.1; the trend is taken off by differences first.
    """
    steps = np.diff(series, axis=0)
    steps = steps - steps.mean(axis=0)
    longest = min(longest, len(steps) // 2)
    scale = np.square(steps).sum(axis=0)
    steps = steps[:, scale > 0] / np.sqrt(scale[scale > 0])
    if longest < 3 or steps.shape[1] == 0:
        return 1
    size = 2 * len(steps)
    power = np.square(np.abs(np.fft.rfft(steps, size, axis=0))).sum(axis=1)
    r = np.fft.irfft(power, size)[: longest + 2] / steps.shape[1]
    inner = r[1:-1]
    peaks = (inner > r[:-2]) & (inner > r[2:]) & (inner > 0.1)
    peaks[0] = False
    return int(np.argmax(np.where(peaks, inner, -np.inf))) + 1 if peaks.any() else 1
