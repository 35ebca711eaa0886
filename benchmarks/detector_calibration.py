"""Prices of the stage detector: upper quantiles of its statistic on flat autocorrelated noise.

    python -m benchmarks.detector_calibration [--draws 120] [--jobs 2]

writes `benchmarks/detector_calibration.json`. The streams of random numbers are its own: no curve of
`benchmarks.detector` is drawn here.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from attangent.stages.detector.course import Readings
from attangent.stages.detector.search import statistic
from benchmarks.detector_curves import autocorrelated

CORRELATIONS = (0.0, 0.9, 0.97, 0.999)
READINGS = (30, 120, 400)
PLACE = Path(__file__).with_name("detector_calibration.json")


def one(phi: float, n: int, draw: int) -> float:
    random = np.random.default_rng([987, draw, n, round(1000 * phi)])
    losses = 1 + autocorrelated(phi, 0.1)(random, n)
    return statistic(Readings.of(np.arange(n, dtype=float), losses))


def quantiles(found: list[float]) -> dict[str, float]:
    """The tail above the upper quarter is taken as exponential: steadier than single order statistics."""
    values = np.sort(found)
    start = float(np.quantile(values, 0.75))
    scale = float((values[values > start] - start).mean())
    return {f"{rate:g}": round(start + scale * np.log(0.25 / rate), 2) for rate in (0.1, 0.05, 0.01)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=120)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    rows = []
    for n in READINGS:
        for phi in CORRELATIONS:
            found = Parallel(given.jobs)(delayed(one)(phi, n, draw) for draw in range(given.draws))
            rows.append({"readings": n, "phi": phi, "draws": given.draws, **quantiles(found)})
            print(rows[-1], flush=True)
    PLACE.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
