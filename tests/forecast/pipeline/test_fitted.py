import numpy as np
import pandas as pd
import pytest

from attangent import AttangentError
from attangent.forecast import SeriesForecaster
from attangent.forecast.data.panel import Panel
from attangent.forecast.models.smoothing import Grid, _pass, fitted_values

DAYS = pd.date_range("2023-01-01", periods=300)


def table(count=4, spike=0.0):
    rng = np.random.default_rng(1)
    frames = []
    for k in range(count):
        y = 50 + 10 * np.sin(2 * np.pi * np.arange(300) / 7) + rng.normal(size=300)
        y[250] += spike
        frames.append(pd.DataFrame({"unique_id": f"s{k}", "ds": DAYS, "y": y}))
    return pd.concat(frames)


def test_a_spike_is_flagged_and_before_it_no_more_than_the_level():
    found = SeriesForecaster().fit(table(spike=15.0)).forecast_fitted_values([95, 99])
    before = found[found.ds < DAYS[250]]
    assert found.anomaly[found.ds == DAYS[250]].all()
    assert before.anomaly.mean() <= 0.01
    inside = (before["attangent-lo-95"] <= before.y) & (before.y <= before["attangent-hi-95"])
    assert 0.93 <= inside.mean() <= 0.99


def test_a_clean_past_has_flags_at_their_level_at_most():
    found = SeriesForecaster().fit(table()).forecast_fitted_values([90])
    assert found.columns.tolist()[2:] == ["y", "attangent", "attangent-lo-90", "attangent-hi-90", "anomaly"]
    assert found.anomaly.mean() <= 0.1
    assert np.abs(found.y - found.attangent).mean() < 1.2


def test_fitted_values_know_nothing_after_them():
    """A change of the last value moves no earlier forecast, if the settings are the same."""
    one = np.array([1.0, 3.0, 2.0, 5.0, 4.0, 6.0, 5.0, 8.0, 2.0, 4.0, 6.0, 7.0])
    grid = Grid(*(np.array([number]) for number in (0.3, 0.0, 0.0, 0.0, 0.0)))
    results = []
    for last in (7.0, 100.0):
        recorded = np.empty((1, 12))
        panel = Panel.of([np.append(one[:-1], last)], 1)
        _pass(panel, 1, grid, (1,), (np.ones((1, 1)), recorded))
        results.append(recorded[0])
    np.testing.assert_allclose(results[0], results[1])
    level = one[:5].mean()
    for value, fitted in zip(one, results[0], strict=True):
        assert fitted == pytest.approx(level)
        level += 0.3 * (value - level)


def test_short_series_and_constants_have_finite_fits():
    panel = Panel.of([np.full(30, 2.0), np.arange(5.0), np.zeros(3)], 7)
    fitted = fitted_values(panel)
    for row, length in zip(fitted, panel.lengths, strict=True):
        assert np.isfinite(row[-length:]).all()
        assert np.isnan(row[:-length]).all()
    found = SeriesForecaster().fit(table(1).assign(y=3.0)).forecast_fitted_values()
    assert not found.anomaly.any()


def test_a_forecaster_that_was_not_fitted_says_so():
    with pytest.raises(AttangentError, match="not fitted"):
        SeriesForecaster().forecast_fitted_values()
