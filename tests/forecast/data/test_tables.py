"""CSV files as they come: each kind of trouble is mended with a note or refused with a reason."""

import gzip
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attangent import AttangentError
from attangent.forecast.data.series import SeriesColumns, read_series


def read_frame(path, date=None, keep=()):
    """The columns of a table as a frame on its grid of times, and the notes."""
    found = read_series(path, SeriesColumns(None, date, tuple(keep)))
    columns = {
        name: pd.Series(values, index=found.step.apart(last, np.arange(1 - len(values), 1)))
        for name, values, last in zip(found.ids, found.series, found.last, strict=True)
    }
    return SimpleNamespace(frame=pd.DataFrame(columns), notes=found.notes)


HOURS = pd.date_range("2024-01-30 00:00", periods=48, freq="h")


def write(path, index, header="date,value", values=None, separator=","):
    values = np.arange(len(index)) if values is None else values
    path.write_text("\n".join([header, *(f"{i}{separator}{v}" for i, v in zip(index, values, strict=True))]))
    return path


@pytest.fixture
def csv(tmp_path):
    return tmp_path / "series.csv"


FORMATS = [
    "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%SZ", "%Y/%m/%d %H:%M", "%d/%m/%Y %H:%M",
    "%m/%d/%Y %H:%M",
    "%d.%m.%Y %H:%M", "%d-%b-%Y %H:%M", "%b %d %Y %H:%M", "%m/%d/%Y %I:%M %p", "%Y%m%d %H:%M",
]  # fmt: skip


@pytest.mark.parametrize("shape", FORMATS)
def test_dates_in_common_formats(csv, shape):
    found = read_frame(write(csv, HOURS.strftime(shape)))
    expected = HOURS.tz_localize("UTC") if shape.endswith("Z") else HOURS
    assert list(found.frame.index) == list(expected)
    assert found.frame["value"].tolist() == list(range(48))


@pytest.mark.parametrize(("unit", "divide"), [("s", 10**9), ("ms", 10**6), ("us", 10**3)])
def test_seconds_since_1970(csv, unit, divide):
    stamps = HOURS.as_unit("ns").asi8 // divide
    assert list(read_frame(write(csv, stamps, "timestamp,value")).frame.index) == list(HOURS)


def test_days_first_where_only_the_order_tells(csv):
    days = pd.date_range("2024-02-01", periods=12, freq="D")
    found = read_frame(write(csv, days.strftime("%d/%m/%Y")))
    assert list(found.frame.index) == list(days)


def test_years_months_and_weekdays(csv):
    years = read_frame(write(csv, range(1980, 2000), "year,value")).frame
    assert years.index[-1] == pd.Timestamp("1999-01-01")
    months = pd.date_range("2020-01-31", periods=30, freq="ME")
    assert len(read_frame(write(csv, months.strftime("%Y-%m-%d"))).frame) == 30
    weekdays = pd.bdate_range("2024-01-01", periods=40)
    assert len(read_frame(write(csv, weekdays.strftime("%Y-%m-%d"))).frame) == 40


def test_a_missing_month_and_a_holiday_are_inserted(csv):
    months = pd.date_range("2020-01-31", periods=30, freq="ME").delete(7)
    found = read_frame(write(csv, months.strftime("%Y-%m-%d")))
    assert len(found.frame) == 30
    assert any("1 missing values or times of 'value' were interpolated" in note for note in found.notes)
    weekdays = pd.bdate_range("2024-01-01", periods=40).delete(13)
    assert len(read_frame(write(csv, weekdays.strftime("%Y-%m-%d"))).frame) == 40


def test_mended_with_a_note(csv):
    rows = [f"{time:%Y-%m-%d %H:%M},{k}" for k, time in enumerate(HOURS)]
    rows[3] = rows[3].split(",")[0] + ","
    rows[4] = rows[4].split(",")[0] + ",?"
    del rows[20]
    rows.append(rows[10])
    rows[0], rows[1] = rows[1], rows[0]
    csv.write_text("\n".join(["date,value", *rows]))
    found = read_frame(csv)
    assert found.frame["value"].tolist() == pytest.approx(list(range(48)))
    text = " ".join(found.notes)
    for part in ("sorted", "1 rows repeat a time", "3 missing values or times of 'value'"):
        assert part in text


def test_jitter_is_snapped(csv):
    index = HOURS + pd.to_timedelta(np.where(np.arange(48) % 7 == 3, 40, 0), unit="s")
    found = read_frame(write(csv, index.strftime("%Y-%m-%d %H:%M:%S")))
    assert len(found.frame) == 48
    assert any("moved to the nearest point" in note for note in found.notes)


def test_other_separators_decimal_commas_marks_and_compression(tmp_path):
    text = "date;value\n" + "\n".join(f"{t:%Y-%m-%d %H:%M};{k},5" for k, t in enumerate(HOURS))
    (tmp_path / "a.csv").write_text(text, encoding="utf-8-sig")
    with gzip.open(tmp_path / "b.csv.gz", "wt") as file:
        file.write(text.replace(";", "\t"))
    for name in ("a.csv", "b.csv.gz"):
        assert read_frame(tmp_path / name).frame["value"].tolist() == [k + 0.5 for k in range(48)]


def test_columns_that_cannot_be_used_are_left_out(csv):
    frame = pd.DataFrame({"date": HOURS, "name": "x", "v": 1.0, "w": np.arange(48.0), "gone": np.nan})
    frame.to_csv(csv)
    found = read_frame(csv)
    assert list(found.frame.columns) == ["v", "w"]
    text = " ".join(found.notes)
    assert "'name' is not numeric" in text
    assert "100% of column 'gone' is missing" in text
    assert "'v' is constant" in text


def test_series_below_each_other_are_refused_with_the_column_that_tells_them_apart(csv):
    rows = [f"{shop},{time:%Y-%m-%d %H:%M},{k}" for shop in "ab" for k, time in enumerate(HOURS)]
    csv.write_text("\n".join(["shop,date,sales", *rows]))
    with pytest.raises(AttangentError, match=r"48 of 96 rows repeat a time.*column 'shop'.*--id shop"):
        read_frame(csv)


def test_a_name_may_be_a_number(csv):
    assert read_frame(write(csv, HOURS.strftime("%Y-%m-%d %H:%M"), "date,2019")).frame["2019"].iloc[-1] == 47


def test_thousands_separators_are_read_and_one_bad_cell_is_named(csv):
    times = HOURS.strftime("%Y-%m-%d %H:%M")
    found = read_frame(write(csv, times, values=[f'"1,{k:03d}"' for k in range(48)]))
    assert found.frame["value"].tolist() == list(range(1000, 1048))
    assert "thousands separators" in found.notes[0]
    with pytest.raises(AttangentError, match="column 'value' is not numeric: row 7 holds 'n/k'"):
        read_frame(write(csv, times, values=[*range(6), "n/k", *range(41)]))


def test_one_bad_cell_among_decimal_commas_is_named_and_no_answer_is_missing(csv):
    times = HOURS.strftime("%Y-%m-%d %H:%M")
    values = [f"1.{k:03d},5" for k in range(48)]
    text = write(csv, times, "date;value", [*values[:5], "kaputt", *values[6:]], ";")
    with pytest.raises(AttangentError, match="column 'value' is not numeric: row 6 holds 'kaputt'"):
        read_frame(text)
    found = read_frame(write(csv, times, "date;value", [*values[:5], "k.A.", *values[6:]], ";"))
    np.testing.assert_allclose(found.frame["value"], np.arange(1000.5, 1048))
    assert any("1 missing value" in note for note in found.notes)


def test_text_numbers_of_concatenated_frames_are_read():
    part = pd.DataFrame({"ds": range(9), "y": [f"1.{k:03d},5" for k in range(8)] + [None]})
    frame = pd.concat([part.assign(unique_id=name) for name in "ab"])  # labels 0 to 8 twice
    series = read_series(frame).series
    np.testing.assert_allclose(series, [np.arange(1000.5, 1008)] * 2)


def test_seconds_since_1970_under_another_name_are_times_and_not_a_target(csv):
    found = read_frame(write(csv, HOURS.as_unit("ns").asi8 // 10**9, "when,value"))
    assert list(found.frame.columns) == ["value"]
    assert list(found.frame.index) == list(HOURS)


@pytest.mark.parametrize("zone", ["UTC+02:00", "Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize("frequency", ["h", "D"])
def test_a_zone_is_kept_over_daylight_saving(csv, zone, frequency):
    times = pd.date_range("2023-10-20", periods=500 if frequency == "h" else 30, freq=frequency, tz=zone)
    found = read_frame(write(csv, [time.isoformat() for time in times]))
    assert list(found.frame.index) == list(times)
    assert str(found.frame.index.tz) == zone
    assert not found.notes


def test_no_dates_at_all(csv):
    csv.write_text("a,b\n" + "\n".join(f"{k},{2 * k}" for k in range(9)))
    found = read_frame(csv)
    assert isinstance(found.frame.index, pd.RangeIndex | pd.Index)
    assert len(found.frame) == 9
    assert "equally spaced" in found.notes[0]


REFUSED = {
    "empty": ("", "is empty"),
    "header only": ("date,value\n", "header but no rows"),
    "no header": ("2024-01-01,1\n2024-01-02,2\n2024-01-03,3\n", "has no header"),
    "text": ("date,value\n2024-01-01,red\n2024-01-02,blue\n", "no numeric column"),
    "ragged": ("a,b\n1,2\n1,2,3,4\n", "cannot be read as a CSV"),
    "bad date": ("date,value\n2024-01-01,1\nsoon,2\n2024-01-03,3\n", "row 2 holds 'soon'"),
    "irregular": ("date,v\n2024-01-01,1\n2024-01-02,2\n2024-01-02 13:00,3\n2024-01-09,4\n", "irregular"),
    "mostly gaps": (
        "date,v\n2024-01-01,1\n2024-01-02,2\n2024-01-03,3\n2024-03-01,4\n2024-06-01,5\n2024-06-02,6\n",
        "irregular",
    ),
    "all missing": ("date,v\n2024-01-01,\n2024-01-02,\n2024-01-03,\n", "mostly missing"),
    "numbers for dates": ("time,v\n5,1\n6,2\n7,3\n", "neither dates nor seconds"),
}


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_refused_with_a_reason(csv, text, message):
    csv.write_text(text)
    with pytest.raises(AttangentError, match=message):
        read_frame(csv)


def test_what_is_asked_for_must_be_there_and_usable(csv):
    write(csv, HOURS.strftime("%Y-%m-%d %H:%M"), values=["1", "x", *range(46)])
    with pytest.raises(AttangentError, match="no column 'sales', there are 'date', 'value'"):
        read_frame(csv, keep=("sales",))
    with pytest.raises(AttangentError, match="'value' is not numeric: row 2 holds 'x'"):
        read_frame(csv, keep=("value",))
    write(csv, HOURS.strftime("%Y-%m-%d %H:%M"), values=[""] * 30 + ["1"] * 18)
    with pytest.raises(AttangentError, match="62% of column 'value' is missing"):
        read_frame(csv, keep=("value",))
    with pytest.raises(AttangentError, match="is not a file"):
        read_frame(csv.parent)
    csv.write_bytes(b"date,v\n\xff\xfe\x00\x01,2\n")
    with pytest.raises(AttangentError, match="cannot be read as dates"):
        read_frame(csv)


@given(st.data())
def test_any_text_is_read_or_refused(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("any") / "any.csv"
    cells = st.text("0123456789.,-:/ abcNaT\t\"'", max_size=8)
    rows = data.draw(st.lists(st.lists(cells, min_size=1, max_size=4), max_size=8))
    path.write_text("\n".join(",".join(row) for row in rows))
    try:
        frame = read_frame(path).frame
    except AttangentError:
        return
    assert np.isfinite(frame.to_numpy()).all()


def test_a_column_that_stands_twice_is_refused(csv):
    csv.write_text("date,y, y\n2024-01-01,1,2\n2024-01-02,1,2\n")
    with pytest.raises(AttangentError, match="names a column twice: 'y'"):
        read_frame(csv)


def test_columns_without_a_name_may_be_many(csv):
    csv.write_text("date,,y,\n" + "".join(f"2024-01-{day:02},,{day},\n" for day in range(1, 9)))
    assert list(read_frame(csv).frame["y"]) == list(range(1, 9))


def test_months_with_the_day_first_are_months_and_a_note_says_so(csv):
    months = pd.date_range("2020-01-01", periods=36, freq="MS")
    for shape, order in (("%d/%m/%Y", "day"), ("%m/%d/%Y", "month")):
        found = read_frame(write(csv, months.strftime(shape)))
        assert list(found.frame.index) == list(months)
        assert f"dates in 'date' were read with the {order} first" in found.notes


def test_iso_weeks_and_days_of_excel(csv):
    weeks = pd.date_range("2020-12-07", periods=60, freq="W-MON")
    found = read_frame(write(csv, [f"{day.isocalendar()[0]}-W{day.isocalendar()[1]:02d}" for day in weeks]))
    assert list(found.frame.index) == list(weeks)
    days = pd.date_range("2024-01-01", periods=30, freq="D")
    found = read_frame(write(csv, range(45292, 45322)))
    assert list(found.frame.index) == list(days)
    assert any("Excel" in note for note in found.notes)


def test_latin_1_and_utf_16(csv):
    days = pd.date_range("2024-01-30", periods=20, freq="D")
    rows = "Datum;Stück\n" + "".join(f"{day:%d.%m.%Y};{k},5\n" for k, day in enumerate(days))
    for encoding in ("latin-1", "utf-16", "utf-8"):
        csv.write_bytes(rows.encode(encoding))
        found = read_frame(csv)
        assert found.frame["Stück"].tolist() == [k + 0.5 for k in range(20)]
        assert any("Latin-1" in note for note in found.notes) == (encoding == "latin-1")


@pytest.mark.parametrize("months", [[1, 2, 3, 4], ["Jan", "Feb", "Mar", "Apr"]])
def test_columns_of_years_and_months_are_joined(csv, months):
    rows = pd.DataFrame({"Year": 2023, "Month": months, "value": [3.0, 5.0, 4.0, 6.0]})
    rows.to_csv(csv, index=False)
    found = read_frame(csv)
    assert found.frame["value"].to_dict() == dict(
        zip(pd.date_range("2023-01-01", periods=4, freq="MS"), rows["value"], strict=True)
    )
    assert found.notes == ["times were read from the columns 'Year' and 'Month'"]
    long = pd.concat([rows.assign(shop="a"), rows.assign(shop="b", value=0)])
    found = read_series(long, SeriesColumns("shop", None, ("value",)))
    assert (found.ids, str(found.last[0].date())) == (["a", "b"], "2023-04-01")


def test_months_and_years_of_other_tables_stay(csv):
    rows = pd.DataFrame({"day": HOURS.strftime("%d.%m.%Y %H:%M"), "year": 5, "month": np.arange(48)})
    rows.to_csv(csv, index=False)
    assert list(read_frame(csv).frame) == ["year", "month"]


def test_two_columns_tell_series_apart(csv):
    days = pd.date_range("2024-01-01", periods=5)
    parts = [
        pd.DataFrame({"store": store, "item": item, "day": days, "sold": np.arange(5.0) + k})
        for k, (store, item) in enumerate([("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")])
    ]
    pd.concat(parts).to_csv(csv, index=False)
    with pytest.raises(AttangentError, match=r"two columns together.*--id store,item"):
        read_frame(csv)
    with pytest.raises(AttangentError, match=r"name it too .--id store,COLUMN."):
        read_series(csv, SeriesColumns("store", None, ("sold",)))
    for source in (csv, pd.read_csv(csv)):
        found = read_series(source, SeriesColumns("store,item", None, ("sold",)))
        assert found.ids == ["a/x", "a/y", "b/x", "b/y"]
        assert found.series[3].tolist() == [3.0, 4.0, 5.0, 6.0, 7.0]


def test_a_spreadsheet_is_named_as_one(tmp_path):
    path = tmp_path / "sales.xlsx"
    path.write_bytes(b"PK")
    with pytest.raises(AttangentError, match=r"sales.xlsx is a spreadsheet.*save it as CSV"):
        read_frame(path)
