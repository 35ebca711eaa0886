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


def test_mixed_steps_are_refused_by_id():
    weekly = long_frame("c", pd.date_range("2024-01-01", periods=10, freq="7D"))
    with pytest.raises(AttangentError, match=r"1 series have another step.*'c' \(row 41\) by 7 times that"):
        read_series(pd.concat([long_frame(), weekly], ignore_index=True))


def test_ids_with_too_few_rows_are_refused_or_left_out():
    frame = pd.concat([long_frame(), long_frame("c", DAYS[:1])], ignore_index=True)
    with pytest.raises(AttangentError, match=r"1 series have fewer than 3 values: 'c' \(row 41\) has 1"):
        read_series(frame)
    found = read_series(frame, drop_short=True)
    assert found.ids == ["a", "b"]
    assert "left out" in found.notes[0]
    with pytest.raises(AttangentError, match="every id has one row"):
        read_series(frame.drop_duplicates("unique_id"))


def test_a_series_full_of_gaps_is_refused():
    frame = pd.concat([long_frame(), long_frame("c", DAYS[[0, 1, 19]])], ignore_index=True)
    with pytest.raises(AttangentError, match=r"17 of 20 values of 'c'.*too full of gaps"):
        read_series(frame)


def test_a_frame_without_rows_is_refused():
    with pytest.raises(AttangentError, match="the table has no rows"):
        read_series(pd.DataFrame({"unique_id": [], "ds": [], "y": []}))
