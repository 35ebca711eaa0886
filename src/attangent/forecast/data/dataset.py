"""A benchmark series with its split, standardised on train."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attangent._core.display import brief_fields
from attangent._core.errors import AttangentError
from attangent.forecast.data.frames import read_frame

Array = NDArray[np.float64]
Split = Literal["ett", "ltsf"]
Part = Literal["train", "validation", "test"]

_MONTH_HOURS = 30 * 24


@dataclass(frozen=True)
class Dataset:
    """`values` (T, C) standardised by mean and deviation of train; `ends` of train, validation and test.

    `digest` is of the file's values, so that results can say which data they are of.
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

    def part(self, which: Part, lookback: int = 0) -> Array:
        """A part with `lookback` values before it, so that its first window forecasts its first value."""
        i = get_args(Part).index(which)
        start = 0 if i == 0 else self.ends[i - 1] - lookback
        if start < 0:
            raise AttangentError(
                f"a look-back of {lookback} reaches before the {self.ends[0]} values of train"
            )
        return self.values[start : self.ends[i]]


def load_csv(path: str | Path, split: Split = "ltsf") -> Dataset:
    """A CSV with dates in its first column, split as published and standardised on train.

    "ett" is 12/4/4 months of 30 days (hourly or by quarter-hours), the rest is left out; "ltsf" is 7/1/2.
    """
    if split not in get_args(Split):
        raise AttangentError(f"split is {split!r}, expected one of {', '.join(get_args(Split))}")
    frame = read_frame(path).frame
    return from_frame(frame, Path(path).name.split(".")[0], split)


def from_frame(frame: pd.DataFrame, name: str, split: Split = "ltsf") -> Dataset:
    """The same from a frame of numbers.

    >>> import pandas as pd
    >>> from_frame(pd.DataFrame({"v": np.arange(100.0)}), "line", split="ltsf").ends
    (70, 80, 100)
    """
    raw = frame.to_numpy(dtype=np.float64)
    ends = _ett_ends(frame) if split == "ett" else _ltsf_ends(len(raw))
    train = raw[: ends[0]]
    mean, scale = train.mean(axis=0), train.std(axis=0)
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
    train, test = int(0.7 * length), int(0.2 * length)
    if train < 1 or test < 1:
        raise AttangentError(f"the series has {length} times, too few for a 7/1/2 split")
    return train, length - test, length
