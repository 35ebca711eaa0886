import numpy as np
import pandas as pd
import pytest

from attangent import AttangentError
from attangent.forecast.pipeline.outlooks import tidy
from attangent.forecast.pipeline.targets import forecast_frame, period_of_frame
from tests.forecast.examples import waves


def frame_of(values, frequency="h"):
    index = pd.date_range("2024-01-01", periods=len(values), freq=frequency)
    return pd.DataFrame({"v": values}, index=index)


def test_forecast_of_a_wave_with_intervals():
    (found,) = forecast_frame(frame_of(waves(600, 1)[:, 0]), ["v"], 12)
    truth = np.sin(2 * np.pi * np.arange(600, 612) / 12)
    assert np.abs(found.values.forecast - truth).max() < 0.15
    assert found.values.index[0] == pd.Timestamp("2024-01-26 00:00")
    values = found.values
    assert (values.lower_95 < values.lower_80).all()
    assert (values.lower_80 < values.forecast).all()
    assert (values.upper_80 < values.upper_95).all()
    assert found.expected["mae"] == pytest.approx(0.085, abs=0.02)  # noise of 0.1 has a mean size of 0.08
    assert found.expected["coverage at 0.8"] == pytest.approx(0.8, abs=0.1)
    assert "less than repeating the last value" in found.sentence()


def test_a_constant_and_short_monthly_series():
    (constant,) = forecast_frame(frame_of(np.full(60, 7.0)), ["v"], 3)
    assert constant.values.forecast.tolist() == [7.0] * 3
    assert np.isfinite(constant.values.to_numpy()).all()
    assert "nan" not in constant.sentence()
    (monthly,) = forecast_frame(frame_of(waves(60, 1)[:, 0], "MS"), ["v"], 12)
    assert monthly.values.index[-1] == pd.Timestamp("2029-12-01")


def test_a_named_model_is_kept_and_compared():
    (found,) = forecast_frame(frame_of(waves(300, 1)[:, 0]), ["v"], 4, lookback=24, model="seasonal")
    assert found.model == "seasonal"
    assert found.why == "seasonal was asked for"
    assert found.expected["mae of persistence"] > found.expected["mae"]


def test_everything_is_refused_before_any_work():
    frame, told = frame_of(waves(300, 1)[:, 0]), []
    for arguments, message in (
        ({"targets": ["w"]}, "no column 'w', there are v"),
        ({"model": "lienar"}, "did you mean linear"),
        ({"horizon": 0}, "horizon is 0"),
        ({"horizon": 150, "model": "linear"}, "expected at least look-back"),
        ({"levels": [1.5]}, "level is 1.5"),
    ):
        with pytest.raises(AttangentError, match=message):
            forecast_frame(
                **{"frame": frame, "targets": ["v"], "horizon": 4, "tell": told.append, **arguments}
            )
    assert not told


@pytest.mark.parametrize("length", [3, 5, 12, 40])
def test_short_series_are_answered(length):
    frame = frame_of(20 + waves(length, 1)[:, 0], "MS")
    (found,) = forecast_frame(frame, ["v"], 6)
    assert np.isfinite(found.values.to_numpy()).all()
    assert (found.values.lower_95 <= found.values.lower_80).all()
    assert (found.values.upper_80 <= found.values.upper_95).all()
    assert bool(found.expected) == (length > 5)


def test_the_calendar_says_the_period():
    assert period_of_frame(frame_of(np.arange(50.0), "MS")) == 12
    assert period_of_frame(frame_of(np.arange(50.0), "h")) == 24
    season = np.tile(np.random.default_rng(0).normal(size=12), 8)
    (found,) = forecast_frame(frame_of(season, "MS"), ["v"], 12, model="smoothing")
    np.testing.assert_allclose(found.values.forecast, season[:12], atol=0.3)
    (other,) = forecast_frame(frame_of(season, "MS"), ["v"], 12, model="smoothing", period=1)
    assert np.abs(other.values.forecast - season[:12]).max() > 0.5


def test_a_step_after_a_constant_stretch_keeps_intervals_within_reason():
    values = np.concatenate([np.full(300, 5.0), 9 + waves(200, 1)[:, 0]])
    (found,) = forecast_frame(frame_of(values), ["v"], 6)
    assert (found.values.upper_95 - found.values.lower_95).max() < 2 * np.ptp(values)


@pytest.mark.parametrize("model", ["auto", "persistence"])
def test_a_positive_series_stays_positive(model):
    values = np.exp(np.cumsum(np.random.default_rng(0).normal(0, 0.3, 60)))
    (found,) = forecast_frame(frame_of(values, "D"), ["v"], 6, model=model)
    assert found.values.lower_95.min() >= 0


def test_a_model_that_did_worse_than_the_last_value_is_warned_of():
    walk = np.cumsum(np.random.default_rng(3).normal(size=500))
    (found,) = forecast_frame(frame_of(walk), ["v"], 6, lookback=48, model="seasonal")
    assert found.skill < -0.05
    assert "WARNING" in found.warning()
    (calm,) = forecast_frame(frame_of(walk), ["v"], 6, lookback=48, model="persistence")
    assert calm.warning() == ""


def test_shorten_the_look_back_is_not_advised_where_it_is_one():
    with pytest.raises(AttangentError, match="take --model auto, or shorten the horizon"):
        forecast_frame(frame_of(np.arange(12.0)), ["v"], 6, lookback=1, model="linear")


def test_tidy_puts_targets_below_each_other():
    frame = pd.DataFrame(waves(300), columns=["a", "b"])
    table = tidy(forecast_frame(frame, ["a", "b"], 4, lookback=24, levels=[0.9]))
    assert list(table.columns) == ["target", "time", "forecast", "lower_90", "upper_90"]
    assert table.time.tolist() == [300, 301, 302, 303] * 2
