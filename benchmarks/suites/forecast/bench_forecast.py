"""Fitting a linear forecaster from window sums against scikit-learn's Ridge and NLinear by gradients.

All see the same windows of a series (T, channels), look-back L, horizon H, less their last value, and Ridge
the same penalty. With ATTANGENT_DATA set the largest size is ETTh1's train part, else waves of its shape.
"""

import math
import os
from pathlib import Path

import numpy as np
import torch

from attangent._core.random import generator
from attangent.forecast.models.linear import JITTER
from attangent.papers.p5_forecasting.deep.training import NLinear, Training
from attangent.papers.p5_forecasting.windows.forecaster import LinearForecaster
from attangent.papers.p5_forecasting.windows.protocol import load_csv
from benchmarks.harness.benchmark import Benchmark, Contestant, Goal, Size
from benchmarks.harness.child import Work

SMALL = {"T": 2000, "channels": 2, "L": 96, "H": 24}
ETT = {"T": 8640, "channels": 7, "L": 336, "H": 96}
ALPHA = 0.03


def series(size: Size) -> np.ndarray:
    """ETTh1's standardised train part where it is at hand and of this shape, else waves with noise."""
    path = Path(os.environ.get("ATTANGENT_DATA", ".")) / "ett" / "ETTh1.csv.gz"
    if (size["T"], size["channels"]) == (8640, 7) and path.is_file():
        return load_csv(path, split="ett").part("train")
    t = torch.arange(size["T"], dtype=torch.float64)[:, None]
    periods = torch.linspace(12, 30, size["channels"], dtype=torch.float64)
    noise = torch.randn(size["T"], size["channels"], generator=generator(0, "noise"), dtype=torch.float64)
    return (torch.sin(2 * math.pi * t / periods) + 0.3 * noise).numpy()


def probe(size: Size) -> np.ndarray:
    """Windows on which all contestants are compared."""
    data, L = series(size), size["L"]
    return np.stack([data[k : k + L] for k in range(0, 5 * L, L)])


def window_sums(size: Size) -> Work:
    data, windows = series(size), probe(size)
    return lambda: LinearForecaster(size["L"], size["H"], alpha=ALPHA).fit(data).predict(windows)


def sklearn_ridge(size: Size) -> Work:
    """Ridge(solver="cholesky") on all windows, which are laid out first: that is part of its work."""
    from sklearn.linear_model import Ridge

    data, windows, L = series(size), probe(size), size["L"]

    def fit_and_predict() -> np.ndarray:
        rows = np.lib.stride_tricks.sliding_window_view(data, L + size["H"], axis=0).reshape(
            -1, L + size["H"]
        )
        rows = rows - rows[:, L - 1 : L]
        penalty = (ALPHA + JITTER) * np.square(rows[:, :L]).sum() / L
        model = Ridge(penalty, fit_intercept=False, solver="cholesky").fit(rows[:, :L], rows[:, L:])
        last = windows[:, -1:, :]
        inputs = (windows - last).transpose(0, 2, 1).reshape(-1, L)
        return model.predict(inputs).reshape(len(windows), -1, size["H"]).transpose(0, 2, 1) + last

    return fit_and_predict


def nlinear(size: Size) -> Work:
    """One epoch of NLinear by Adam; it is trained for several, so this is a lower bound of its time."""
    data = series(size)
    cut = len(data) * 4 // 5
    plan = Training(epochs=1, validation_windows=200)
    return lambda: NLinear(size["L"], size["H"], plan).fit(data[:cut], data[cut:])


CONTESTANTS = [
    Contestant("scikit-learn Ridge", sklearn_ridge),
    Contestant("attangent", window_sums),
    Contestant("NLinear, one epoch", nlinear, same_work=False),
]

BENCHMARKS = [
    Benchmark(
        name="forecast",
        about="Fitting a linear forecaster on every window of T times and some channels, look-back L, "
        "horizon H, float64, and answering five windows. The baseline is scikit-learn's Ridge on the same "
        "windows.",
        sizes=[SMALL, ETT],
        contestants=CONTESTANTS,
        baseline="scikit-learn Ridge",
        reference=lambda size: sklearn_ridge(size)(),
        tolerance=1e-6,
        goals=[
            Goal("attangent", against="scikit-learn Ridge", size=ETT, at_most=0.5),
            Goal("attangent", against="NLinear, one epoch", size=ETT, at_most=1.0),
            Goal("attangent", against="scikit-learn Ridge", size=ETT, at_most=0.2, of="peak_bytes"),
        ],
    )
]
