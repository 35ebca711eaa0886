import numpy as np
import pytest

from attangent.forecast.data.panel import Panel
from attangent.forecast.pipeline.backtest import Backtest, Trial
from attangent.forecast.pipeline.combination import (
    PanelRequest,
    candidates,
    combination_weights,
    model_names,
)
from attangent.forecast.pipeline.combination import forecast_panel as forecast_request

RNG = np.random.default_rng(0)
P = (0.025, 0.1, 0.9, 0.975)


def forecast_panel(panel, horizon, probabilities=(), model="auto", measure=False):
    return forecast_request(panel, PanelRequest(horizon, panel.period, probabilities, model, measure))


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


def test_every_name_is_answered():
    panel = Panel.of([10 + RNG.normal(size=40) for _ in range(3)], 4)
    tried = candidates(Backtest.of(panel, 5, ["linear"]))
    assert set(tried) == {*model_names()} - {"auto", "intermittent"}
    for name in {*tried} - {"combination"}:  # linear is combined on long series only
        np.testing.assert_allclose(forecast_panel(panel, 5, model=name).forecasts, tried[name].forecasts)


def test_units_do_not_matter():
    series = [20 + np.cumsum(RNG.normal(size=50)) for _ in range(5)]
    small = forecast_panel(Panel.of(series, 4), 4, P)
    large = forecast_panel(Panel.of([1e6 * one for one in series], 4), 4, P)
    np.testing.assert_allclose(large.forecasts, 1e6 * small.forecasts, rtol=1e-6)
    np.testing.assert_allclose(large.quantiles, 1e6 * small.quantiles, rtol=1e-6)


NAMES = ("smoothing", "smoothing-log", "theta", "ridge-1")
PRIOR = np.array([1 / 2, 1 / 2, 1, 1])


def trial_of(errors, actual=10.0):
    """A trial in which each member is off by its error."""
    members = {n: np.full((2, 3), actual + e) for n, e in zip(NAMES, errors, strict=True)}
    return Trial(members, np.full((2, 3), actual), np.ones(2), np.array([True, True]))


def test_families_are_equal_before_anything_is_known():
    found = combination_weights(NAMES, PRIOR, [], 2)
    np.testing.assert_allclose(found, np.tile([1 / 6, 1 / 6, 1 / 3, 1 / 3], (2, 1)))


def test_errors_move_weights_and_never_make_them_negative():
    found = combination_weights(NAMES, PRIOR, [trial_of([1, 1, 4, 1])], 2)
    weights = dict(zip(NAMES, found[0], strict=True))
    assert 0 < weights["theta"] < 0.02
    assert weights["ridge-1"] == pytest.approx(2 * weights["smoothing"])
    np.testing.assert_allclose(found.sum(axis=1), 1)


def test_a_perfect_past_is_no_reason_to_trust_one_model_alone():
    found = combination_weights(NAMES, PRIOR, [trial_of([0, 0, 0, 0])], 2)
    np.testing.assert_allclose(found[0], [1 / 6, 1 / 6, 1 / 3, 1 / 3])


def test_the_combination_is_within_its_members():
    panel = Panel.of([10 + RNG.normal(size=40) for _ in range(3)], 4)
    backtest = Backtest.of(panel, 5)
    members = [v for name, v in backtest.members(0).items() if name not in ("persistence", "seasonal")]
    found = candidates(backtest)["combination"].forecasts
    assert (np.min(members, axis=0) <= found + 1e-9).all()
    assert (found <= np.max(members, axis=0) + 1e-9).all()


def test_the_expected_error_is_that_of_a_forecast_that_knew_nothing_later():
    series = 10 + RNG.normal(size=60)
    panel = Panel.of([series], 4)
    (expected,) = forecast_panel(panel, 6, P, "theta", measure=True).expected
    earlier = forecast_panel(Panel.of([series[:-6]], 4), 6, P, "theta")
    error = np.abs(earlier.forecasts[0] - series[-6:])
    assert expected["mae"] == pytest.approx(error.mean())
    assert expected["rmse"] == pytest.approx(np.sqrt(np.square(error).mean()))
    assert expected["mae of persistence"] == pytest.approx(np.abs(series[-6:] - series[-7]).mean())
    q = earlier.quantiles[0]
    inside = (q[:, 1] <= series[-6:]) & (series[-6:] <= q[:, 2])
    assert expected["coverage at 0.8"] == inside.mean()
    assert forecast_panel(Panel.of([series[:4]], 4), 6, P, measure=True).expected == [{}]


def test_long_series_are_measured_at_three_ends():
    series = 10 + RNG.normal(size=450)
    (expected,) = forecast_panel(Panel.of([series], 4), 6, P, measure=True).expected
    assert expected["held out"] == 18
