"""Other forecasters on one set, in an environment of their own: they need an older pandas than attangent.

`python -m benchmarks.suites.forecast.rivals MODEL SEASON HORIZON EVERY FREQ IN.csv OUT.csv` forecasts every
EVERY-th series of IN (unique_id, part, ds or step, y; only part "train" is read) and writes unique_id, ds,
mean and the quantiles q0.025, q0.1 to q0.9, q0.975. It prints the seconds of processor time. MODEL is a
model of statsforecast (AutoETS, AutoTheta, AutoARIMA, AutoCES, MSTL, IMAPA), FLAIR, or LightGBM through
mlforecast.

LightGBM has its defaults, lags 1 to 6 and one season (two if series are long), and calendar features. Its
target is scaled or seasonally differenced, whichever forecast the last HORIZON training values better. Its
quantiles are those of its errors there, pooled over the series and scaled by each one's mean absolute step.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

LEVELS = (20, 40, 60, 80, 95)
PROBABILITIES = (0.025, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.975)


def train_part(path: str, every: int) -> pd.DataFrame:
    """Return the training rows of every `every`-th series, gaps interpolated."""
    frame = pd.read_csv(path).rename(columns={"step": "ds"})
    chosen = frame["unique_id"].unique()[::every]
    frame = frame[(frame["part"] == "train") & frame["unique_id"].isin(chosen)]
    if frame["ds"].dtype == object:
        frame["ds"] = pd.to_datetime(frame["ds"])
    frame["y"] = frame.groupby("unique_id")["y"].transform(lambda y: y.interpolate(limit_direction="both"))
    return frame[["unique_id", "ds", "y"]].astype({"y": float})


def with_quantiles(forecasts: pd.DataFrame, model: str) -> pd.DataFrame:
    """Rename the columns of Nixtla's libraries; the median is the point forecast."""
    table = forecasts[["unique_id", "ds"]].copy()
    table["mean"] = forecasts[model]
    for p in PROBABILITIES:
        level = round(abs(1 - 2 * p) * 100)
        side = "lo" if p < 0.5 else "hi"
        table[f"q{p:g}"] = forecasts[model] if p == 0.5 else forecasts[f"{model}-{side}-{level}"]
    return table


def statsforecast(frame: pd.DataFrame, model: str, season: int, horizon: int, freq: Any) -> pd.DataFrame:
    from statsforecast import StatsForecast, models
    from statsforecast.utils import ConformalIntervals

    if model == "IMAPA":
        chosen = models.IMAPA(prediction_intervals=ConformalIntervals(h=horizon, n_windows=2))
    else:
        chosen = getattr(models, model)(season_length=season)
        chosen.alias = model
    fallback = models.SeasonalNaive(season_length=season)
    run = StatsForecast(models=[chosen], freq=freq, n_jobs=1, fallback_model=fallback)
    return with_quantiles(run.forecast(df=frame, h=horizon, level=list(LEVELS)), model)


def lightgbm(frame: pd.DataFrame, _: str, season: int, horizon: int, freq: Any) -> pd.DataFrame:
    from lightgbm import LGBMRegressor
    from mlforecast import MLForecast
    from mlforecast.target_transforms import Differences, LocalStandardScaler

    sizes = frame.groupby("unique_id").size()
    lags = {*range(1, 7), season, 2 * season if sizes.median() > 3 * season + 2 * horizon else season}
    dates = {"D": ["dayofweek", "month"], "W-MON": ["week"], "MS": ["month"]}.get(str(freq))

    def build(transforms: list) -> MLForecast:
        return MLForecast(
            models={"LightGBM": LGBMRegressor(verbosity=-1, n_jobs=1, random_state=0)},
            freq=freq,
            lags=sorted(lag for lag in lags if lag < sizes.median() - 2 * horizon),
            date_features=dates,
            target_transforms=transforms,
            num_threads=1,
        )

    held_out = frame[frame["unique_id"].map(sizes) > horizon + season + 8]
    tried = {}
    for lag in (0, season if season < 52 else 1):
        transforms = [*([Differences([lag])] if lag else []), LocalStandardScaler()]
        tried[lag] = build(transforms).cross_validation(held_out, n_windows=1, h=horizon)
    best = min(tried, key=lambda lag: (tried[lag]["LightGBM"] - tried[lag]["y"]).abs().mean())
    usable = frame[frame["unique_id"].map(sizes) > best]
    model = build([*([Differences([best])] if best else []), LocalStandardScaler()]).fit(usable)
    step = frame.groupby("unique_id")["y"].agg(lambda y: y.diff().abs().mean())
    error = tried[best]["y"] - tried[best]["LightGBM"]
    scaled = (error / tried[best]["unique_id"].map(step)).replace([np.inf, -np.inf], np.nan)
    ahead = tried[best].groupby("unique_id").cumcount()
    spread = scaled.groupby(ahead).quantile(list(PROBABILITIES)).unstack()
    table = model.predict(horizon).rename(columns={"LightGBM": "mean"})
    number = table.groupby("unique_id").cumcount().to_numpy()
    width = table["unique_id"].map(step).fillna(0.0).to_numpy()
    for p in PROBABILITIES:
        table[f"q{p:g}"] = table["mean"] + width * spread[p].to_numpy()[number]
    return table


def flair(frame: pd.DataFrame, _: str, season: int, horizon: int, freq: Any) -> pd.DataFrame:
    from flaircast import forecast

    names = {"D": "D", "W-MON": "W", "MS": "M"}
    name = names.get(str(freq), {1: "A", 4: "Q", 12: "M"}.get(season))
    tables = []
    for number, (key, rows) in enumerate(frame.groupby("unique_id", sort=False)):
        samples = forecast(rows["y"].to_numpy(), horizon=horizon, freq=name, seed=number)
        table = {"unique_id": key, "ds": np.arange(1, horizon + 1), "mean": np.median(samples, axis=0)}
        tables.append(
            pd.DataFrame(table | {f"q{p:g}": np.quantile(samples, p, axis=0) for p in PROBABILITIES})
        )
    return pd.concat(tables, ignore_index=True)


def main(model: str, season: int, horizon: int, every: int, freq: str, source: str, out: str) -> None:
    frame = train_part(source, every)
    run: Callable = {"LightGBM": lightgbm, "FLAIR": flair}.get(model, statsforecast)
    step: Any = 1 if freq == "1" else freq
    few = frame[frame["unique_id"].isin(frame["unique_id"].unique()[:3])]
    run(few, model, season, horizon, step)  # compiles and imports
    start = time.process_time()
    forecasts = run(frame, model, season, horizon, step)
    seconds = time.process_time() - start
    forecasts.to_csv(out, index=False)
    print(f"{seconds:.2f}")


if __name__ == "__main__":
    name, *sizes, freq_name, source_path, out_path = sys.argv[1:]
    main(name, *(int(size) for size in sizes), freq_name, source_path, out_path)
