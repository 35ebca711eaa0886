import numpy as np
from sklearn.linear_model import Ridge

from attangent.forecast.data.panel import Panel
from attangent.forecast.models.lag_features import Windows
from attangent.forecast.models.lag_ridge import PENALTY, LagRidge


def theta(panel, horizon):
    last = np.repeat(panel.values[:, -1:], horizon, axis=1)
    return {"theta": last, "theta-log": last}


def test_two_seasons_at_once_are_continued():
    t = np.arange(24 * 7 * 6 + 48)
    series = [10 + 3 * np.sin(2 * np.pi * t / 24 + k) + 4 * ((t // 24) % 7 < 5) for k in range(2)]
    panel = Panel.of([values[:-48] for values in series], 24, longer=168)
    found = LagRidge().forecast(panel, 48, theta(panel, 48))
    one = LagRidge().forecast(Panel.of([values[:-48] for values in series], 24), 48, theta(panel, 48))
    actual = np.stack([values[-48:] for values in series])
    assert np.abs(found["lags"] - actual).mean() < 0.5
    assert np.abs(found["lags"] - actual).mean() < 0.5 * np.abs(one["lags"] - actual).mean()


def test_series_return_to_their_level():
    rng = np.random.default_rng(0)
    series = []
    for level in (5.0, 50.0, 500.0):
        noise = np.zeros(200)
        for t in range(1, 200):
            noise[t] = 0.5 * noise[t - 1] + rng.normal()
        noise[-1] = 6.0
        series.append(level + noise)
    panel = Panel.of(series, 1)
    found = LagRidge().forecast(panel, 8, theta(panel, 8))["lags"]
    assert (found[:, -1] - [5, 50, 500] < 3).all()


def test_weights_are_those_of_a_ridge_regression():
    rng = np.random.default_rng(1)
    panel = Panel.of([rng.normal(size=90).cumsum() for _ in range(3)], 4)
    windows = Windows.of(panel, 2, np.ones(3, dtype=bool))
    x, last = (
        np.concatenate((part[:, 1], np.ones((len(part), 1))), axis=1) for part in (windows.x, windows.last)
    )
    alpha = PENALTY * np.square(x).sum() / x.shape[1]
    slow = Ridge(alpha, fit_intercept=False).fit(x, windows.y[:, 1]).predict(last)
    found = LagRidge().forecast(panel, 2, theta(panel, 2))["lags"][:, 1]
    np.testing.assert_allclose(found, windows.level + windows.scale * slow)


def test_short_series_get_the_forecast_of_theta():
    rng = np.random.default_rng(2)
    panel = Panel.of([rng.normal(size=90), rng.normal(size=7)], 4)
    earlier = theta(panel, 3)
    found = LagRidge().forecast(panel, 3, earlier)["lags"]
    np.testing.assert_array_equal(found[1], earlier["theta"][1])
    assert not np.array_equal(found[0], earlier["theta"][0])
