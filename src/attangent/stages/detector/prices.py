"""What changes must gain before they are believed: the false-alarm rate, turned into likelihood ratios."""

from dataclasses import dataclass

import numpy as np

from attangent._core.checks import check_between

_READINGS = (30, 120, 400)
_FIRST = {0.1: (22.8, 21.6, 22.1), 0.05: (26.5, 24.5, 25.2), 0.01: (36.5, 31.1, 34.3)}
_LATER = {0.1: (14.0, 16.2, 14.9), 0.05: (16.3, 17.4, 16.4), 0.01: (20.1, 20.3, 20.0)}
"""By false-alarm rate and number of readings: the largest over all noises.

Measured by `python -m benchmarks.suites.stages.calibration` on flat noise, from independent to a random walk, and
sums of both.
"""


@dataclass(frozen=True)
class Price:
    """Twice the log likelihood ratio that K changes must exceed: first + (K - 1) later."""

    first: float
    later: float

    def of(self, changes: int) -> float:
        return self.first + (changes - 1) * self.later if changes else 0.0


def price(false_alarms: float, readings: int) -> Price:
    """What flat noise exceeds in this share of curves, whatever the number of changes.

    Between and beyond the tables it goes with the logarithm of the rate and of the number of readings.
    """
    check_between("false_alarms", false_alarms, 1e-6, 0.5)
    return Price(*(_between(table, false_alarms, readings) for table in (_FIRST, _LATER)))


def _between(table: dict[float, tuple[float, ...]], false_alarms: float, readings: int) -> float:
    at_rate = {
        rate: float(np.interp(np.log(readings), np.log(_READINGS), prices)) for rate, prices in table.items()
    }
    near, far = (0.05, 0.01) if false_alarms < 0.05 else (0.1, 0.05)
    slope = (at_rate[far] - at_rate[near]) / np.log(near / far)
    return at_rate[near] + slope * float(np.log(near / false_alarms))
