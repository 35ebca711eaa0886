from dataclasses import replace

import numpy as np

from attangent.forecast.data.panel import Panel
from attangent.forecast.pipeline.backtest import Backtest, origins


def trials(panel, horizon):
    return Backtest.of(panel, horizon).trials(0)


def panel_of(lengths, period=4, seed=0):
    rng = np.random.default_rng(seed)
    return Panel.of([20 + np.cumsum(rng.normal(size=n)) for n in lengths], period)


def test_forecasts_from_an_origin_do_not_know_what_came():
    panel = panel_of([40] * 6)
    spoiled = panel.values.copy()
    spoiled[:, -6:] = 1e6
    for one, other in zip(trials(panel, 6), trials(replace(panel, values=spoiled), 6), strict=True):
        for name, forecasts in one.members.items():
            np.testing.assert_array_equal(forecasts, other.members[name])


def test_errors_are_in_seasonal_steps_of_the_values_before():
    panel = panel_of([40, 36])
    trial = trials(panel, 5)[0]
    earlier = panel.before(5)
    forecasts = trial.members["persistence"]
    expected = np.abs(panel.values[:, -5:] - earlier.values[:, -1:]).mean(axis=1) / earlier.scale
    np.testing.assert_allclose(trial.errors(forecasts), expected)
    assert trial.residuals(forecasts).shape == (2, 5)


def test_origins_come_nearer_where_series_are_short():
    assert origins(panel_of([60]), 6) == [6, 12, 18]
    assert origins(panel_of([9], period=1), 6) == [2]
    assert origins(panel_of([5], period=1), 6) == []
    trial = trials(panel_of([9], period=1), 6)[0]
    assert np.isnan(trial.residuals(trial.members["theta"])[:, 2:]).all()


def test_earlier_ends_share_their_runs_and_see_nothing_later():
    panel = panel_of([60] * 4)
    backtest = Backtest.of(panel, 6)
    backtest.trials(0)
    shared = backtest.members(12)
    alone = Backtest.of(panel.before(6), 6)
    for (name, forecasts), trial in zip(shared.items(), [alone.members(6)] * len(shared), strict=True):
        np.testing.assert_array_equal(forecasts, trial[name])
    for one, other in zip(backtest.trials(6), alone.trials(0), strict=True):
        np.testing.assert_array_equal(one.actual, other.actual)


def test_long_models_run_on_few_long_series_or_by_name():
    def names(panel, named=()):
        return {name for model in Backtest.of(panel, 3, named).models for name in model.families}

    assert "linear" in names(panel_of([500]))
    assert "linear" not in names(panel_of([100]))
    assert "linear" not in names(panel_of([500] * 20))
    assert "linear" in names(panel_of([100]), ["linear"])
