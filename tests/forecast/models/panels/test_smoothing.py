import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attangent.forecast.data.panel import Panel
from attangent.forecast.models.panels.grid import Grid, settings
from attangent.forecast.models.panels.seasonality import seasonal_indices
from attangent.forecast.models.panels.smoothing import smooth


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


def test_a_part_of_the_grid():
    grid = settings(4, persistent_trends=True)
    part = grid.part(grid.drift > 0)
    assert isinstance(part, Grid)
    assert part.drift.all()
    assert (part.beta == 0).all()
