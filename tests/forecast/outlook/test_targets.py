import numpy as np
import pandas as pd
import pytest

from attangent import AttangentError
from attangent.forecast.outlook.targets import forecast_frame, tidy
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
        ({"horizon": 150}, "expected at least look-back"),
        ({"levels": [1.5]}, "level is 1.5"),
    ):
        with pytest.raises(AttangentError, match=message):
            forecast_frame(
                **{"frame": frame, "targets": ["v"], "horizon": 4, "tell": told.append, **arguments}
            )
    assert not told


def test_tidy_puts_targets_below_each_other():
    frame = pd.DataFrame(waves(300), columns=["a", "b"])
    table = tidy(forecast_frame(frame, ["a", "b"], 4, lookback=24, levels=[0.9]))
    assert list(table.columns) == ["target", "time", "forecast", "lower_90", "upper_90"]
    assert table.time.tolist() == [300, 301, 302, 303] * 2
