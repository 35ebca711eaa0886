"""`ATTANGENT_DATA=folder python -m benchmarks.suites.forecast.kinds --kept FOLDER [--out FILE]`.

Forecasts the six sets of folder/series (spare parts, cash withdrawals, retail, prescriptions, electricity)
with defaults and compares with the forecasts of other models that `benchmarks.suites.forecast.rivals` wrote
to FOLDER as SET-MODEL.csv, with their seconds of processor time in SET-MODEL.seconds. Writes MASE of the
medians and weighted quantile loss, relative to the seasonal naive forecast with normal intervals, and their
geometric means. Models read the training parts only. A value that another model leaves out is that of the
seasonal naive forecast, which is also statsforecast's fallback here; their number is in the last table.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attangent._core.files import write_whole
from attangent.forecast import SeriesForecaster
from attangent.forecast.data.panel import Panel
from attangent.forecast.pipeline.evaluation import coverage, mase, weighted_quantile_loss
from benchmarks.suites.forecast.competitions import markdown, naive_quantiles

Array = NDArray[np.float64]

SETS = {
    "carparts": (12, 12), "nn5_daily": (7, 56), "aus_retail": (12, 24), "pbs": (12, 12),
    "ausgrid_weekly": (1, 8), "nn5_weekly": (1, 8),
}  # fmt: skip
"""Period of the scale and of the naive forecast, and horizon."""
RIVALS = ("FLAIR", "LightGBM", "AutoETS", "AutoTheta", "AutoCES", "MSTL", "IMAPA")
TENTHS = np.arange(1, 10) / 10
PROBABILITIES = (0.025, *TENTHS, 0.975)


def wide(frame: pd.DataFrame, columns: list[str], ids: list[str]) -> Array:
    """Return the columns as (N, H, Q) in the order of `ids`, with NaN for what is missing."""
    ahead = frame.groupby("unique_id").cumcount()
    index = [frame["unique_id"], ahead.rename("ahead")]
    tables = [frame[name].set_axis(pd.MultiIndex.from_arrays(index)).unstack() for name in columns]
    return np.stack([table.reindex(ids).to_numpy(dtype=np.float64) for table in tables], axis=2)


def score(name: str, folder: Path, kept: Path) -> list[dict]:
    """Return a row per model of one set."""
    period, horizon = SETS[name]
    frame = pd.read_csv(folder / "series" / f"{name}.csv.gz", dtype={"unique_id": str})
    train = frame[frame["part"] == "train"].drop(columns="part")
    start = time.process_time()
    forecaster = SeriesForecaster().fit(train)
    forecasts = forecaster.predict(horizon, quantiles=PROBABILITIES)
    seconds = time.process_time() - start
    series = dict(zip(forecaster.series_.ids, forecaster.series_.series, strict=True))
    ids = sorted(series, key=lambda key: -len(series[key]))
    actual = wide(frame[frame["part"] == "test"], ["y"], ids)[:, :, 0]
    scale = Panel.of([series[key] for key in ids], period).scale
    naive = naive_quantiles([series[key] for key in ids], period, horizon, PROBABILITIES)
    quantiles = {"attangent": wide(forecasts, [f"attangent-q{p:g}" for p in PROBABILITIES], ids)}
    times = {"attangent": seconds}
    absent = {"attangent": 0}
    for model in RIVALS:
        path = kept / f"{name}-{model}.csv"
        if (clock := path.with_suffix(".seconds")).is_file():
            table = pd.read_csv(path, dtype={"unique_id": str})
            known = wide(table, [f"q{p:g}" for p in PROBABILITIES], ids)
            quantiles[model] = np.where(np.isfinite(known), known, naive)
            absent[model] = int((~np.isfinite(known)).sum())
            times[model] = float(clock.read_text())
    known = np.isfinite(actual)
    actual = np.where(known, actual, 0.0)

    def measures(q: Array) -> tuple[float, float]:
        q = np.where(known[:, :, None], q, 0.0)  # steps without a value have no error
        error = float(mase(actual, q[:, :, 5], scale).mean())
        return error, weighted_quantile_loss(actual, q[:, :, 1:-1], TENTHS)

    base, base_loss = measures(naive)
    rows = []
    for model, q in quantiles.items():
        error, loss = measures(q)
        row = {"set": name, "model": model, "mase": error / base, "wql": loss, "relative": loss / base_loss}
        row["coverage"] = coverage(actual[known], q[:, :, 1][known], q[:, :, 9][known])
        rows.append(row | {"seconds": times[model], "absent": absent[model]})
    return rows


def table(rows: list[dict]) -> str:
    """Return the tables as Markdown; a geometric mean is given for models that ran on every set."""
    frame = pd.DataFrame(rows)
    lines = []
    for column, title in (
        ("mase", "MASE of the median, relative to the seasonal naive forecast"),
        ("relative", "Weighted quantile loss, relative to the seasonal naive forecast"),
        ("wql", "Weighted quantile loss"),
        ("coverage", "Fraction of values within 80 % intervals"),
        ("seconds", "Seconds of processor time"),
        ("absent", "Values taken from the seasonal naive forecast"),
    ):
        values = frame.pivot_table(index="set", columns="model", values=column, sort=False)
        if column in ("mase", "relative"):
            values.loc["geometric mean"] = np.exp(np.log(values).mean(skipna=False))
        lines += [f"{title}:", "", markdown(values.round(3)), ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.suites.forecast.kinds", description=__doc__)
    parser.add_argument("--kept", type=Path, required=True, help="forecasts of other models")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/kinds.md"), help="the table")
    options = parser.parse_args()
    folder = Path(os.environ.get("ATTANGENT_DATA", "."))
    rows = [row for name in SETS for row in score(name, folder, options.kept)]
    text = table(rows)
    write_whole(options.out, text)
    print(text)


if __name__ == "__main__":
    main()
