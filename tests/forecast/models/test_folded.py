"""Levels of whole seasons with a fixed shape."""

import numpy as np
import pytest

from attangent.forecast.data.panel import Panel
from attangent.forecast.models.folded import (
    PENALTIES,
    FoldedSeasons,
    _soft_ridge,
    cycle_waves,
    level_forecasts,
    ridge_paths,
)

RNG = np.random.default_rng(0)


def folded(panel, horizon):
    count = len(panel)
    return FoldedSeasons().forecast(
        panel, horizon, {n: np.zeros((count, horizon)) for n in ("theta", "theta-log")}
    )


def slow_soft_ridge(x, y):
    """Leave one row out at a time, for every penalty, and average the weights."""
    solve = [
        lambda a, b, penalty=penalty: np.linalg.solve(a.T @ a + penalty * np.eye(a.shape[1]), a.T @ b)
        for penalty in PENALTIES
    ]
    errors = []
    for fit in solve:
        rest = [y[t] - x[t] @ fit(np.delete(x, t, 0), np.delete(y, t)) for t in range(len(y))]
        errors.append(np.square(rest).sum())
    share = np.exp(1 - np.array(errors) / min(errors))
    weights = np.stack([fit(x, y) for fit in solve])
    return share @ weights / share.sum()


def test_the_soft_ridge_is_that_of_leaving_rows_out_one_by_one():
    x = RNG.normal(size=(2, 14, 4))
    y = x[:, :, 0] - 0.5 * x[:, :, 2] + 0.3 * RNG.normal(size=(2, 14))
    x[1, :4] = 0.0  # rows before the start of a shorter series
    y[1, :4] = 0.0
    weights = _soft_ridge(x, y)
    np.testing.assert_allclose(weights[0], slow_soft_ridge(x[0], y[0]), rtol=1e-9)
    np.testing.assert_allclose(weights[1], slow_soft_ridge(x[1, 4:], y[1, 4:]), rtol=1e-9)


def test_paths_follow_the_recursion_of_the_weights():
    levels = np.cumsum(RNG.normal(size=(1, 40)), axis=1)
    last = levels[0, -1]
    unit = np.sqrt(np.square(np.diff(levels[0])).mean())
    z = (levels[0] - last) / unit
    x = np.column_stack((np.ones(35), np.arange(5, 40) / 40, -z[4:-1], z[:35]))
    b = slow_soft_ridge(x, np.diff(z)[4:])
    steps = np.diff(z) - np.diff(z).mean()
    carried = np.clip((steps[1:] * steps[:-1]).sum() / np.square(steps).sum(), 0, 0.98)
    first = b[0] + b[1] * (39 + carried) / 40 + b[3] * z[35]
    second = b[0] + b[1] * (39 + carried + carried**2) / 40 + (1 - b[2]) * first + b[3] * z[36]
    expected = last + unit * np.array([first, second])
    np.testing.assert_allclose(ridge_paths(levels, 5, 2)[0], expected, rtol=1e-9)


def test_waves_of_a_year_are_recovered_and_noise_is_not():
    time = np.arange(156)
    wave = 10 * np.cos(2 * np.pi * (time - 7) / 52)
    levels = np.stack([100 + 0.1 * time + wave, 50.0 + 0 * time]) + RNG.normal(size=(2, 156))
    past, future = cycle_waves(levels[:1, :150], 52, 6)
    np.testing.assert_allclose(past[0], wave[:150], atol=1)
    np.testing.assert_allclose(future[0], wave[150:], atol=1)
    assert np.abs(cycle_waves(levels[1:, :150], 52, 6)[1]).max() < 0.5
    assert not cycle_waves(np.full((1, 150), 3.0), 52, 6)[1].any()


def test_series_borrow_the_waves_of_the_others():
    time = np.arange(110)
    wave = 3 * np.cos(2 * np.pi * time / 52)
    levels = wave + 2 * np.cumsum(0.5 * RNG.normal(size=(30, 110)), axis=1)
    alone = np.concatenate([cycle_waves(levels[k : k + 1, :100], 52, 10)[1] for k in range(30)])
    together = cycle_waves(levels[:, :100], 52, 10)[1]
    assert np.abs(together - wave[100:]).mean() < 0.8 * np.abs(alone - wave[100:]).mean()


def test_the_shape_is_that_of_usual_weeks():
    week = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 9.0, 4.0])
    values = np.tile(week, 20)
    values[-5:-3] = 60.0  # two outliers in the last week
    plain = folded(Panel.of([values], 7), 7)["folded"][0]
    np.testing.assert_allclose(plain - plain.mean(), week - week.mean(), atol=1e-9)


def test_series_with_zeros_are_multiplicative_and_others_are_not():
    week = np.array([0.0, 1.0, 1.0, 1.0, 1.0, 2.0, 1.0])
    growing = (week * 1.05 ** np.arange(30)[:, None]).ravel()
    panel = Panel.of([growing, growing - 1], 7)
    found = folded(panel, 7)
    np.testing.assert_allclose(found["folded-log"][0] / found["folded-log"][0].mean(), week, rtol=1e-6)
    np.testing.assert_array_equal(found["folded-log"][1], found["folded"][1])


def test_few_seasons_are_not_folded_and_few_values_get_theta():
    values = RNG.normal(size=72) + 9
    few = folded(Panel.of([values[:60]], 12), 3)
    many = folded(Panel.of([values], 12), 3)
    np.testing.assert_array_equal(few["folded"], few["folded-values"])
    assert (many["folded"] != many["folded-values"]).all()
    short = Panel.of([RNG.normal(size=90) + 9, RNG.normal(size=7) + 9], 1)
    found = folded(short, 3)
    assert (found["folded"][1] == 0).all()
    assert (found["folded"][0] > 5).all()


def test_levels_of_values_do_not_lag_behind_a_trend_that_turned():
    quarter = np.array([-2.0, 3.0, 1.0, -2.0])
    turned = np.concatenate((np.linspace(10, 50, 40), np.linspace(49, 39, 20)))
    values = turned + np.tile(quarter, 15) + 0.2 * np.random.default_rng(0).normal(size=60)
    members = folded(Panel.of([values[:56]], 4), 4)
    assert set(members) == {"folded", "folded-log", "folded-values", "folded-values-log"}
    errors = {name: np.abs(ahead[0] - values[56:]).mean() for name, ahead in members.items()}
    assert errors["folded-values"] < 0.7 * errors["folded"]
    assert set(folded(Panel.of([values], 4, longer=28), 4)) == {"folded", "folded-log"}


def test_few_days_of_a_daily_series_follow_the_week_not_the_year():
    week = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 9.0, 4.0])
    days = np.tile(week, 5) + 0.1 * np.random.default_rng(0).normal(size=35)
    ahead = folded(Panel.of([days], 7, longer=364), 7)["folded"][0]
    np.testing.assert_allclose(ahead, week, atol=0.5)


@pytest.mark.parametrize("cycle", [1, 4, 30])
def test_levels_stay_within_one_range_of_the_past(cycle):
    levels = np.exp(0.3 * np.arange(60.0))[None]
    ahead = level_forecasts(levels, cycle, 40)
    assert ahead.max() <= 2 * levels.max() - levels.min()
