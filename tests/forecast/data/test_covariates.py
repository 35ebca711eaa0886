import numpy as np
import pandas as pd
import pytest

from attangent import AttangentError
from attangent.forecast import SeriesForecaster
from attangent.forecast.data.covariates import holiday_column, read_covariates, with_holidays
from attangent.forecast.data.series import read_series

DAYS = pd.date_range("2024-01-01", periods=24, freq="D")
HISTORY = pd.concat(
    [
        pd.DataFrame({"unique_id": u, "ds": DAYS[:20], "y": np.arange(20.0), "promo": np.arange(20.0) % 3})
        for u in "ab"
    ]
)
FUTURE = pd.concat(
    [pd.DataFrame({"unique_id": u, "ds": DAYS[20:], "promo": 1.0}) for u in "ab"], ignore_index=True
)
SERIES = read_series(HISTORY)


def test_columns_stand_beside_their_values():
    history = HISTORY.sample(frac=1, random_state=0)
    found = read_covariates(read_series(history), history, FUTURE, ["promo"], 4)
    assert found.past[0][:, 0].tolist() == [k % 3 for k in range(20)]
    assert found.future[1].tolist() == [[1.0]] * 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop(index=[5]), "covariate 'promo' has no value for id 'b' at 2024-01-22"),
        (lambda f: f.drop(columns="promo"), "table of the future has no column 'promo'"),
        (lambda f: f[f.unique_id == "a"], "no covariates for id 'b'"),
        (lambda f: pd.concat([f, f.iloc[:1]]), "two rows for id 'a' at 2024-01-21"),
    ],
)
def test_what_is_missing_is_refused_by_name(change, message):
    with pytest.raises(AttangentError, match=message):
        read_covariates(SERIES, HISTORY, change(FUTURE), ["promo"], 4)


def test_the_forecaster_asks_for_the_future():
    model = SeriesForecaster(covariates=["promo"]).fit(HISTORY)
    with pytest.raises(AttangentError, match="must be known 4 steps ahead"):
        model.predict(4)
    assert len(model.predict(4, X_df=FUTURE)) == 8


def test_holidays_are_one_more_column():
    pytest.importorskip("holidays")
    assert holiday_column(DAYS[:2], "DE").tolist() == [1.0, 0.0]
    found = with_holidays(read_covariates(SERIES, HISTORY, FUTURE, ["promo"], 4), SERIES, 4, "DE")
    assert found.names == ("promo", "holiday")
    assert found.past[0].shape == (20, 2)
    assert len(SeriesForecaster(holidays="DE").fit(HISTORY).predict(3)) == 6
    with pytest.raises(AttangentError, match="country is 'Atlantis'"):
        holiday_column(DAYS, "Atlantis")
    with pytest.raises(AttangentError, match="series are numbered"):
        holiday_column(pd.RangeIndex(3), "DE")
