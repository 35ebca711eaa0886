"""Coverage of rolling intervals in the test months of ETT, each target by itself: the table of forecast.md.

`ATTANGENT_DATA=folder python docs/tools/coverage.py`, where the folder holds ett/ETTh1.csv.gz and
ett/ETTh2.csv.gz.
"""

import os
from pathlib import Path

import numpy as np

from attangent.forecast import read_frame
from attangent.forecast.models.catalogue import AUTO
from attangent.forecast.pipeline.choose import Trial, folds, try_model
from attangent.forecast.pipeline.conformal import recalibrate

MONTHS_END = 14_400
LOOKBACK = 336


def trials(series: np.ndarray, horizon: int) -> list[Trial]:
    """Five folds, the last two of which are the test months, of the model that is best in the first three."""
    parts = folds(MONTHS_END, LOOKBACK, horizon)
    tried = {
        name: [try_model(name, series, fold, k, LOOKBACK, horizon) for k, fold in enumerate(parts)]
        for name in AUTO
    }
    return min(tried.values(), key=lambda found: np.mean([trial.mse for trial in found[:3]]))


def coverage(series: np.ndarray, horizon: int, levels: tuple[float, ...]) -> list[float]:
    found = [trial.residuals for trial in trials(series, horizon)]
    test = found[3] + found[4]
    return [recalibrate([*found[:3], test], level, horizon).coverage for level in levels]


def main() -> None:
    folder, levels = Path(os.environ["ATTANGENT_DATA"]), (0.8, 0.95)
    for name in ("ETTh1", "ETTh2"):
        frame = read_frame(folder / "ett" / f"{name}.csv.gz").frame.iloc[:MONTHS_END]
        for horizon in (24, 96, 336):
            rows = [coverage(frame[column].to_numpy(dtype=np.float64), horizon, levels) for column in frame]
            for level, shares in zip(levels, np.array(rows).T, strict=True):
                each = ", ".join(f"{c} {s:.1%}" for c, s in zip(frame.columns, shares, strict=True))
                print(f"{name}, horizon {horizon}, {level:.0%}: {each}; mean {shares.mean():.1%}")


if __name__ == "__main__":
    main()
