import numpy as np
import pandas as pd
import pytest

from attangent import AttangentError
from attangent.forecast.data.series import SeriesColumns, read_series

DAYS = pd.date_range("2024-01-01", periods=20, freq="D")


def long_frame(ids="ab", times=DAYS):
    parts = [
        pd.DataFrame({"unique_id": one, "ds": times, "y": np.arange(len(times)) + float(k)})
        for k, one in enumerate(ids)
    ]
    return pd.concat(parts, ignore_index=True)


def test_series_in_order_of_appearance_whatever_the_order_of_rows():
    found = read_series(long_frame("ba").iloc[::-1].iloc[np.r_[20:40, 0:20]])
    assert found.ids == ["b", "a"]
    assert found.series[0].tolist() == list(range(20))
    assert found.last == [DAYS[-1]] * 2
    assert list(found.future(2)[0]) == list(pd.date_range("2024-01-21", periods=2))
    assert found.shortened(5).last == [DAYS[-6]] * 2


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
def test_files_and_several_of_them(tmp_path, ending):
    paths = [tmp_path / f"{one}.{ending}" for one in "ab"]
    for path, one in zip(paths, "ab", strict=True):
        frame = long_frame(one)
        if ending == "parquet":
            frame.to_parquet(path)
        else:
            frame.to_csv(path, index=False)
    found = read_series(paths)
    assert found.ids == ["a", "b"]
    assert found.last[0] == DAYS[-1]


def test_frames_of_other_libraries_and_other_names():
    class Other:
        def to_pandas(self):
            return long_frame().rename(columns={"unique_id": "shop", "ds": "day", "y": "sales"})

    assert read_series(Other(), SeriesColumns("shop", "day", ("sales",))).ids == ["a", "b"]
    with pytest.raises(AttangentError, match="no column 'unique_id', there are 'shop'"):
        read_series(Other())


def test_gaps_are_filled_with_a_note():
    frame = long_frame().drop(index=[3, 25])
    frame.loc[10, "y"] = np.nan
    found = read_series(frame)
    assert found.series[0].tolist() == list(range(20))
    assert found.notes == ["3 missing values or times of 'a', 'b' were interpolated"]


REFUSED = {
    "repeated": (3, "ds", "2024-01-03", "row 4 is a second one of id 'a' at 2024-01-03"),
    "text": (25, "y", "many", r"row 26 \(id 'b'\) holds 'many'"),
    "no id": (7, "unique_id", None, "row 8 has no id"),
    "off the grid": (3, "ds", "2024-01-04 11:00:00", r"irregular.*id 'a' goes from 2024-01-03"),
    "two formats": (3, "ds", "04.Jan.24 noon", r"row 4 holds '04\.Jan\.24 noon'"),
}


@pytest.mark.parametrize(("row", "column", "value", "message"), REFUSED.values(), ids=REFUSED)
def test_refused_with_id_and_row(row, column, value, message):
    frame = long_frame()
    frame["ds"] = frame["ds"].dt.strftime("%Y-%m-%d %H:%M:%S")
    frame = frame.astype(object)
    frame.loc[row, column] = value
    with pytest.raises(AttangentError, match=message):
        read_series(frame)


def test_mixed_steps_are_skipped_by_id_or_refused_if_they_are_half():
    weekly = long_frame("c", pd.date_range("2024-01-01", periods=10, freq="7D"))
    found = read_series(pd.concat([long_frame(), weekly], ignore_index=True))
    assert found.ids == ["a", "b"]
    assert found.notes == ["1 series have another step than the rest and were skipped: 'c' (row 41)"]
    with pytest.raises(AttangentError, match=r"1 series have another step.*'c' \(row 21\) by 7 times that"):
        read_series(pd.concat([long_frame("a"), weekly], ignore_index=True))


@pytest.mark.parametrize(("row", "column", "value", "message"), REFUSED.values(), ids=REFUSED)
def test_one_bad_series_of_three_does_not_stop_the_others(row, column, value, message):
    if column == "unique_id" or value == "04.Jan.24 noon":
        pytest.skip("not the trouble of one series")
    frame = long_frame("abc")
    frame["ds"] = frame["ds"].dt.strftime("%Y-%m-%d %H:%M:%S")
    frame = frame.astype(object)
    frame.loc[row, column] = value
    found = read_series(frame)
    bad = "a" if row < 20 else "b"
    assert found.ids == [one for one in "abc" if one != bad]
    assert f"skipped: '{bad}' (row" in found.notes[0]


def test_ids_with_too_few_rows_are_skipped_or_refused():
    frame = pd.concat([long_frame(), long_frame("c", DAYS[:1])], ignore_index=True)
    with pytest.raises(AttangentError, match=r"1 series have fewer than 3 values: 'c' \(row 41\) has 1"):
        read_series(frame, drop_short=False)
    found = read_series(frame)
    assert found.ids == ["a", "b"]
    assert "they were skipped" in found.notes[0]
    with pytest.raises(AttangentError, match="every id has one row"):
        read_series(frame.drop_duplicates("unique_id"))


def test_a_series_full_of_gaps_is_skipped_and_alone_refused():
    sparse = long_frame("c", DAYS[[0, 1, 19]])
    sparse["y"] -= 2.0  # a series with negative values has no zeros for missing rows
    found = read_series(pd.concat([long_frame(), sparse], ignore_index=True))
    assert found.ids == ["a", "b"]
    assert found.notes == [
        "1 series have too many gaps or irregular times: 'c' (row 41) lacks 17 of 20; they were skipped"
    ]
    with pytest.raises(AttangentError, match=r"too many gaps.*--gaps zero"):
        read_series(sparse)


def sales(ids="abc", days=120, rate=0.4, seed=0):
    """Sales without rows for the days on which nothing sold; every series ends with its last sale."""
    rng = np.random.default_rng(seed)
    times = pd.date_range("2024-01-01", periods=days, freq="D")
    parts = []
    for one in ids:
        frame = pd.DataFrame({"unique_id": one, "ds": times, "y": rng.poisson(rate, days).astype(float)})
        parts.append(frame)
    table = pd.concat(parts, ignore_index=True)
    return table, table[table["y"] > 0].reset_index(drop=True)


def test_days_without_sales_count_as_zero():
    table, sparse = sales()
    found = read_series(sparse)
    for one, values in zip(found.ids, found.series, strict=True):
        truth = table.loc[table["unique_id"] == one, "y"].to_numpy()
        start = np.flatnonzero(truth)[0]
        end = len(truth) - np.argmax((table.groupby("ds")["y"].sum() > 0).to_numpy()[::-1])
        assert values.tolist() == truth[start:end].tolist()
    assert len(set(found.last)) == 1
    assert "were counted as zero" in found.notes[-1]


def test_gaps_as_the_user_says():
    frame = long_frame("ab").assign(y=2.0).drop(index=[3, 4, 7])
    assert read_series(frame, gaps="zero").series[0].sum() == 2.0 * 17
    assert read_series(frame, gaps="interpolate").series[0].sum() == 2.0 * 20
    assert read_series(frame, gaps="skip").ids == ["b"]


def test_missing_measurements_are_interpolated_and_a_closed_day_is_zero():
    days = pd.date_range("2024-01-01", periods=140, freq="D")
    rng = np.random.default_rng(0)
    measured = pd.DataFrame({"unique_id": "t", "ds": days, "y": 290 + rng.normal(size=140)})
    measured = measured.drop(index=rng.choice(np.arange(1, 139), 14, replace=False))
    assert read_series(measured).series[0].min() > 280
    shop = pd.DataFrame({"unique_id": "s", "ds": days, "y": 500 + rng.normal(size=140)})
    shop = shop[shop["ds"].dt.day_of_week != 6]
    assert (read_series(shop).series[0] == 0).sum() == 19


def test_a_product_sold_once_is_forecast_beside_others_and_not_alone():
    _, sparse = sales("abc")
    once = pd.DataFrame({"unique_id": "z", "ds": [pd.Timestamp("2024-01-20")], "y": [3.0]})
    found = read_series(pd.concat([sparse, once], ignore_index=True))
    assert found.ids == ["a", "b", "c", "z"]
    assert found.series[-1].sum() == 3.0


def test_ids_of_files_are_text(tmp_path):
    path = tmp_path / "shops.csv"
    rows = [f"{one},{day:%Y-%m-%d},{k}" for one in ("00017", "7", "007", "NA") for k, day in enumerate(DAYS)]
    path.write_text("unique_id,ds,y\n" + "\n".join(rows))
    assert read_series(path).ids == ["00017", "7", "007", "NA"]
    path.write_text("unique_id;ds;y\n" + "\n".join(rows).replace(",", ";"))
    assert read_series(path).ids == ["00017", "7", "007", "NA"]


@pytest.mark.parametrize("style", ["3.010,37", "3,005.67", "3 010,37"])
def test_thousands_in_a_long_table(style):
    decimal = style[-3]
    texts = [f"{3000.5 + k:,.2f}" if k % 3 else f"{k + 0.25:.2f}" for k in range(20)]
    if decimal == ",":
        swapped = str.maketrans(",.", ".," if "." in style else " ,")
        texts = [text.translate(swapped) for text in texts]
    found = read_series(long_frame("a").assign(y=texts))
    assert found.series[0].tolist() == [3000.5 + k if k % 3 else k + 0.25 for k in range(20)]


def test_the_hour_that_clocks_show_twice_is_averaged():
    utc = pd.date_range("2024-10-26", periods=72, freq="h", tz="UTC")
    local = utc.tz_convert("Europe/Berlin").tz_localize(None)
    frame = pd.DataFrame({"unique_id": "a", "ds": local, "y": np.arange(72.0)})
    found = read_series(pd.concat([frame, frame.assign(unique_id="b")], ignore_index=True))
    assert [len(values) for values in found.series] == [71, 71]
    assert found.series[0][24] == 24.5
    assert "clocks show twice" in found.notes[0]


def test_a_frame_without_rows_is_refused():
    with pytest.raises(AttangentError, match="the table has no rows"):
        read_series(pd.DataFrame({"unique_id": [], "ds": [], "y": []}))


def shop_closed_on_sundays(lost=(15, 88), blank=(50,), days=182):
    """Sales of an open shop, with rows lost and cells blank on weekdays; the last day is a Sunday."""
    times = pd.date_range("2024-01-01", periods=days, freq="D")
    weekly = np.array([10.0, 8, 7, 9, 12, 20, 0])[times.day_of_week]
    frame = pd.DataFrame({"unique_id": "s", "ds": times, "y": weekly})
    frame.loc[list(blank), "y"] = np.nan
    return frame[times.day_of_week != 6].drop(index=list(lost)), weekly


def test_closed_days_are_zero_and_lost_rows_and_blank_cells_are_interpolated():
    frame, weekly = shop_closed_on_sundays()
    series = read_series(frame)
    values = series.series[0]
    assert len(values) == 181  # the last row is a Saturday
    unknown = [15, 50, 88]
    neighbours = (weekly[[14, 49, 87]] + weekly[[16, 51, 89]]) / 2
    assert values[unknown].tolist() == neighbours.tolist()
    assert np.delete(values, unknown).tolist() == np.delete(weekly[:-1], unknown).tolist()
    assert series.notes == [
        "25 missing values or times of 's' were counted as zero",
        "3 missing values or times of 's' were interpolated",
    ]


@pytest.mark.parametrize(
    ("gaps", "zeros", "notes"),
    [
        ("zero", 28, ["28 missing values or times of 's' were counted as zero"]),
        ("interpolate", 0, ["28 missing values or times of 's' were interpolated"]),
    ],
)
def test_the_user_decides_on_closed_days_and_blank_cells_too(gaps, zeros, notes):
    frame, _ = shop_closed_on_sundays()
    series = read_series(frame, gaps=gaps)
    assert int((series.series[0] == 0).sum()) == zeros
    assert series.notes == notes


def test_a_shop_that_recorded_a_day_without_sales_is_closed_on_sundays_too():
    frame, _ = shop_closed_on_sundays(lost=(), blank=())
    frame.loc[30, "y"] = 0.0
    assert int((read_series(frame).series[0] == 0).sum()) == 26


def test_a_temperature_below_zero_is_not_zero_on_days_without_measurement():
    frame, _ = shop_closed_on_sundays(lost=(), blank=())
    frame.loc[30, "y"] = -1.0
    assert not (read_series(frame).series[0] == 0).any()


def test_a_shop_with_few_open_sundays_is_closed_on_the_others():
    frame, weekly = shop_closed_on_sundays(lost=(), blank=())
    sunday = pd.DataFrame({"unique_id": "s", "ds": [pd.Timestamp("2024-03-03")], "y": [30.0]})
    values = read_series(pd.concat([frame, sunday])).series[0]
    assert values[62] == 30
    assert np.delete(values, 62).tolist() == np.delete(weekly[:-1], 62).tolist()


def test_blank_cells_among_days_without_sales_are_interpolated():
    _, sparse = sales("a")
    sparse.loc[10, "y"] = np.nan
    values = read_series(sparse).series[0]
    row = (sparse.loc[10, "ds"] - sparse.loc[0, "ds"]).days
    assert values[row] > 0
    assert (values == 0).sum() > 40


def test_shops_end_together_if_one_is_closed_on_the_last_day():
    closed, _ = shop_closed_on_sundays(lost=(), blank=())
    days = pd.date_range("2024-01-01", periods=182, freq="D")
    opened = pd.DataFrame({"unique_id": "o", "ds": days, "y": 50.0 + np.arange(182)})
    series = read_series(pd.concat([closed, opened], ignore_index=True))
    assert series.last == [days[-1]] * 2
    assert series.series[0][-1] == 0
    assert series.notes == ["26 missing values or times of 's' were counted as zero"]


def test_a_shop_whose_last_open_days_are_lost_ends_earlier():
    closed, _ = shop_closed_on_sundays(lost=(179, 180), blank=())
    days = pd.date_range("2024-01-01", periods=182, freq="D")
    opened = pd.DataFrame({"unique_id": "o", "ds": days, "y": 50.0 + np.arange(182)})
    series = read_series(pd.concat([closed, opened], ignore_index=True))
    assert series.last == [days[178], days[-1]]


def test_nights_and_sundays_of_hourly_sales_are_zero():
    hours = pd.date_range("2024-01-01", periods=6 * 168, freq="h")
    frame = pd.DataFrame({"unique_id": "s", "ds": hours, "y": 40.0})
    frame = frame[(hours.hour >= 8) & (hours.hour < 20) & (hours.day_of_week != 6)]
    lost = frame.index[100]
    values = read_series(frame.drop(index=lost)).series[0]
    assert (values > 0).sum() == len(frame)
    assert values[lost - frame.index[0]] == 40


def test_the_only_column_of_dates_is_read_and_named():
    frame = long_frame().rename(columns={"ds": "day"}).assign(code="p1")
    series = read_series(frame, SeriesColumns(time=None))
    assert series.columns.time == "day"
    assert series.notes == ["times were read from column 'day'"]
    numbered = long_frame().rename(columns={"ds": "year"}).assign(year=[*range(1980, 2000)] * 2)
    assert read_series(numbered, SeriesColumns(time=None)).columns.time == "year"
    assert read_series(long_frame().assign(paid=DAYS[0]), SeriesColumns(time=None)).notes == []


def test_two_columns_of_dates_or_none_are_refused_with_the_options():
    frame = long_frame().rename(columns={"ds": "day"}).assign(**{"paid on": "2024-01-05"})
    with pytest.raises(
        AttangentError, match=r"'day' and 'paid on' hold dates.*--date day or --date 'paid on'"
    ):
        read_series(frame, SeriesColumns(time=None))
    with pytest.raises(AttangentError, match=r"no column of times was found.*--date"):
        read_series(frame.drop(columns=["day", "paid on"]), SeriesColumns(time=None))


def test_a_missing_target_lists_the_numeric_columns_as_options():
    frame = long_frame().rename(columns={"y": "units sold"}).assign(price=1.5, kind="a")
    with pytest.raises(AttangentError, match=r"no column 'y'.*--target 'units sold' or --target price \("):
        read_series(frame)
