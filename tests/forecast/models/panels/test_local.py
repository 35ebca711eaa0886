import numpy as np
import pytest

from attangent.forecast.data.panel import Panel
from attangent.forecast.models.panels.local import last_season, last_value, smoothing_and_theta, steps_ahead


def test_naive_forecasts():
    panel = Panel.of([np.arange(8.0), np.arange(3.0)], 4)
    assert last_value(panel, 2).tolist() == [[7, 7], [2, 2]]
    assert last_season(panel, 6).tolist() == [[4, 5, 6, 7, 4, 5], [2] * 6]


@pytest.mark.parametrize("period", [1, 4, 12])
def test_a_season_on_a_line_goes_on(period):
    t = np.arange(96)
    season = np.random.default_rng(0).normal(size=period)
    series = 50 + 0.5 * t + season[t % period]
    found = smoothing_and_theta(Panel.of([series], period), 12)
    ahead = np.arange(96, 108)
    truth = 50 + 0.5 * ahead + season[ahead % period]
    assert np.abs(found["smoothing"][0] - truth).mean() < 1.5  # trends are damped, a little
    assert np.abs(found["smoothing"][0] - truth).mean() < np.abs(series[-1] - truth).mean() / 2


def test_growth_by_a_factor_is_followed_by_the_logarithms():
    series = 10 * 1.05 ** np.arange(40)
    found = smoothing_and_theta(Panel.of([series], 1), 4)
    truth = 10 * 1.05 ** np.arange(40, 44)
    assert np.abs(found["smoothing-log"][0] - truth).mean() < np.abs(found["theta"][0] - truth).mean()


def test_series_without_logarithms_get_the_plain_forecast():
    rng = np.random.default_rng(0)
    found = smoothing_and_theta(Panel.of([rng.normal(size=30), 9 + rng.normal(size=20)], 1), 3)
    np.testing.assert_array_equal(found["theta"][0], found["theta-log"][0])
    assert not np.array_equal(found["theta"][1], found["theta-log"][1])


def test_steps_that_are_judged():
    assert steps_ahead(1, 6) == (1, 2, 3)
    assert steps_ahead(12, 18) == (1, 3, 6, 12)
    assert steps_ahead(12, 2) == (1, 2)
    assert steps_ahead(4, 1) == (1,)
