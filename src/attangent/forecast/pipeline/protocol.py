"""The published protocol: fit on train, choose on validation, score on every window of test."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attangent._core.errors import AttangentError
from attangent.forecast.data.dataset import Dataset
from attangent.forecast.data.inputs import as_series
from attangent.forecast.data.windows import every_window
from attangent.forecast.models.forecaster import Forecaster

Array = NDArray[np.float64]


def errors_by_step(forecaster: Forecaster, series: Array) -> tuple[Array, Array, int]:
    """Mean squared and mean absolute error (H, C) over every window of (T, C), and the number of windows."""
    series = as_series("series", series)
    squares = absolutes = np.zeros((forecaster.horizon, series.shape[1]))
    count = 0
    for inputs, targets in every_window(series, forecaster.lookback, forecaster.horizon):
        error = forecaster.predict(inputs if not forecaster.flat_ else inputs[..., 0])
        error = error.reshape(targets.shape) - targets
        squares, absolutes = squares + np.square(error).sum(axis=0), absolutes + np.abs(error).sum(axis=0)
        count += len(targets)
    return squares / count, absolutes / count, count


def evaluate(forecaster: Forecaster, dataset: Dataset, *, refit: bool = True) -> pd.DataFrame:
    """A tidy frame: one row for each step of the horizon and one, step "all", over them, with mse and mae.

    The model is fitted on train with the validation part unless `refit` is False. Errors are of the
    standardised series, over every test window and channel; the protocol is written into each row.
    """
    if refit:
        forecaster.fit(dataset.part("train"), dataset.part("validation", forecaster.lookback))
    mse, mae, count = errors_by_step(forecaster, dataset.part("test", forecaster.lookback))
    rows = [
        {"step": step, "mse": s, "mae": a}
        for step, s, a in zip(range(1, len(mse) + 1), mse.mean(axis=1), mae.mean(axis=1), strict=True)
    ]
    rows.insert(0, {"step": "all", "mse": mse.mean(), "mae": mae.mean()})
    return pd.DataFrame(rows).assign(**_protocol(forecaster, dataset, count))


def _protocol(forecaster: Forecaster, dataset: Dataset, count: int) -> dict[str, Any]:
    plan = getattr(forecaster, "plan", None)
    return {
        "model": type(forecaster).__name__,
        "dataset": dataset.name,
        "data": dataset.digest,
        "split": dataset.split,
        "lookback": forecaster.lookback,
        "horizon": forecaster.horizon,
        "seed": getattr(plan, "seed", None),
        "test_windows": count,
        "channels": len(dataset.columns),
    }


def compare(
    forecasters: Sequence[Forecaster], datasets: Sequence[Dataset], horizons: Sequence[int], lookback: int
) -> pd.DataFrame:
    """The "all" rows of fresh copies of the forecasters at every horizon, with one look-back for all."""
    given = {"forecasters": forecasters, "datasets": datasets, "horizons": horizons}
    for name, some in given.items():
        if not some:
            raise AttangentError(f"{name} is empty, expected at least one")
    tables = [
        evaluate(_resized(forecaster, lookback, horizon), dataset)
        for dataset in datasets
        for horizon in horizons
        for forecaster in forecasters
    ]
    totals = [table.iloc[:1].drop(columns="step") for table in tables]
    return pd.concat(totals, ignore_index=True)


def _resized(forecaster: Forecaster, lookback: int, horizon: int) -> Forecaster:
    """A fresh copy with another look-back and horizon."""
    return type(forecaster)(**{**forecaster.get_params(), "lookback": lookback, "horizon": horizon})
