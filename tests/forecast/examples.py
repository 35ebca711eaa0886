"""Series and settings the tests of this room share."""

import os
from pathlib import Path

import numpy as np
import pytest


def waves(times=400, channels=2, noise=0.1, seed=0):
    """Sines of period 12 and 20 with noise, (times, channels)."""
    t = np.arange(times)[:, None]
    periods = np.array([12.0, 20.0, 7.0])[:channels]
    return np.sin(2 * np.pi * t / periods) + noise * np.random.default_rng(seed).normal(
        size=(times, channels)
    )


def autoregression(times=3000, weights=(0.6, -0.3), seed=0):
    rng, x = np.random.default_rng(seed), np.zeros(times)
    for t in range(len(weights), times):
        x[t] = sum(w * x[t - 1 - k] for k, w in enumerate(weights)) + rng.normal()
    return x


def setar(times=3000, seed=0):
    """A threshold autoregression: the slope is 1.2 below zero and -1.2 above."""
    rng, x = np.random.default_rng(seed), np.zeros(times)
    for t in range(1, times):
        x[t] = np.clip(1 + (1.2 if x[t - 1] < 0 else -1.2) * x[t - 1] + 0.2 * rng.normal(), -3, 3)
    return x


def logistic_map(times=2000):
    x = np.full(times, 0.3)
    for t in range(1, times):
        x[t] = 3.9 * x[t - 1] * (1 - x[t - 1])
    return x


def ett(name):
    """The path of an ETT file; skips where the data is not there."""
    folder = os.environ.get("ATTANGENT_DATA")
    path = Path(folder or ".") / "ett" / f"{name}.csv.gz"
    if not folder or not path.is_file():
        pytest.skip("set ATTANGENT_DATA to a folder with ett/ETTh1.csv.gz to run this")
    return path
