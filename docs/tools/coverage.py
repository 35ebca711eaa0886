"""Coverage of the intervals of long series: the table of forecast.md.

`ATTANGENT_DATA=folder python docs/tools/coverage.py [ENDS]`; the folder holds ett/ETTh1.csv.gz and
ett/ETTh2.csv.gz. Each target is forecast by itself from ENDS ends (8 by default), evenly spaced over the test
months.
"""

import os
import sys
from pathlib import Path

import numpy as np

from attangent.forecast.data.panel import Panel, seasonal_scale
from attangent.forecast.data.series import SeriesColumns, read_series
from attangent.forecast.pipeline.combination import PanelRequest, forecast_panel

TEST_MONTHS = (11_520, 14_400)
PERIOD = 24
PROBABILITIES = (0.1, 0.9, 0.025, 0.975)


def scores(series: np.ndarray, end: int, horizon: int) -> tuple[float, float, float]:
    """MASE and the shares within 80 and 95 % intervals of one forecast."""
    panel = Panel.of([series[:end]], PERIOD)
    result = forecast_panel(panel, PanelRequest(horizon, PERIOD, PROBABILITIES))
    actual = series[end : end + horizon]
    low, high, lowest, highest = result.quantiles[0].T
    mase = np.abs(result.forecasts[0] - actual).mean() / seasonal_scale(panel)[0]
    inside = ((low <= actual) & (actual <= high)).mean()
    return float(mase), float(inside), float(((lowest <= actual) & (actual <= highest)).mean())


def main() -> None:
    folder = Path(os.environ["ATTANGENT_DATA"])
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    for name in ("ETTh1", "ETTh2"):
        table = read_series(folder / "ett" / f"{name}.csv.gz", SeriesColumns(None, None, ()))
        for horizon in (24, 96):
            ends = np.linspace(TEST_MONTHS[0], TEST_MONTHS[1] - horizon, count).astype(int)
            rows = [[scores(series, end, horizon) for end in ends] for series in table.series]
            mase, inside, inside_wide = np.mean(rows, axis=(0, 1))
            print(f"{name}, horizon {horizon}: MASE {mase:.3f}, 80 %: {inside:.1%}, 95 %: {inside_wide:.1%}")


if __name__ == "__main__":
    main()
