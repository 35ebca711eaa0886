import numpy as np

from attangent.forecast.data.panel import Panel, seasonal_scale
from attangent.forecast.pipeline.panels.backtest import origins, try_models


def panel_of(lengths, period=4, seed=0):
    rng = np.random.default_rng(seed)
    return Panel.of([20 + np.cumsum(rng.normal(size=n)) for n in lengths], period)


def test_forecasts_from_an_origin_do_not_know_what_came():
    panel = panel_of([40] * 6)
    spoiled = panel.values.copy()
    spoiled[:, -6:] = 1e6
    for one, other in zip(try_models(panel, 6), try_models(panel.with_values(spoiled), 6), strict=True):
        for name, forecasts in one.members.forecasts.items():
            np.testing.assert_array_equal(forecasts, other.members.forecasts[name])


def test_errors_are_in_seasonal_steps_of_the_values_before():
    panel = panel_of([40, 36])
    trial = try_models(panel, 5)[0]
    earlier = panel.before(5)
    forecasts = trial.members.forecasts["persistence"]
    expected = np.abs(panel.values[:, -5:] - earlier.values[:, -1:]).mean(axis=1) / seasonal_scale(earlier)
    np.testing.assert_allclose(trial.errors(forecasts), expected)
    assert trial.residuals(forecasts).shape == (2, 5)


def test_origins_come_nearer_where_series_are_short():
    assert origins(panel_of([60]), 6) == [6, 12, 18]
    assert origins(panel_of([9], period=1), 6) == [2]
    assert origins(panel_of([5], period=1), 6) == []
    trial = try_models(panel_of([9], period=1), 6)[0]
    assert np.isnan(trial.residuals(trial.members.forecasts["theta"])[:, 2:]).all()
