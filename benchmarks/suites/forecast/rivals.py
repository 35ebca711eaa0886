"""statsforecast on one competition set, in an environment of its own: it needs an older pandas than ours.

`python -m benchmarks.suites.forecast.rivals MODEL SEASON HORIZON EVERY IN.csv OUT.csv` fits MODEL (AutoETS,
AutoTheta, AutoARIMA) to every EVERY-th series of IN (unique_id, part, step, y; only part "train" is read) and
writes unique_id, step, mean and the ends of the 80 and 95 % intervals. Prints the seconds that took.
"""

import sys
import time

import pandas as pd


def train_part(path: str, every: int) -> pd.DataFrame:
    """The training rows of every `every`-th series, as statsforecast wants them."""
    frame = pd.read_csv(path)
    kept = frame["unique_id"].unique()[::every]
    frame = frame[(frame["part"] == "train") & frame["unique_id"].isin(kept)]
    return frame.rename(columns={"step": "ds"})[["unique_id", "ds", "y"]]


def main(model: str, season: int, horizon: int, every: int, source: str, out: str) -> None:
    from statsforecast import StatsForecast, models

    frame = train_part(source, every)
    made = getattr(models, model)(season_length=season)
    fallback = models.SeasonalNaive(season_length=season)
    run = StatsForecast(models=[made], freq=1, n_jobs=1, fallback_model=fallback)
    run.forecast(df=frame.groupby("unique_id").tail(12).head(24), h=1)  # compiles and imports
    start = time.process_time()
    found = run.forecast(df=frame, h=horizon, level=[80, 95])
    seconds = time.process_time() - start
    found.rename(columns={model: "mean"}).to_csv(out, index=False)
    print(f"{seconds:.2f}")


if __name__ == "__main__":
    name, *sizes, source_path, out_path = sys.argv[1:]
    main(name, *(int(size) for size in sizes), source_path, out_path)
