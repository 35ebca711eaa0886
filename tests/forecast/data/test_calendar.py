import pandas as pd

from attangent.forecast.data.calendar import parse_dates


def test_time_zones_become_utc():
    column = pd.Series(["2024-01-01T00:00+02:00", "2024-01-01T01:00+02:00"])
    assert str(parse_dates(column)[0]) == "2023-12-31 22:00:00"
