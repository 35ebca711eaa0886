"""Short series beside long ones, and constant ones: levels and spreads that the set supports."""

import numpy as np
import pandas as pd
import pytest

from attangent.forecast import SeriesForecaster
from attangent.forecast.data.panel import Panel
from attangent.forecast.pipeline.combination import PanelRequest, forecast_panel
from attangent.forecast.pipeline.groups import MOST_SERIES, in_groups
from attangent.forecast.pipeline.short_series import SHORT, ShortFit, _widening, cut_windows


def walks(count, times, seed=0):
    rng = np.random.default_rng(seed)
    return 100 + np.cumsum(rng.normal(size=(count, times)), axis=1)


def test_intervals_of_series_cut_to_four_values_cover_and_errors_are_those_of_the_last_value():
    values = walks(200, 60)
    train = [row[:50] if k < 120 else row[46:50] for k, row in enumerate(values)]
    result = forecast_panel(Panel.of(train, 12), PanelRequest(10, 12, (0.1, 0.9)))
    actual = values[120:, 50:]
    inside = (result.quantiles[120:, :, 0] <= actual) & (actual <= result.quantiles[120:, :, 1])
    assert 0.72 <= inside.mean() <= 0.92
    error = np.abs(result.forecasts[120:] - actual).mean()
    assert error <= 1.03 * np.abs(values[120:, 49:50] - actual).mean()


def test_a_season_that_the_set_shares_reaches_short_series():
    season = 10 * np.sin(2 * np.pi * np.arange(60) / 12)
    values = walks(80, 60) + season
    train = [row[:48] if k < 60 else row[44:48] for k, row in enumerate(values)]
    result = forecast_panel(Panel.of(train, 12), PanelRequest(12, 12))
    error = np.abs(result.forecasts[60:] - values[60:, 48:]).mean()
    assert error < 0.7 * np.abs(values[60:, 47:48] - values[60:, 48:]).mean()


def test_windows_end_whole_seasons_before_the_end():
    panel = Panel.of([np.arange(40.0), np.arange(4.0)], 12)
    windows, sources = cut_windows(panel, 4, 10)
    assert windows[0].tolist() == list(range(24, 38))  # ends 2 before the end: 10 + 2 = a season
    assert set(sources) == {0}


def test_weights_follow_the_closed_form_and_vanish_without_gain():
    rng = np.random.default_rng(0)
    windows = np.cumsum(rng.normal(size=(300, 9)), axis=1) + 50
    assert (ShortFit.of(windows, np.arange(300), 4).weights == 0).all()
    windows[:, 4:] = windows[:, 3:4] + 5.0
    fit = ShortFit.of(windows, np.arange(300), 4)
    forecasts, quantiles = fit.predict(windows[:5, :4], np.array([0.1, 0.9]))
    assert np.abs(forecasts - windows[:5, 4:]).max() < 2.5
    assert (quantiles[:, :, 0] <= quantiles[:, :, 1]).all()


def test_intervals_widen_until_others_cover_nine_of_ten_times():
    errors = np.random.default_rng(0).normal(size=(1100, 6))
    times = np.repeat(np.arange(11), 100)
    assert 1.0 <= _widening(errors, times) < 1.15
    shifted = errors + np.linspace(-1.5, 1.5, 11)[times][:, None]
    wider = _widening(shifted, times)
    covered = []
    for time in range(11):
        low, middle, high = np.quantile(shifted[times != time], (0.1, 0.5, 0.9), axis=0)
        here = shifted[times == time]
        above = here >= middle - wider * (middle - low)
        covered.append((above & (here <= middle + wider * (high - middle))).mean())
    assert sorted(covered)[1] == pytest.approx(0.8, abs=0.001)
    assert wider > 1.1
    assert _widening(errors, np.zeros(1100, dtype=int)) == 1.0


@pytest.mark.parametrize("value", [0.0, 3.0, 0.1])
@pytest.mark.parametrize(("times", "period"), [(5, 1), (20, 7), (80, 12)])
def test_a_set_of_constant_series_is_forecast_exactly(value, times, period):
    result = forecast_panel(
        Panel.of([np.full(times, value)] * 5, period), PanelRequest(6, period, (0.1, 0.9))
    )
    assert (result.forecasts == value).all()
    assert (result.quantiles == value).all()


def test_a_series_of_zeros_among_others_stays_at_zero():
    rng = np.random.default_rng(0)
    series = [*np.maximum(rng.normal(10, 3, (20, 80)), 0), np.zeros(80), np.full(60, 5.0)]
    result = forecast_panel(Panel.of(series, 12), PanelRequest(5, 12, (0.1, 0.9)))
    assert (result.forecasts[-2] == 0).all()
    assert (result.quantiles[-2:] == np.array([0.0, 5.0])[:, None, None]).all()


def test_windows_of_zeros_neither_blow_up_intervals_nor_leave_none_for_a_short_series_of_zeros():
    rng = np.random.default_rng(0)
    sales = [rng.poisson(2, 60) * (rng.random(60) < 0.25) * 1.0 for _ in range(100)]
    panel = Panel.of([*sales, np.array([2.0, 1.0, 3.0, 2.0]), np.zeros(4)], 12)
    quantiles = forecast_panel(panel, PanelRequest(3, 12, (0.025, 0.975))).quantiles[-2:]
    assert (quantiles[:, :, 0] == 0).all()
    assert ((quantiles[:, :, 1] > 0.5) & (quantiles[:, :, 1] < 50)).all()


def test_short_series_are_dealt_out_over_the_groups():
    series = [np.zeros(20)] * (2 * MOST_SERIES) + [np.zeros(4)] * 5
    groups = in_groups(series)
    assert len(groups) == 2
    assert sorted(np.concatenate(groups)) == list(range(len(series)))
    assert all((np.array([len(series[k]) for k in group]) < SHORT).any() for group in groups)


def test_a_note_on_short_series_and_no_note_without_them():
    days = pd.date_range("2024-01-01", periods=60, freq="D")
    long = pd.concat([pd.DataFrame({"unique_id": one, "ds": days, "y": np.arange(60.0)}) for one in "ab"])
    assert SeriesForecaster().fit(long).notes_ == []
    short = pd.DataFrame({"unique_id": "c", "ds": days[-4:], "y": [1.0, 2.0, 3.0, 4.0]})
    assert "1 series have fewer than 8 values" in SeriesForecaster().fit(pd.concat([long, short])).notes_[-1]
