"""Prices of the stage detector: upper quantiles of what changes gain on flat noise of several kinds.

    python -m benchmarks.suites.stages.calibration [--draws 120] [--readings 30 120 400] [--jobs 2]

writes `benchmarks/results/detector_calibration.json`; rows of other numbers of readings are kept. The
streams of random numbers are its own: no curve of `benchmarks.suites.stages.detector` is drawn here. The
noises are e_t = phi e_(t-1) + w_t - theta w_(t-1), which for 0 < theta < phi is autocorrelated noise and
independent noise together.
"""

import argparse
import json

import numpy as np
from joblib import Parallel, delayed
from scipy.signal import lfilter

from attangent._core.files import write_json
from attangent.stages.loss_model import LossCurve, LossFit
from attangent.stages.search import with_one_more
from benchmarks.harness.folders import RESULTS

NOISES = (
    (0.0, 0.0),
    (0.9, 0.0),
    (0.97, 0.0),
    (0.999, 0.0),
    (0.96, 0.7),
    (0.985, 0.8),
    (0.999, 0.7),
    (0.999, 0.86),
    (0.999, 0.95),
)
"""(phi, theta)"""
RATES = (0.1, 0.05, 0.01)
PLACE = RESULTS / "detector_calibration.json"
_BEFORE = 3000


def gains(curve: LossCurve, most: int = 3) -> list[float]:
    """Return the gains of 1 to `most` changes over none, added one by one."""
    fit = null = LossFit(curve)
    gained = []
    for _ in range(most):
        fit = with_one_more(fit)
        gained.append(fit.gain_over(null))
    return gained


def one(phi: float, theta: float, n: int, draw: int) -> list[float]:
    random = np.random.default_rng([987, draw, n, round(1000 * phi), round(1000 * theta)])
    noise = lfilter([1, -theta], [1, -phi], random.normal(size=n + _BEFORE))[_BEFORE:]
    return gains(LossCurve.of(np.arange(n, dtype=float), 1 + 0.1 * noise))


def quantiles(found: np.ndarray) -> dict[str, float]:
    """The tail above the upper quarter is taken as exponential: steadier than single order statistics."""
    start = float(np.quantile(found, 0.75))
    scale = float((found[found > start] - start).mean())
    return {f"{rate:g}": round(start + scale * np.log(0.25 / rate), 2) for rate in RATES}


def row(phi: float, theta: float, n: int, draws: int, jobs: int) -> dict[str, object]:
    found = np.array(Parallel(jobs)(delayed(one)(phi, theta, n, draw) for draw in range(draws)))
    by_count = {str(count): quantiles(gain) for count, gain in enumerate(found.T, 1)}
    return {"readings": n, "phi": phi, "theta": theta, "draws": draws, "changes": by_count}


def prices(rows: list[dict]) -> dict[int, dict[str, tuple[float, float]]]:
    """first and later by number of readings and rate: K changes cost at least the largest over all noises."""
    table: dict[int, dict[str, tuple[float, float]]] = {}
    for n in sorted({row["readings"] for row in rows}):
        largest = {
            rate: [max(r["changes"][str(k)][rate] for r in rows if r["readings"] == n) for k in (1, 2, 3)]
            for rate in map("{:g}".format, RATES)
        }
        table[n] = {
            rate: (first, round(max(two - first, (three - first) / 2), 2))
            for rate, (first, two, three) in largest.items()
        }
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=120)
    parser.add_argument("--readings", type=int, nargs="*", default=[30, 120, 400])
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    before = json.loads(PLACE.read_text()) if PLACE.exists() else []
    rows = [row for row in before if row["readings"] not in given.readings]
    for n in given.readings:
        for phi, theta in NOISES:
            rows.append(row(phi, theta, n, given.draws, given.jobs))
            print(rows[-1], flush=True)
    write_json(PLACE, sorted(rows, key=lambda row: row["readings"]))
    for n, by_rate in prices(rows).items():
        print(n, by_rate)


if __name__ == "__main__":
    main()
