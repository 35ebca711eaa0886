import numpy as np

from attangent.forecast.data.panel import Panel
from attangent.forecast.pipeline.combination import PanelRequest, forecast_panel
from attangent.forecast.pipeline.effects import (
    POOLED_COUNTS_FOR,
    ahead,
    effects,
    forecast_with_covariates,
    without,
)


def made(count=20, length=60, size=5.0, seed=0):
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, 2, (length, 1)).astype(float) for _ in range(count)]
    series = [np.cumsum(rng.normal(size=length)) + size * c[:, 0] for c in columns]
    return Panel.of(series, 1), columns


def test_the_effect_of_a_column_is_found_and_taken_off():
    panel, columns = made()
    found = effects(panel, columns)
    assert np.abs(found - 5).mean() < 0.5
    rest = without(panel, columns, found)
    steps = np.diff(columns[0][:, 0])
    assert abs(np.corrcoef(np.diff(rest.values[0]), steps)[0, 1]) < 0.3
    assert abs(np.corrcoef(np.diff(panel.values[0]), steps)[0, 1]) > 0.8
    np.testing.assert_array_equal(rest.values[:, -1], panel.values[:, -1])


def test_one_series_by_the_formula():
    panel, (columns,) = made(count=1)
    x, s = np.diff(columns, axis=0), panel.scale
    y = np.diff(panel.values[0]) / s
    G, g, spread = x.T @ x, x.T @ y, float((x**2).mean())
    pooled = g / (G[0, 0] + 1e-3 * len(x) * spread)
    expected = s * (g + POOLED_COUNTS_FOR * spread * pooled) / (G[0, 0] + POOLED_COUNTS_FOR * spread)
    np.testing.assert_allclose(effects(panel, [columns])[0], expected)


def test_a_column_that_never_moves_has_no_effect_and_what_is_taken_off_comes_back():
    panel, columns = made(count=3)
    still = [np.ones_like(c) for c in columns]
    assert not effects(panel, still).any()
    future = [np.array([[1.0], [0.0]])] * 3
    back = ahead(columns, future, np.full((3, 1), 2.0))[..., 0]
    assert back[0].tolist() == [2 * (1 - columns[0][-1, 0]), 2 * (0 - columns[0][-1, 0])]


def split(panel, columns, h):
    past, future = [c[:-h] for c in columns], [c[-h:] for c in columns]
    return panel.before(h), past, future, panel.values[:, -h:]


def test_columns_that_matter_are_used_and_lower_the_error():
    earlier, past, future, actual = split(*made(), 6)
    found = forecast_with_covariates(earlier, past, future, PanelRequest(6, 1, (0.1, 0.9)))
    plain = forecast_panel(earlier, PanelRequest(6, 1))
    assert np.abs(found.forecasts - actual).mean() < 0.8 * np.abs(plain.forecasts - actual).mean()
    inside = (found.quantiles[..., 0] <= actual) & (actual <= found.quantiles[..., 1])
    assert inside.mean() > 0.6
    plain_part = found.forecasts - found.added.sum(axis=2)
    bare = without(earlier, past, effects(earlier, past))
    np.testing.assert_allclose(plain_part, forecast_panel(bare, PanelRequest(6, 1)).forecasts)
    assert "so they were used" in found.why


def test_columns_that_did_not_help_on_the_past_are_left_out():
    panel, columns = made(count=5, length=40, size=0.0)
    worse = [c.copy() for c in columns]
    for c, values in zip(worse, panel.values, strict=True):
        c[:-4, 0] = values[:-4]  # follows the series, then turns against it
        c[-4:, 0] = values[-5] - 9
    found = forecast_with_covariates(panel, worse, [np.full((4, 1), 1e3)] * 5, PanelRequest(4, 1))
    np.testing.assert_array_equal(found.forecasts, forecast_panel(panel, PanelRequest(4, 1)).forecasts)
    assert "so they were not used" in found.why


def test_series_too_short_to_tell_are_forecast_without():
    short = Panel.of([np.array([1.0, 2.0, 3.0])], 1)
    found = forecast_with_covariates(short, [np.zeros((3, 1))], [np.zeros((2, 1))], PanelRequest(2, 1))
    np.testing.assert_array_equal(found.forecasts, forecast_panel(short, PanelRequest(2, 1)).forecasts)
    assert "too short to tell" in found.why
