"""`ATTANGENT_DATA=folder python -m benchmarks.suites.forecast.single_series [--series 40] [--out FILE]`.

What a user with one series gets: of every set of `benchmarks.suites.forecast.competitions` some series,
evenly taken, each forecast by itself with defaults, so that nothing is learned from the others. Writes MASE
of `auto`, of its combination and of the naive forecasts, and the share of test values within the intervals.
"""

import argparse
import os
from pathlib import Path

import numpy as np
import pandas as pd

from attangent._core.files import write_whole
from attangent._core.progress import track
from attangent.forecast.data.panel import Panel
from attangent.forecast.pipeline.backtest import Backtest
from attangent.forecast.pipeline.combination import PanelRequest, candidates, forecast_panel
from attangent.forecast.pipeline.evaluation import coverage, mase
from benchmarks.suites.forecast.competitions import SETS, Competition, load, markdown

NAMED = ("combination", "seasonal", "persistence")


def alone(data: Competition, count: int) -> dict[str, float]:
    """Means over `count` series of a set, each forecast by itself."""
    taken = np.unique(np.linspace(0, len(data.train) - 1, count).astype(int))
    rows = [_one(Panel.of([data.train[k]], SETS[data.name][0]), data.test[k : k + 1]) for k in taken]
    return {"series": len(rows), **pd.DataFrame(rows).mean().to_dict()}


def _one(panel: Panel, actual: np.ndarray) -> dict[str, float]:
    horizon, scale = actual.shape[1], panel.scale
    backtest = Backtest.of(panel, horizon)
    found = forecast_panel(panel, PanelRequest(horizon, panel.period, (0.025, 0.1, 0.9, 0.975)), backtest)
    tried = candidates(backtest)
    q = found.quantiles
    errors = {name: mase(actual, panel.non_negative(tried[name].forecasts), scale)[0] for name in NAMED}
    return {
        "auto": mase(actual, found.forecasts, scale)[0],
        **errors,
        "coverage 80": coverage(actual, q[:, :, 1], q[:, :, 2]),
        "coverage 95": coverage(actual, q[:, :, 0], q[:, :, 3]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.suites.forecast.single_series", description=__doc__
    )
    parser.add_argument("--series", type=int, default=40, help="series of each set")
    parser.add_argument(
        "--out", type=Path, default=Path("benchmarks/results/competition_alone.md"), help="the table"
    )
    options = parser.parse_args()
    folder = Path(os.environ.get("ATTANGENT_DATA", "."))
    rows = {name: alone(load(folder, name), options.series) for name in track(list(SETS), "sets")}
    table = pd.DataFrame(rows).T
    table.loc["mean"] = table.mean()
    text = f"MASE and shares within the intervals, every series by itself:\n\n{markdown(table.round(3))}\n"
    write_whole(options.out, text)
    print(text)


if __name__ == "__main__":
    main()
