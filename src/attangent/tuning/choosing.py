"""Which of two ways is taken by rows kept apart: the usual one, unless the other is clearly ahead.

A few dozen rows tell little. A way that is chosen for being ahead by chance does worse on new rows than the
usual one would, so that it has to be ahead by more than chance explains, and by enough to matter.
"""

import math
import statistics
from collections.abc import Sequence

LEAST_GAIN = 0.01
"""What matters: one answer of a hundred, or a hundredth of the variance of numbers."""


def clearly_better(errors: Sequence[float], usual: Sequence[float]) -> bool:
    """Whether mean(u - e) > max(its standard error, LEAST_GAIN) over rows, with the errors e and the usual u.

    >>> clearly_better([0.1, 0.2, 0.1, 0.2], [0.5, 0.4, 0.6, 0.5])
    True
    >>> clearly_better([0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.3, 0.3])
    False
    """
    if not all(map(math.isfinite, errors)):
        return False
    if not all(map(math.isfinite, usual)):
        return True
    gains = [before - after for after, before in zip(errors, usual, strict=True)]
    chance = statistics.stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else math.inf
    return statistics.fmean(gains) > max(chance, LEAST_GAIN)
