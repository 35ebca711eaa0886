import pandas as pd

from attangent.forecast.data.calendar import parse_dates


def test_times_with_an_offset_keep_it():
    column = pd.Series(["2024-01-01T00:00+02:00", "2024-01-01T01:00+02:00"])
    assert str(parse_dates(column)[0]) == "2024-01-01 00:00:00+02:00"
    assert parse_dates(pd.Series(["2024-01-01", "2024-01-02"])).tz is None
