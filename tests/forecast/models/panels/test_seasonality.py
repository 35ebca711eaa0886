import numpy as np

from attangent.forecast.data.panel import Panel
from attangent.forecast.models.panels.seasonality import seasonal_indices


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
