import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view

from attangent import AttangentError
from attangent.forecast.models import statistics
from attangent.forecast.models.statistics import normaliser, window_sums
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
        statistics.anchor_row("first", 3)
