"""Series with many zeros: means against loops, quantiles that cover, choices that zeros do not win."""

import numpy as np
import pytest

from attangent.forecast.data.panel import Panel
from attangent.forecast.models.intermittent import Intermittent
from attangent.forecast.pipeline.combination import PanelRequest, forecast_panel
from attangent.forecast.pipeline.evaluation import weighted_quantile_loss

TENTHS = np.arange(1, 10) / 10


def demand(count=300, times=60, seed=0):
    rng = np.random.default_rng(seed)
    rates = rng.gamma(1.0, 0.4, count) + 0.03
    return rng.poisson(rates[:, None], (count, times)).astype(float)


def slow_tsb(values, rate):
    chance = size = 0.0
    demands = 0
    for t, y in enumerate(values, start=1):
        chance += max(rate, 1 / t) * ((y != 0) - chance)
        if y:
            demands += 1
            size += max(rate, 1 / demands) * (y - size)
    return chance * size


def test_tsb_and_adida_are_those_of_a_loop():
    values = demand(5)
    members = Intermittent().forecast(Panel.of(list(values), 12), 3, {})
    for row, series in enumerate(values):
        assert members["intermittent-tsb-0.1"][row] == pytest.approx([slow_tsb(series, 0.1)] * 3)
    every_other = Panel.of([np.tile([0.0, 3.0], 20)], 1)
    assert Intermittent().forecast(every_other, 1, {})["intermittent-adida-0.1"][0, 0] == pytest.approx(1.5)


def test_quantile_loss_is_below_that_of_the_combination_and_the_mean_is_right():
    values = demand()
    panel = Panel.of(list(values[:, :48]), 12)
    losses = {}
    for model in ("auto", "combination", "persistence"):
        result = forecast_panel(panel, PanelRequest(12, 12, tuple(TENTHS), model))
        losses[model] = weighted_quantile_loss(values[:, 48:], result.quantiles, TENTHS)
    assert losses["auto"] < 0.97 * losses["combination"]
    assert losses["auto"] < 0.8 * losses["persistence"]
    result = forecast_panel(panel, PanelRequest(12, 12))
    rows = panel.intermittent
    assert [name == "intermittent" for name in result.models] == rows.tolist()
    assert result.forecasts[rows].mean() == pytest.approx(values[rows, 48:].mean(), rel=0.1)


def test_one_series_with_few_values_has_quantiles_too():
    result = forecast_panel(Panel.of([demand(1)[0]], 12), PanelRequest(6, 12, (0.1, 0.9)))
    assert (result.quantiles[:, :, 0] <= result.quantiles[:, :, 1]).all()
    assert np.isfinite(result.quantiles).all()
