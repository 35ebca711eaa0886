import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attangent.forecast.data.panel import Panel
from attangent.forecast.models.smoothing import (
    Smoothing,
    posterior,
    seasonal_indices,
    settings,
    smooth,
    steps_ahead,
)


def slow(series, indices, m, horizon, grid, g, ahead):
    """One series, one setting, one value after the other; forecasts are made when their origin is reached."""
    T = len(series)
    adjusted = series - indices[np.arange(T) % m]
    a, b, phi, gamma = grid.alpha[g], grid.beta[g], grid.phi[g], grid.gamma[g]
    if grid.drift[g]:
        level, trend = adjusted[:5].mean(), grid.drift[g] * np.polyfit(np.arange(T), adjusted, 1)[0]
    elif phi == 0:
        level, trend = adjusted[:5].mean(), 0.0
    else:
        trend, start = np.polyfit(np.arange(min(T, 10)), adjusted[:10], 1)
        level = start - trend
    season, squares, made = indices.copy(), {h: [] for h in ahead}, {}
    for t in range(T + 1):
        steps = range(1, max(horizon, *ahead) + 1)
        made[t] = [
            level + sum(phi**k for k in range(1, h + 1)) * trend + season[(t + h - 1) % m] for h in steps
        ]
        if t == T:
            break
        for h in ahead:
            if t - h + 1 >= 0:
                squares[h].append((series[t] - made[t - h + 1][h - 1]) ** 2)
        error = series[t] - level - phi * trend - season[t % m]
        level, trend = level + phi * trend + a * error, phi * trend + b * error
        season[t % m] += gamma * error
    return {h: np.mean(squares[h]) for h in ahead}, np.array(made[T][:horizon])


@given(
    seed=st.integers(0, 50),
    m=st.sampled_from([1, 4]),
    lengths=st.tuples(st.integers(12, 25), st.integers(6, 12)),
)
def test_one_pass_is_the_slow_recursion(seed, m, lengths):
    rng = np.random.default_rng(seed)
    series = [np.cumsum(rng.normal(size=n)) for n in lengths]
    panel, grid, ahead = Panel.of(series, m), settings(m, persistent_trends=True), (1, 2, 4)
    found, indices = smooth(panel, 5, grid, ahead), seasonal_indices(panel)
    for g in rng.integers(0, len(grid.alpha), 4):
        for n, one in enumerate(series):
            turned = np.roll(indices[n], -((panel.values.shape[1] - len(one)) % m))
            errors, forecasts = slow(one, turned, m, 5, grid, g, ahead)
            np.testing.assert_allclose(found.forecasts[n, g], forecasts, rtol=1e-8, atol=1e-8)
            for h in ahead:
                np.testing.assert_allclose(found.errors[h][n, g], errors[h], rtol=1e-8)


def test_series_of_different_length_do_not_touch_each_other():
    rng = np.random.default_rng(0)
    series = [rng.normal(size=n) for n in (40, 30, 8)]
    grid = settings(1, persistent_trends=False)
    together = smooth(Panel.of(series, 1), 3, grid, (1, 2))
    for n, one in enumerate(series):
        alone = smooth(Panel.of([one], 1), 3, grid, (1, 2))
        np.testing.assert_allclose(together.forecasts[n], alone.forecasts[0], rtol=1e-10)


def test_trends_that_hardly_die_out_are_left_out_for_logarithms():
    assert settings(1, persistent_trends=True).phi.max() == 1.0  # Theta's drift
    kept = settings(1, persistent_trends=False)
    assert kept.phi[kept.drift == 0].max() == 0.9
    assert (kept.gamma == 0).all()
    assert settings(12, persistent_trends=False).gamma.max() > 0


def test_weights_follow_the_evidence_and_what_the_set_agrees_on():
    alone = posterior(np.array([[0.0, 1.0]]), rounds=1)
    np.testing.assert_allclose(alone[0, 1] / alone[0, 0], np.e)
    undecided = np.vstack([np.tile([0.0, 8.0], (50, 1)), [[0.0, 0.0]]])
    weights = posterior(undecided)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    assert weights[-1, 1] > 0.9  # a series that cannot tell goes with the others
    stubborn = np.vstack([np.tile([0.0, 8.0], (50, 1)), [[20.0, 0.0]]])
    assert posterior(stubborn)[-1, 0] > 0.99


def test_a_clear_season_is_found_and_noise_is_none():
    rng = np.random.default_rng(0)
    season = rng.normal(size=12)
    season -= season.mean()
    clear = np.tile(season, 8) + 0.05 * rng.normal(size=96) + 0.3 * np.arange(96)
    noise = rng.normal(size=(40, 96))
    panel = Panel.of([clear, *noise], 12)
    found = seasonal_indices(panel)
    np.testing.assert_allclose(found[0], season, atol=0.08)
    np.testing.assert_allclose(found.sum(axis=1), 0, atol=1e-9)
    raw = np.stack([noise[:, k::12].mean(axis=1) for k in range(12)], axis=1)
    assert np.square(found[1:]).mean() < 0.35 * np.square(raw - raw.mean(axis=1, keepdims=True)).mean()


def test_none_where_there_is_no_room_or_no_period():
    assert not seasonal_indices(Panel.of([np.random.default_rng(0).normal(size=23)], 12)).any()
    assert seasonal_indices(Panel.of([np.arange(9.0)], 1)).shape == (1, 1)


@pytest.mark.parametrize("period", [1, 4, 12])
def test_a_season_on_a_line_goes_on(period):
    t = np.arange(96)
    season = np.random.default_rng(0).normal(size=period)
    series = 50 + 0.5 * t + season[t % period]
    found = Smoothing().forecast(Panel.of([series], period), 12, {})
    ahead = np.arange(96, 108)
    truth = 50 + 0.5 * ahead + season[ahead % period]
    assert np.abs(found["smoothing"][0] - truth).mean() < 1.5  # trends are damped, a little
    assert np.abs(found["smoothing"][0] - truth).mean() < np.abs(series[-1] - truth).mean() / 2


def test_growth_by_a_factor_is_followed_by_the_logarithms():
    series = 10 * 1.05 ** np.arange(40)
    found = Smoothing().forecast(Panel.of([series], 1), 4, {})
    truth = 10 * 1.05 ** np.arange(40, 44)
    assert np.abs(found["smoothing-log"][0] - truth).mean() < np.abs(found["theta"][0] - truth).mean()


def test_series_without_logarithms_get_the_plain_forecast():
    rng = np.random.default_rng(0)
    found = Smoothing().forecast(Panel.of([rng.normal(size=30), 9 + rng.normal(size=20)], 1), 3, {})
    np.testing.assert_array_equal(found["theta"][0], found["theta-log"][0])
    assert not np.array_equal(found["theta"][1], found["theta-log"][1])


def test_steps_that_are_judged():
    assert steps_ahead(1, 6) == (1, 2, 3)
    assert steps_ahead(12, 18) == (1, 3, 6, 12)
    assert steps_ahead(12, 2) == (1, 2)
    assert steps_ahead(4, 1) == (1,)
