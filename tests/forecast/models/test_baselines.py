import numpy as np
import pytest

from attangent import AttangentError
from attangent.forecast import Persistence, SeasonalNaive, find_period
from tests.forecast.examples import autoregression, waves


def test_persistence_repeats_the_last_value():
    assert Persistence(3, 2).fit(np.arange(9.0)).predict([1.0, 2.0, 7.0]).tolist() == [7.0, 7.0]


def test_seasonal_repeats_the_last_period():
    model = SeasonalNaive(6, 8, period=4).fit(waves(50, 1)[:, 0])
    assert model.predict(np.arange(6.0)).tolist() == [2, 3, 4, 5, 2, 3, 4, 5]


@pytest.mark.parametrize("period", [5, 12, 24])
def test_period_is_found_under_noise_and_trend(period):
    t = np.arange(600)
    series = np.sin(2 * np.pi * t / period) + 0.1 * np.random.default_rng(0).normal(size=600) + 0.01 * t
    found = find_period(series[:, None], 60)
    assert found % period == 0


def test_no_period_where_there_is_none():
    assert find_period(np.cumsum(autoregression(3000, (0.0,)))[:, None], 100) == 1
    assert find_period(np.ones((50, 1)), 20) == 1


def test_a_period_beyond_the_look_back_is_refused():
    with pytest.raises(AttangentError, match="period is 9, expected at most the look-back of 8"):
        SeasonalNaive(8, 2, period=9)
