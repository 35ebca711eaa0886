"""The published protocol: fit on train, choose on validation, score on every window of test."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attangent._core.checks import check_choice
from attangent._core.display import brief_fields
from attangent._core.errors import AttangentError
from attangent.forecast.data.tables import numeric_columns, read_table, take_times
from attangent.papers.p5_forecasting.windows.forecaster import Forecaster, as_series, every_window

Array = NDArray[np.float64]
Split = Literal["ett", "ltsf"]
SplitName = Literal["train", "validation", "test"]

_MONTH_HOURS = 30 * 24


@dataclass(frozen=True)
class Dataset:
    """A benchmark series with its split.

    Attributes:
        name: Name of the data.
        columns: Names of the channels.
        values: (T, C), standardised by mean and deviation of train.
        ends: Ends of train, validation and test.
        mean: (C,).
        scale: (C,).
        split: Name of the split.
        digest: Digest of the raw values, so that results can name their data.
    """

    name: str
    columns: tuple[str, ...]
    values: Array
    ends: tuple[int, int, int]
    mean: Array
    scale: Array
    split: str
    digest: str

    __repr__ = brief_fields

    def part(self, which: SplitName, lookback: int = 0) -> Array:
        """Return a part with `lookback` values before it: its first window forecasts its first value.

        Args:
            which: Name of the part.
            lookback: Number of values before it.
        """
        i = get_args(SplitName).index(check_choice("which", which, get_args(SplitName)))
        start = 0 if i == 0 else self.ends[i - 1] - lookback
        if start < 0:
            raise AttangentError(
                f"a look-back of {lookback} reaches before the {self.ends[0]} values of train"
            )
        return self.values[start : self.ends[i]]


def load_csv(path: str | Path, split: Split = "ltsf") -> Dataset:
    """Read a CSV with a column of dates, split as published and standardised on train.

    Args:
        path: The file.
        split: "ett" is 12/4/4 months of 30 days (the rest is left out), "ltsf" is 7/1/2.

    Raises:
        AttangentError: If the file cannot be read or is too short.
    """
    check_choice("split", split, get_args(Split))
    raw, times = take_times(read_table(Path(path)), None, (), [])
    frame = numeric_columns(raw, (), []).set_axis(times)
    return from_frame(frame, Path(path).name.split(".")[0], split)


def from_frame(frame: pd.DataFrame, name: str, split: Split = "ltsf") -> Dataset:
    """Split a frame of numbers as published and standardise it on train.

    Args:
        frame: Numbers with times as the index.
        name: Name of the data.
        split: "ett" or "ltsf", see `load_csv`.

    Example:
        >>> from_frame(pd.DataFrame({"v": np.arange(100.0)}), "line", split="ltsf").ends
        (70, 80, 100)
    """
    raw = frame.to_numpy(dtype=np.float64)
    ends = _ett_ends(frame) if split == "ett" else _ltsf_ends(len(raw))
    train = raw[: ends[0]]
    mean = train.mean(axis=0)
    scale = train.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    digest = hashlib.sha256(np.ascontiguousarray(raw).tobytes()).hexdigest()[:16]
    columns = tuple(str(column) for column in frame.columns)
    return Dataset(name, columns, (raw - mean) / scale, ends, mean, scale, split, digest)


def _ett_ends(frame: pd.DataFrame) -> tuple[int, int, int]:
    per_hour = 1
    if isinstance(frame.index, pd.DatetimeIndex) and len(frame) > 1:
        seconds = pd.Timedelta(frame.index[1] - frame.index[0]).total_seconds()
        per_hour = max(1, round(3600 / seconds))
    month = _MONTH_HOURS * per_hour
    if len(frame) < 20 * month:
        raise AttangentError(
            f"the series has {len(frame)} times, expected 20 months of {month} for the ETT split: "
            'use split="ltsf"'
        )
    return 12 * month, 16 * month, 20 * month


def _ltsf_ends(length: int) -> tuple[int, int, int]:
    train = int(0.7 * length)
    test = int(0.2 * length)
    if train < 1 or test < 1:
        raise AttangentError(f"the series has {length} times, too few for a 7/1/2 split")
    return train, length - test, length


def errors_by_step(forecaster: Forecaster, series: Array) -> tuple[Array, Array, int]:
    """Return mean squared and mean absolute errors (H, C) over every window, and the number of windows.

    Args:
        forecaster: A fitted forecaster.
        series: (T, C).
    """
    series = as_series("series", series)
    squares = absolutes = np.zeros((forecaster.horizon, series.shape[1]))
    count = 0
    for inputs, targets in every_window(series, forecaster.lookback, forecaster.horizon):
        error = forecaster.predict(inputs if not forecaster.flat_ else inputs[..., 0])
        error = error.reshape(targets.shape) - targets
        squares = squares + np.square(error).sum(axis=0)
        absolutes = absolutes + np.abs(error).sum(axis=0)
        count += len(targets)
    return squares / count, absolutes / count, count


def evaluate_windows(forecaster: Forecaster, dataset: Dataset, *, refit: bool = True) -> pd.DataFrame:
    """Return the test errors per step of the horizon and, as step "all", over all steps.

    Args:
        forecaster: The forecaster.
        dataset: The data.
        refit: Whether to fit the forecaster on train, with the validation part, first.

    Returns:
        A frame with mse and mae of the standardised series over every test window and channel; each row
        names the protocol.
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


def compare_windows(
    forecasters: Sequence[Forecaster], datasets: Sequence[Dataset], horizons: Sequence[int], lookback: int
) -> pd.DataFrame:
    """Evaluate fresh copies of the forecasters at every horizon with one look-back.

    Args:
        forecasters: Forecasters to compare.
        datasets: Data.
        horizons: Numbers of steps ahead.
        lookback: Look-back of all forecasters.

    Returns:
        The "all" rows of `evaluate_windows`.
    """
    inputs = {"forecasters": forecasters, "datasets": datasets, "horizons": horizons}
    for name, items in inputs.items():
        if not items:
            raise AttangentError(f"{name} is empty, expected at least one")
    tables = [
        evaluate_windows(_resized(forecaster, lookback, horizon), dataset)
        for dataset in datasets
        for horizon in horizons
        for forecaster in forecasters
    ]
    totals = [table.iloc[:1].drop(columns="step") for table in tables]
    return pd.concat(totals, ignore_index=True)


def _resized(forecaster: Forecaster, lookback: int, horizon: int) -> Forecaster:
    """Return a fresh copy with another look-back and horizon."""
    return type(forecaster)(**{**forecaster.get_params(), "lookback": lookback, "horizon": horizon})
