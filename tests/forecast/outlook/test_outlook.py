import numpy as np
import pandas as pd
import pytest

from attangent import AttangentError
from attangent.forecast.models.by_name import AUTO, make
from attangent.forecast.outlook.choose import choose, default_lookback, folds
from attangent.forecast.outlook.outlook import forecast_frame, tidy
from attangent.forecast.outlook.plot import plot_outlooks
from tests.forecast.examples import autoregression, waves


def frame_of(values, frequency="h"):
    index = pd.date_range("2024-01-01", periods=len(values), freq=frequency)
    return pd.DataFrame({"v": values}, index=index)


def test_folds_are_at_the_end_and_never_overlap():
    parts = folds(1000, 50, 20)
    assert [(p.origin, p.end) for p in parts] == [(500 + 100 * k, 600 + 100 * k) for k in range(5)]
    assert len(folds(100, 20, 20)) == 2
    with pytest.raises(AttangentError, match="expected at least look-back \\+ 3 horizons \\+ 1 = 81"):
        folds(80, 20, 20)


def test_the_default_look_back_always_leaves_room():
    for length in (30, 100, 1000, 10**6):
        for horizon in (1, 5, 9):
            assert len(folds(length, default_lookback(length, horizon), horizon)) >= 2


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        (np.cumsum(autoregression(1500, (0.0,))), {"persistence", "linear", "linear-mean"}),
        (
            np.tile(np.random.default_rng(0).normal(size=10), 60),
            {"seasonal", "linear", "linear-mean", "linear-none"},
        ),
        (autoregression(1500), {"linear-none"}),
    ],
    ids=["random walk", "periodic", "autoregression"],
)
def test_auto_takes_the_model_the_series_calls_for(series, expected):
    choice = choose(AUTO, series, 24, 3)
    assert choice.model in expected
    assert choice.model in choice.why
    assert len(choice.table()) == 5 * 5


def test_the_last_fold_has_no_say():
    series = waves(500, 1)[:, 0]
    spoiled = series.copy()
    spoiled[450:] = np.random.default_rng(0).normal(size=50)
    assert choose(AUTO, series, 24, 3).why == choose(AUTO, spoiled, 24, 3).why


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


def test_every_name_makes_a_model():
    for name in AUTO:
        assert make(name, 8, 2).lookback == 8


def test_tidy_and_picture(tmp_path):
    frame = pd.DataFrame(waves(300), columns=["a", "b"])
    outlooks = forecast_frame(frame, ["a", "b"], 4, lookback=24, levels=[0.9])
    table = tidy(outlooks)
    assert list(table.columns) == ["target", "time", "forecast", "lower_90", "upper_90"]
    assert table.time.tolist() == [300, 301, 302, 303] * 2
    plot_outlooks(frame, outlooks, tmp_path / "a.svg")
    assert "<svg" in (tmp_path / "a.svg").read_text()
    with pytest.raises(AttangentError, match=r"ending in \.png"):
        plot_outlooks(frame, outlooks, tmp_path / "a.doc")
