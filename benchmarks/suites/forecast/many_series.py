"""`python -m benchmarks.suites.forecast.many_series [--series 20000] [--days 365] [--out FILE]`.

Forecasts many daily series 14 steps ahead with 80 % intervals and defaults, in one process, and prints
seconds of processor time without reading a table, and peak memory of the process. The series are
Poisson counts with a week of their own. Bars: 20,000 series in at most 60 s and 600 MB.
"""

import argparse
import resource
import time
from pathlib import Path

import numpy as np
import pandas as pd

from attangent._core.files import write_whole
from attangent.forecast import SeriesForecaster
from attangent.forecast.data.calendar import DAY, TimeStep
from attangent.forecast.data.series import SeriesColumns, SeriesSet


def series_set(count: int, days: int) -> SeriesSet:
    rng = np.random.default_rng(0)
    t = np.arange(days)
    level = rng.uniform(5, 50, count)
    phase = rng.uniform(0, 7, count)
    series = [
        rng.poisson(a * (1 + 0.3 * np.sin(2 * np.pi * (t + p) / 7))).astype(np.float64)
        for a, p in zip(level, phase, strict=True)
    ]
    last = [pd.Timestamp("2024-12-31")] * count
    return SeriesSet(list(map(str, range(count))), series, last, TimeStep("fixed", DAY), SeriesColumns())


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.suites.forecast.many_series", description=__doc__
    )
    parser.add_argument("--series", type=int, default=20_000)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/many_series.md"))
    options = parser.parse_args()
    small = series_set(3, 60)
    forecaster = SeriesForecaster().fit(
        pd.DataFrame({"unique_id": "a", "ds": pd.date_range("2024-01-01", periods=60), "y": small.series[0]})
    )
    forecaster.series_ = series_set(options.series, options.days)
    start = time.process_time()
    forecaster.outlook(14, [80])
    seconds = time.process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    text = (
        f"{options.series:,} daily series of {options.days} values, 14 steps ahead: {seconds:.1f} s of "
        f"processor time, {memory:.0f} MB at most.\n"
    )
    write_whole(options.out, text)
    print(text)


if __name__ == "__main__":
    main()
