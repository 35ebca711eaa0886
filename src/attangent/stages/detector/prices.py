"""What a change must gain before it is believed: the false-alarm rate, turned into a likelihood ratio."""

import numpy as np

from attangent._checks import check_between

_READINGS = (30, 120, 400)
_PRICES = {0.1: (23.0, 22.3, 21.5), 0.05: (27.1, 25.1, 23.8), 0.01: (36.9, 31.7, 29.1)}
"""By false-alarm rate and number of readings: the largest over all correlations of the noise.

Measured by `python -m benchmarks.detector_calibration` on flat noise, from independent to a random walk.
"""


def price(false_alarms: float, readings: int) -> float:
    """Twice the log likelihood ratio per change that flat noise exceeds in this share of curves.

    Between and beyond the table it goes with the logarithm of the rate and of the number of readings.
    """
    check_between("false_alarms", false_alarms, 1e-6, 0.5)
    at_rate = {
        rate: float(np.interp(np.log(readings), np.log(_READINGS), prices))
        for rate, prices in _PRICES.items()
    }
    near, far = (0.05, 0.01) if false_alarms < 0.05 else (0.1, 0.05)
    slope = (at_rate[far] - at_rate[near]) / np.log(near / far)
    return at_rate[near] + slope * float(np.log(near / false_alarms))
