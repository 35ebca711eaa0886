import numpy as np
import pandas as pd
import pytest

from attangent import AttangentError, forecast
from attangent.forecast import SeriesForecaster, forecast_frame
from tests.forecast.examples import waves

RNG = np.random.default_rng(0)


def long_frame(lengths=(60, 36, 48)):
    parts = []
    for k, n in enumerate(lengths):
        times = pd.date_range(end="2024-12-01", periods=n, freq="MS")
        y = 20 + 5 * np.sin(2 * np.pi * np.arange(n) / 12) + RNG.normal(size=n)
        parts.append(pd.DataFrame({"unique_id": f"s{k}", "ds": times, "y": y}))
    return pd.concat(parts, ignore_index=True)


FRAME = long_frame()


def test_predict_gives_a_long_frame_in_the_order_of_the_ids():
    found = SeriesForecaster().fit(FRAME).predict(3, level=[80, 95], quantiles=[0.5])
    assert found.unique_id.tolist() == ["s0"] * 3 + ["s1"] * 3 + ["s2"] * 3
    assert found.ds.tolist()[:3] == list(pd.date_range("2025-01-01", periods=3, freq="MS"))
    ends = [f"attangent-{side}-{level}" for level in (80, 95) for side in ("lo", "hi")]
    assert found.columns.tolist() == ["unique_id", "ds", "attangent", *ends, "attangent-q0.5"]
    assert (found["attangent-lo-95"] < found["attangent-lo-80"]).all()
    assert (found["attangent-hi-80"] < found["attangent-hi-95"]).all()
    truth = 20 + 5 * np.sin(2 * np.pi * np.arange(60, 63) / 12)
    assert np.abs(found.attangent[:3] - truth).max() < 2


def test_the_order_of_series_changes_nothing():
    found = SeriesForecaster().fit(FRAME).predict(3)
    turned = SeriesForecaster().fit(FRAME.iloc[::-1]).predict(3)
    one, other = (f.set_index(["unique_id", "ds"]).sort_index() for f in (found, turned))
    pd.testing.assert_frame_equal(one, other)


def test_cross_validation_knows_nothing_after_its_cutoff():
    found = SeriesForecaster().cross_validation(FRAME, 4, n_windows=2, level=[80])
    assert found.cutoff.unique().tolist() == [pd.Timestamp("2024-04-01"), pd.Timestamp("2024-08-01")]
    spoiled = FRAME.copy()
    spoiled.loc[spoiled.ds > "2024-04-01", "y"] = 1e6
    other = SeriesForecaster().cross_validation(spoiled, 4, n_windows=2)
    early = found.cutoff == pd.Timestamp("2024-04-01")
    np.testing.assert_array_equal(found.attangent[early], other.attangent[early])
    merged = found.merge(FRAME, on=["unique_id", "ds"], suffixes=("", "_true"))
    assert len(merged) == len(found) == 24
    np.testing.assert_array_equal(merged.y, merged.y_true)
    alone = SeriesForecaster().forecast(FRAME[FRAME.ds <= "2024-04-01"], 4)
    np.testing.assert_allclose(found.attangent[early], alone.attangent)


def test_outlook_tells_errors_reasons_and_models():
    found = SeriesForecaster("theta").fit(FRAME).outlook(3, [90])
    assert found.models == ["theta"] * 3
    assert found.why == ["theta was named"]
    assert found.errors["combination"] < found.errors["persistence"]
    assert found.plain().columns.tolist() == [
        "unique_id",
        "ds",
        "forecast",
        "forecast-lo-90",
        "forecast-hi-90",
        "model",
    ]


def test_a_period_is_taken_from_the_calendar_or_as_given():
    assert SeriesForecaster().fit(FRAME).period_ == 12
    assert SeriesForecaster(period=6).fit(FRAME).period_ == 6


def test_frames_of_polars_are_read_and_returned():
    polars = pytest.importorskip("polars")
    result = SeriesForecaster().fit(polars.from_pandas(FRAME)).predict(2)
    assert isinstance(result, polars.DataFrame)
    np.testing.assert_allclose(result["attangent"], SeriesForecaster().fit(FRAME).predict(2).attangent)


def with_price():
    price = np.random.default_rng(5).integers(0, 2, 100).astype(float)
    parts = []
    for k, (_, one) in enumerate(long_frame((60, 60, 60)).groupby("unique_id")):
        own = price[k : k + len(one)]
        parts.append(one.assign(price=own, y=one.y + 15 * own))
    return pd.concat(parts, ignore_index=True)


def test_cross_validation_takes_covariates_from_its_frame():
    df = with_price()
    known = SeriesForecaster(covariates=["price"]).cross_validation(df, 4, n_windows=2)
    plain = SeriesForecaster().cross_validation(df, 4, n_windows=2)
    error, usual = (np.abs(found.attangent - found.y).mean() for found in (known, plain))
    assert error < 0.5 * usual
    cutoff = known.cutoff.min()
    past, future = df[df.ds <= cutoff], df[df.ds > cutoff].drop(columns="y")
    alone = SeriesForecaster(covariates=["price"]).forecast(past, 4, X_df=future)
    np.testing.assert_allclose(known.attangent[known.cutoff == cutoff], alone.attangent)


def test_a_covariate_that_is_missing_after_a_cutoff_is_refused_by_name():
    df = with_price()
    df.loc[(df.unique_id == "s1") & (df.ds == "2024-10-01"), "price"] = np.nan
    with pytest.raises(AttangentError, match="'price' has no value for id 's1' at 2024-10-01"):
        SeriesForecaster(covariates=["price"]).cross_validation(df, 4)


def by_kind():
    """Noisy series of two kinds, one of which rises and the other falls."""
    rng, times = np.random.default_rng(1), pd.date_range("1980-01-01", periods=40, freq="YS")
    parts = []
    for k in range(24):
        y = 100 + np.cumsum(k % 2 - 0.5 + 0.5 * rng.normal(size=40)) + 2 * rng.normal(size=40)
        parts.append(pd.DataFrame({"unique_id": k, "ds": times, "y": y, "kind": "up" if k % 2 else "down"}))
    return pd.concat(parts, ignore_index=True)


def test_a_category_is_used_where_it_tells_something():
    df = by_kind()
    told, plain = (
        SeriesForecaster("ridge", category=kind).cross_validation(df, 4, n_windows=1)
        for kind in ("kind", None)
    )
    error, usual = (np.abs(found.attangent - found.y).mean() for found in (told, plain))
    assert error < 0.9 * usual


def test_categories_are_kept_in_order_whatever_the_order_of_series():
    df = by_kind()
    found = SeriesForecaster(category="kind").fit(df)
    assert found.series_.category.tolist() == [0, 1] * 12  # down, up
    turned = SeriesForecaster(category="kind").fit(df.iloc[::-1])
    one, other = (f.predict(2).set_index(["unique_id", "ds"]).sort_index() for f in (found, turned))
    pd.testing.assert_frame_equal(one, other)


@pytest.mark.parametrize("value", ["up", None])
def test_a_series_of_two_categories_or_none_is_refused_with_its_row(value):
    df = by_kind()
    df.loc[7, "kind"] = value
    with pytest.raises(AttangentError, match="row 8 of id 0 holds"):
        SeriesForecaster(category="kind").fit(df)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SeriesForecaster("prophet"), "model is 'prophet'"),
        (lambda: SeriesForecaster(period=0), "period is 0"),
        (lambda: SeriesForecaster().predict(3), "not fitted"),
        (lambda: SeriesForecaster().fit(FRAME).predict(0), "h is 0"),
        (lambda: SeriesForecaster().fit(FRAME).predict(3, [0.8]), "level is 0.8, expected a number from 1"),
        (lambda: SeriesForecaster().fit(FRAME).predict(3, quantiles=[1]), "quantile is 1"),
        (lambda: SeriesForecaster().cross_validation(FRAME, 30, 2), "longest series has 60 values"),
        (lambda: SeriesForecaster(category="kind").fit(FRAME), "there is no column 'kind'"),
        (lambda: SeriesForecaster().fit(7), "int cannot be read as series"),
    ],
)
def test_refused(call, message):
    with pytest.raises(AttangentError, match=message):
        call()


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: SeriesForecaster().fit(FRAME).predict(10**12), "the forecasts .* would take"),
        (lambda: SeriesForecaster(period=10**12).fit(FRAME).predict(2), "the seasons .* would take"),
        (lambda: SeriesForecaster().cross_validation(FRAME, 2, n_windows=10**12), "take fewer windows"),
    ],
)
def test_numbers_that_no_machine_holds_are_refused_before_the_work(ask, message):
    with pytest.raises(AttangentError, match=message):
        ask()


def frame_of(values, frequency="h"):
    index = pd.date_range("2024-01-01", periods=len(values), freq=frequency)
    return pd.DataFrame({"v": values}, index=index)


def values_of(result):
    return result.plain().set_index("time")


def test_forecast_of_a_wave_with_intervals():
    found = forecast_frame(frame_of(waves(600, 1)[:, 0]), ["v"], 12)
    truth = np.sin(2 * np.pi * np.arange(600, 612) / 12)
    values = values_of(found)
    assert np.abs(values.forecast - truth).max() < 0.15
    assert values.index[0] == pd.Timestamp("2024-01-26 00:00")
    assert (values["forecast-lo-95"] < values["forecast-lo-80"]).all()
    assert (values["forecast-lo-80"] < values.forecast).all()
    assert (values["forecast-hi-80"] < values["forecast-hi-95"]).all()
    expected = found.expected[0]
    assert expected["mae"] == pytest.approx(0.085, abs=0.02)  # noise of 0.1 has a mean size of 0.08
    assert expected["coverage at 0.8"] == pytest.approx(0.8, abs=0.1)
    assert "less than repeating the last value" in found.sentence()


def test_a_constant_and_short_monthly_series():
    constant = forecast_frame(frame_of(np.full(60, 7.0)), ["v"], 3)
    assert values_of(constant).forecast.tolist() == pytest.approx([7.0] * 3)
    assert np.isfinite(values_of(constant).drop(columns="target").to_numpy()).all()
    assert "nan" not in constant.sentence()
    monthly = forecast_frame(frame_of(waves(60, 1)[:, 0], "MS"), ["v"], 12)
    assert values_of(monthly).index[-1] == pd.Timestamp("2029-12-01")


def test_a_named_model_is_kept_and_compared():
    found = forecast_frame(frame_of(waves(300, 1)[:, 0]), ["v"], 4, model="linear")
    assert found.models == ["linear"]
    assert found.why == ["linear was named"]
    assert found.expected[0]["mae of persistence"] > found.expected[0]["mae"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"targets": ["w"]}, "no column 'w', there are 'v'"),
        ({"model": "lienar"}, "model is 'lienar', expected one of auto"),
        ({"horizon": 0}, "horizon is 0"),
        ({"levels": [1.5]}, "level is 1.5"),
    ],
)
def test_a_frame_is_refused_before_any_work(changes, message):
    frame = frame_of(waves(300, 1)[:, 0])
    with pytest.raises(AttangentError, match=message):
        forecast_frame(**{"frame": frame, "targets": ["v"], "horizon": 4, **changes})


@pytest.mark.parametrize("length", [3, 5, 12, 40])
def test_short_series_are_answered(length):
    found = forecast_frame(frame_of(20 + waves(length, 1)[:, 0], "MS"), ["v"], 6)
    values = values_of(found)
    assert np.isfinite(values.drop(columns="target").to_numpy()).all()
    assert (values["forecast-lo-95"] <= values["forecast-lo-80"]).all()
    assert (values["forecast-hi-80"] <= values["forecast-hi-95"]).all()
    assert bool(found.expected[0]) == (length > 5)


def test_the_calendar_says_the_period():
    season = np.tile(np.random.default_rng(0).normal(size=12), 8)
    found = forecast_frame(frame_of(season, "MS"), ["v"], 12, model="smoothing")
    np.testing.assert_allclose(values_of(found).forecast, season[:12], atol=0.3)
    other = forecast_frame(frame_of(season, "MS"), ["v"], 12, model="smoothing", period=1)
    assert np.abs(values_of(other).forecast - season[:12]).max() > 0.5


def test_a_step_after_a_constant_stretch_keeps_intervals_within_reason():
    values = np.concatenate([np.full(300, 5.0), 9 + waves(200, 1)[:, 0]])
    found = values_of(forecast_frame(frame_of(values), ["v"], 6))
    assert (found["forecast-hi-95"] - found["forecast-lo-95"]).max() < 2 * np.ptp(values)


@pytest.mark.parametrize("model", ["auto", "persistence"])
def test_a_positive_series_stays_positive(model):
    values = np.exp(np.cumsum(np.random.default_rng(0).normal(0, 0.3, 60)))
    found = forecast_frame(frame_of(values, "D"), ["v"], 6, model=model)
    assert values_of(found)["forecast-lo-95"].min() >= 0


def test_a_model_that_did_worse_than_the_last_value_is_warned_of():
    walk = np.cumsum(np.random.default_rng(3).normal(size=500))
    found = forecast_frame(frame_of(walk), ["v"], 6, model="seasonal")
    assert found.skill() < -0.05
    assert "WARNING" in found.warning()
    calm = forecast_frame(frame_of(walk), ["v"], 6, model="persistence")
    assert calm.warning() == ""


def test_targets_stand_below_each_other():
    frame = pd.DataFrame(waves(300), columns=["a", "b"])
    table = forecast_frame(frame, ["a", "b"], 4, levels=[0.9]).plain()
    assert list(table.columns) == ["target", "time", "forecast", "forecast-lo-90", "forecast-hi-90"]
    assert table.time.tolist() == [300, 301, 302, 303] * 2


@pytest.mark.parametrize("kind", [np.full(500, 7.0), np.zeros(500), np.repeat([0.0, 1.0], 300)])
def test_long_series_that_hardly_move_are_answered(kind):
    found = values_of(forecast_frame(frame_of(kind), ["v"], 8)).drop(columns="target")
    assert np.isfinite(found.to_numpy()).all()


def test_names_that_moved_say_where_to():
    with pytest.raises(AttangentError, match="diagnose was removed; use evaluate"):
        forecast.diagnose  # noqa: B018
    with pytest.warns(FutureWarning, match="p5_forecasting"):
        assert forecast.LinearForecaster(4, 2).horizon == 2


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        ("model", "models", "theta"),
        ("id", "id_col", "shop"),
        ("time", "time_col", "day"),
        ("target", "target_col", "sold"),
        ("jobs", "n_jobs", 2),
    ],
)
def test_old_arguments_work_and_warn(old, new, value):
    with pytest.warns(FutureWarning, match=rf"SeriesForecaster\({old}=\) is deprecated.*use {new}="):
        model = SeriesForecaster(**{old: value})
    assert model.get_params()[new] == value
    with pytest.raises(AttangentError, match=f"both {old} and {new} are given"):
        SeriesForecaster(**{old: value, new: value})


def test_old_arguments_of_evaluate_work_and_warn():
    renamed = FRAME.rename(columns={"unique_id": "shop", "ds": "day", "y": "sold"})
    with pytest.warns(FutureWarning, match=r"evaluate\((id|time|target)=\)"):
        old = forecast.evaluate(renamed, 3, id="shop", time="day", target="sold", models=["seasonal"])
    new = forecast.evaluate(FRAME, 3, models=["seasonal"])
    pd.testing.assert_frame_equal(old.table, new.table)


def test_parameters_are_those_of_scikit_learn_and_nixtla():
    from sklearn.base import clone

    model = SeriesForecaster(
        ["theta", "seasonal"], freq="MS", id_col="unique_id", time_col="ds", target_col="y"
    )
    copy = clone(model)
    assert copy is not model
    assert copy.get_params() == model.get_params()
    assert copy.set_params(gaps="zero").gaps == "zero"
    with pytest.raises(AttangentError, match="colour"):
        copy.set_params(colour=3)


def test_several_models_stand_side_by_side_and_cross_validation_has_quantiles():
    months = pd.date_range("2020-01-01", periods=48, freq="MS")
    df = pd.DataFrame({"unique_id": "a", "ds": months, "y": np.arange(48) % 12 + 0.0})
    table = SeriesForecaster(["theta", "seasonal"], freq="MS").forecast(df, 3, level=[80])
    assert table.columns.tolist() == [
        *("unique_id", "ds", "theta", "theta-lo-80", "theta-hi-80"),
        *("seasonal", "seasonal-lo-80", "seasonal-hi-80"),
    ]
    checked = SeriesForecaster("seasonal").cross_validation(df, 3, quantiles=[0.1, 0.9])
    assert checked.columns.tolist()[-2:] == ["attangent-q0.1", "attangent-q0.9"]
    with pytest.raises(AttangentError, match="freq is 'fortnightly'"):
        SeriesForecaster(freq="fortnightly").fit(df)
