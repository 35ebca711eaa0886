import numpy as np

from attangent.forecast.data.panel import Panel
from attangent.forecast.models.boosting import Boosting
from attangent.forecast.models.lag_ridge import LagRidge
from attangent.forecast.pipeline.backtest import Backtest
from tests.forecast.examples import setar


def threshold_panel(count=16):
    """A threshold autoregression: no linear map forecasts its next value."""
    return [setar(120, seed) for seed in range(count)]


def test_what_no_line_can_follow_is_learned_from_all_series():
    series = threshold_panel(40)
    panel = Panel.of([values[:-1] for values in series], 1)
    last = np.repeat(panel.values[:, -1:], 1, axis=1)
    earlier = {"theta": last, "theta-log": last}
    actual = np.array([values[-1] for values in series])[:, None]
    errors = {}
    for model in (Boosting(), LagRidge()):
        errors[type(model)] = np.abs(model.forecast(panel, 1, earlier)[model.families[0]] - actual).mean()
    assert errors[Boosting] < 0.7 * errors[LagRidge]


def test_it_runs_for_many_series_only_unless_it_is_named():
    few = Panel.of(threshold_panel(5), 1)
    many = Panel.of(threshold_panel(16), 1)
    names = [{type(model).__name__ for model in Backtest.of(panel, 3).models} for panel in (few, many)]
    assert "Boosting" not in names[0]
    assert "Boosting" in names[1]
    named = Backtest.of(few, 3, ["boosting"]).models
    assert "Boosting" in {type(model).__name__ for model in named}


def test_few_windows_get_the_forecast_of_theta():
    panel = Panel.of([np.arange(9.0)] * 3, 1)
    theta = np.ones((3, 2))
    assert Boosting().forecast(panel, 2, {"theta": theta})["boosting"] is theta
