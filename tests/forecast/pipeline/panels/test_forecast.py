import numpy as np
import pytest

from attangent import AttangentError
from attangent.forecast.data.panel import Panel
from attangent.forecast.pipeline.panels.forecast import PANEL_MODELS, forecast_panel, try_all

RNG = np.random.default_rng(0)
P = (0.025, 0.1, 0.9, 0.975)
KINDS = {
    "constant": np.full(20, 7.0),
    "zeros": np.zeros(20),
    "intermittent": RNG.poisson(0.2, 40).astype(float),
    "negative": -50 + RNG.normal(size=30),
    "three": np.array([1.0, 2.0, 3.0]),
    "huge": 1e12 + 1e9 * RNG.normal(size=30),
    "tiny": 1e-9 * (5 + RNG.normal(size=30)),
    "a step": np.repeat([1.0, 100.0], 15),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("period", [1, 12])
def test_every_kind_of_series_is_answered(kind, period):
    series = KINDS[kind]
    found = forecast_panel(Panel.of([series], period), 6, P)
    q = found.quantiles[0]
    assert np.isfinite(found.forecasts).all()
    assert np.isfinite(q).all()
    assert (np.diff(q, axis=1) >= 0).all()
    if series.min() >= 0:
        assert q.min() >= 0
        assert found.forecasts.min() >= 0
    if np.ptp(series) == 0:
        np.testing.assert_allclose(found.forecasts, series[0])
        np.testing.assert_allclose(q, series[0])
    if len(series) > 3:
        assert np.ptp(q) < 20 * max(np.ptp(series), 1e-300) or np.ptp(series) == 0


def test_auto_is_not_worse_than_the_last_value_on_walks_and_better_on_seasons():
    walks = [np.cumsum(RNG.normal(size=60)) for _ in range(60)]
    panel = Panel.of([one[:-6] for one in walks], 12)
    actual = np.stack([one[-6:] for one in walks])
    auto = np.abs(forecast_panel(panel, 6).forecasts - actual).mean()
    assert auto < 1.05 * np.abs(panel.values[:, -1:] - actual).mean()
    season = [np.tile(RNG.normal(size=12), 6) + 0.3 * RNG.normal(size=72) for _ in range(40)]
    panel = Panel.of([one[:-12] for one in season], 12)
    found = forecast_panel(panel, 12)
    actual = np.stack([one[-12:] for one in season])
    assert np.abs(found.forecasts - actual).mean() < 0.9 * np.abs(panel.values[:, -12:] - actual).mean()
    assert found.model == "combination"
    assert "all models were combined" in found.why


def test_a_simple_model_that_was_better_is_taken():
    jumps = [np.repeat(RNG.normal(size=10), 8) for _ in range(1)]  # the last value is right most of the time
    steps = Panel.of([np.concatenate([one, np.full(30, one[-1])]) + 50 for one in jumps], 1)
    found = forecast_panel(steps, 4)
    assert found.errors["persistence"] == 0
    assert found.model == "persistence"
    assert "better than the combination" in found.why


def test_every_name_is_answered_and_others_refused():
    panel = Panel.of([10 + RNG.normal(size=40) for _ in range(3)], 4)
    tried, _ = try_all(panel, 5)
    assert set(tried) == set(PANEL_MODELS)
    for name in PANEL_MODELS:
        np.testing.assert_allclose(forecast_panel(panel, 5, model=name).forecasts, tried[name].forecasts)
    with pytest.raises(AttangentError, match="model is 'prophet'"):
        forecast_panel(panel, 5, model="prophet")


def test_units_do_not_matter():
    series = [20 + np.cumsum(RNG.normal(size=50)) for _ in range(5)]
    small = forecast_panel(Panel.of(series, 4), 4, P)
    large = forecast_panel(Panel.of([1e6 * one for one in series], 4), 4, P)
    np.testing.assert_allclose(large.forecasts, 1e6 * small.forecasts, rtol=1e-6)
    np.testing.assert_allclose(large.quantiles, 1e6 * small.quantiles, rtol=1e-6)
