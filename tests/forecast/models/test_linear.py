import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view

from attangent import AttangentError
from attangent.forecast.data.panel import Panel
from attangent.forecast.models.linear import (
    JITTER,
    Linear,
    Moments,
    RidgePath,
    anchor_row,
    normaliser,
    window_sums,
)
from tests.forecast.examples import waves


def slow_sums(series, width):
    windows = sliding_window_view(series, width)
    return len(windows), windows.sum(axis=0), windows.T @ windows


@given(times=st.integers(3, 90), width=st.integers(1, 90), seed=st.integers(0, 99))
def test_sums_are_those_of_the_windows(times, width, seed):
    width = min(width, times)
    series = np.random.default_rng(seed).normal(size=times)
    found = window_sums(series, width)
    count, first, second = slow_sums(series, width)
    assert found.count == count
    np.testing.assert_allclose(found.first, first, atol=1e-12 * times)
    np.testing.assert_allclose(found.second, second, atol=1e-12 * times)


def test_a_series_longer_than_a_piece(monkeypatch):
    series = np.random.default_rng(0).normal(size=200_000)
    found = window_sums(series, 5)
    _, first, second = slow_sums(series, 5)
    np.testing.assert_allclose(found.second, second, rtol=1e-10, atol=1e-6)
    np.testing.assert_allclose(found.first, first, atol=1e-8)


def test_sums_of_pieces_add_up():
    series, width = waves(300, 1)[:, 0], 20
    whole = window_sums(series, width)
    pieces = window_sums(series[:120], width) + window_sums(series[120 - width + 1 :], width)
    assert pieces.count == whole.count
    np.testing.assert_allclose(pieces.second, whole.second, atol=1e-10)


@pytest.mark.parametrize("normalise", ["last", "mean", "none"])
def test_mapped_sums_are_those_of_normalised_windows(normalise):
    series, L, H = waves(200, 1)[:, 0], 12, 5
    windows = sliding_window_view(series, L + H).copy()
    level = {"last": windows[:, L - 1], "mean": windows[:, :L].mean(axis=1), "none": 0 * windows[:, 0]}
    windows -= level[normalise][:, None]
    found = window_sums(series, L + H).mapped(normaliser(normalise, L, H))
    np.testing.assert_allclose(found.second, windows.T @ windows, atol=1e-10)
    np.testing.assert_allclose(found.first, windows.sum(axis=0), atol=1e-10)


def test_too_short_and_unknown():
    with pytest.raises(AttangentError, match="3 values holds no window of 4"):
        window_sums(np.arange(3.0), 4)
    with pytest.raises(AttangentError, match="normalise is 'first', expected one of last, mean, none"):
        anchor_row("first", 3)


def path_and_windows(series, L, H):
    sums = window_sums(series, L + H)
    path = RidgePath.of(Moments.about(np.zeros(L + H), sums, L))
    windows = np.lib.stride_tricks.sliding_window_view(series, L + H)
    return path, windows[:, :L], windows[:, L:]


def test_weights_solve_the_normal_equations():
    path, x, y = path_and_windows(waves(300, 1)[:, 0], 10, 3)
    for alpha in (0.0, 0.1, 10.0):
        penalty = (alpha + JITTER) * np.trace(x.T @ x / len(x)) / 10
        W = np.linalg.solve(x.T @ x / len(x) + penalty * np.eye(10), x.T @ y / len(x))
        np.testing.assert_allclose(path.weights(alpha), W, rtol=1e-6, atol=1e-8)


def test_errors_from_sums_are_those_of_the_windows():
    L, H, series = 10, 3, waves(300, 1)[:, 0]
    path, _, _ = path_and_windows(series, L, H)
    other = waves(200, 1, noise=0.4, seed=1)[:, 0]
    windows = np.lib.stride_tricks.sliding_window_view(other, L + H)
    alphas = np.array([0.0, 1e-3, 1.0])
    found = path.errors(alphas, path.held_out(window_sums(other, L + H)))
    slow = [np.square(windows[:, :L] @ path.weights(a) - windows[:, L:]).mean() for a in alphas]
    np.testing.assert_allclose(found, slow, rtol=1e-9)


def test_members_follow_a_wave_and_short_series_get_theta():
    series = waves(600, 1, noise=0.02)[:, 0]
    theta = {"theta": np.zeros((2, 6))}
    found = Linear().forecast(Panel.of([series[:-6], series[:60]], 12), 6, theta)
    assert set(found) == {"linear-last", "linear-mean", "linear-none"}
    for forecasts in found.values():
        assert np.abs(forecasts[0] - series[-6:]).max() < 0.15
        assert not forecasts[1].any()
