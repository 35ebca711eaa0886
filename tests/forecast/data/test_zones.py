import pandas as pd
import pytest

from attangent.forecast.data.zones import in_zone


def read(text):
    return in_zone(pd.DatetimeIndex(pd.to_datetime(text, utc=True)).tz_localize(None), pd.Series(text))


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/Chicago", "Australia/Sydney"])
def test_offsets_over_a_year_name_the_zone(zone):
    times = pd.date_range("2023-01-01", periods=365, freq="D", tz=zone)
    assert list(read([time.isoformat() for time in times])) == list(times)


def test_offsets_of_no_zone_and_partial_ones_become_marked_utc():
    odd = read(["2023-01-01T00:00+02:00", "2023-01-02T00:00+07:00"])
    assert str(odd.tz) == "UTC"
    assert odd[0] == pd.Timestamp("2022-12-31 22:00", tz="UTC")
    assert str(read(["2023-01-01T00:00Z", "2023-01-02T00:00Z"]).tz) == "UTC"


def test_days_are_not_taken_for_offsets():
    assert in_zone(pd.DatetimeIndex(["2024-01-31"]), pd.Series(["31-01-2024"])).tz is None
