"""Series and readings as arrays and frames."""

import numpy as np
import pandas as pd


def wave(count: int = 120) -> np.ndarray:
    return np.sin(np.arange(float(count))) + 0.1 * np.cos(7.0 * np.arange(count))


def days(count: int) -> pd.DatetimeIndex:
    return pd.date_range("2020-01-01", periods=count)


def panel() -> pd.DataFrame:
    return pd.DataFrame({"unique_id": "a", "ds": days(40), "y": wave(40)})


def readings() -> pd.DataFrame:
    steps = np.arange(80.0)
    return pd.DataFrame({"group": "a", "step": steps, "loss": np.exp(-steps / 20)})
