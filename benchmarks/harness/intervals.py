"""How well a ratio of times is known: an interval for its median that assumes nothing of its distribution."""

from collections.abc import Mapping, Sequence
from statistics import median

from scipy.stats import binom

Interval = tuple[float, float]


def ratios(times: Sequence[float], base: Sequence[float]) -> list[float]:
    """Round by round; a contestant that sat out has fewer rounds."""
    return [mine / other for mine, other in zip(times, base, strict=False)]


def median_interval(values: Sequence[float], miss: float = 0.05) -> Interval | None:
    """The smallest pair of ordered values that misses the median with at most this probability.

    None for fewer than 6 values, of which even the outermost miss it more often.
    """
    ordered, below = sorted(values), int(binom.ppf(miss / 2, len(values), 0.5))
    if not values or 2 * binom.cdf(below - 1, len(values), 0.5) > miss or below < 1:
        return None
    return ordered[below - 1], ordered[-below]


def all_known_within(samples: Mapping[str, Sequence[float]], baseline: str | None, share: float) -> bool:
    """Whether every ratio to the baseline has an interval that is at most `share` of its median wide."""
    if baseline not in samples:
        return False
    for name, times in samples.items():
        found = ratios(times, samples[baseline])
        interval = median_interval(found)
        if name != baseline and (interval is None or interval[1] - interval[0] > share * median(found)):
            return False
    return True
