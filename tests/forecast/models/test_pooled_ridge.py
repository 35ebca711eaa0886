from dataclasses import replace

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from sklearn.linear_model import Ridge

from attangent.forecast.data.panel import Panel
from attangent.forecast.models import pooled_ridge
from attangent.forecast.models.pooled_ridge import PooledRidge, WindowMoments, forecasts_of, lookbacks

RNG = np.random.default_rng(0)


def panel_of(count=12, period=4):
    lengths = sorted(RNG.integers(30, 60, count), reverse=True)
    return Panel.of([10 + np.cumsum(RNG.normal(size=n)) for n in lengths], period)


@pytest.mark.parametrize("constants", ["one", "category"])
def test_against_ridge_on_all_windows(constants):
    panel, L, H = panel_of(), 6, 3
    kinds = np.arange(len(panel)) % 3
    panel = Panel(panel.values, panel.lengths, panel.period, kinds)
    columns = {"one": np.ones((12, 1)), "category": np.eye(3)[kinds]}[constants]
    sums = WindowMoments.of(panel, H, L, np.ones(len(panel), dtype=bool))
    rows, added, scale = [], [], panel.scale
    for values, length, s, own in zip(panel.values, panel.lengths, scale, columns, strict=True):
        windows = sliding_window_view(values[-length:], L + H)
        rows.append((windows - windows[:, L - 1 : L]) / s)
        added.append(np.repeat(own[None], len(windows), axis=0))
    rows = np.concatenate(rows)
    x, y = np.column_stack([rows[:, : L - 1], np.concatenate(added)]), rows[:, L:]
    penalty = (0.1 + 1e-9) * np.square(x).mean() * len(x)
    peer = Ridge(penalty, fit_intercept=False).fit(x, y)
    window = (panel.values[:, -L:] - panel.values[:, -1:])[:, :-1] / scale[:, None]
    window = np.column_stack([window, columns])
    expected = panel.values[:, -1:] + scale[:, None] * peer.predict(window)
    weights = sums.weights(0.1, constants)
    np.testing.assert_allclose(forecasts_of(panel, L, weights), expected, rtol=1e-6)


def test_units_of_a_series_do_not_matter():
    panel = panel_of()
    scaled = replace(panel, values=panel.values * np.linspace(1, 1e6, len(panel))[:, None])
    usable = np.ones(len(panel), dtype=bool)
    one, other = (WindowMoments.of(p, 3, 5, usable).weights(0.1, "one") for p in (panel, scaled))
    np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)


def test_short_series_get_the_other_forecast_and_thinning_keeps_the_latest(monkeypatch):
    panel = Panel.of([*[10 + np.cumsum(RNG.normal(size=40)) for _ in range(6)], np.arange(1.0, 5.0)], 4)
    theta = {"theta": np.full((7, 2), 1.0), "theta-log": np.full((7, 2), 2.0)}
    found = PooledRidge().forecast(panel, 2, theta)
    assert found["ridge-1"][-1].tolist() == [1.0, 1.0]
    assert found["ridge-3-log"][-1].tolist() == [2.0, 2.0]
    assert not np.array_equal(found["ridge-1"][0], theta["theta"][0])
    monkeypatch.setattr(pooled_ridge, "MOST_WINDOWS", 30)
    assert np.isfinite(PooledRidge().forecast(panel, 2, theta)["ridge-1"]).all()


def test_too_few_windows_are_not_fitted_to():
    panel = Panel.of([np.arange(9.0)], 1)
    theta = {"theta": np.full((1, 2), 1.0), "theta-log": np.full((1, 2), 2.0)}
    assert PooledRidge().forecast(panel, 2, theta)["ridge-1"].tolist() == [[1.0, 1.0]]
    assert lookbacks(panel) == (3, 5, 7)


def test_categories_that_go_different_ways_are_told_apart():
    rng, H, up = np.random.default_rng(1), 4, np.arange(40) % 2
    series = [100 + np.cumsum(k - 0.5 + 0.5 * rng.normal(size=40)) + 2 * rng.normal(size=40) for k in up]
    panel = Panel.of([one[:-H] for one in series], 1, up)
    actual = np.stack([one[-H:] for one in series])
    otherwise = {name: np.zeros((40, H)) for name in ("theta", "theta-log")}
    found = PooledRidge().forecast(panel, H, otherwise)
    error = {name: np.abs(found[name] - actual).mean() for name in ("ridge-1", "ridge-category-1")}
    assert error["ridge-category-1"] < 0.9 * error["ridge-1"]
    assert not any("category" in name for name in PooledRidge().forecast(Panel.of(series, 1), H, otherwise))


def test_constant_series_stay_constant():
    panel = Panel.of([np.full(200, 7.0), np.zeros(150)], 4)
    theta = {name: np.zeros((2, 3)) for name in ("theta", "theta-log")}
    for forecasts in PooledRidge().forecast(panel, 3, theta).values():
        np.testing.assert_allclose(forecasts, [[7.0] * 3, [0.0] * 3], atol=1e-9)
