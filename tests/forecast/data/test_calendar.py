import numpy as np
import pandas as pd
import pytest

from attangent.forecast.data.calendar import DAY, TimeStep, find_step, parse_dates, period_of


def test_times_with_an_offset_keep_it():
    column = pd.Series(["2024-01-01T00:00+02:00", "2024-01-01T01:00+02:00"])
    assert str(parse_dates(column)[0]) == "2024-01-01 00:00:00+02:00"
    assert parse_dates(pd.Series(["2024-01-01", "2024-01-02"])).tz is None


def read(text):
    return parse_dates(pd.Series(text))


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
    assert parse_dates(pd.Series(["31-01-2024"])).tz is None


CASES = [
    ("MS", "months", 12),
    ("ME", "months", 12),
    ("BME", "months", 12),
    ("QS", "months", 4),
    ("YS", "months", 1),
    ("D", "fixed", 7),
    ("W", "fixed", 52),
    ("h", "fixed", 24),
    ("30min", "fixed", 48),
    ("B", "weekdays", 5),
]


@pytest.mark.parametrize(("frequency", "kind", "period"), CASES)
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_steps_of_pandas_frequencies(frequency, kind, period, zone):
    times = pd.date_range("2023-01-02", periods=60, freq=frequency, tz=zone)
    step = find_step(times[:40], np.ones(39, dtype=bool))
    assert (step.kind, step.periods()[0]) == (kind, period)
    assert list(step.apart(times[39], np.arange(1, 21))) == list(times[40:])
    assert step.apart(times[39], np.array([-5]))[0] == times[34]
    np.testing.assert_allclose(np.diff(step.units(times)), 1, atol=0.05)


def test_numbers_and_a_gap():
    step = find_step(pd.Index([0, 5, 10, 20, 0, 5]), np.array([True, True, True, False, True]))
    assert step == TimeStep("number", 5)
    assert step.apart(20, np.array([1, 2])).tolist() == [25, 30]
    assert step.periods() == (1,)
    assert find_step(pd.Index([1, 2]), np.array([False])) is None


def test_the_calendar_decides_and_numbers_are_looked_at():
    rng = np.random.default_rng(0)
    season = [np.tile(rng.normal(size=6), 20) + 0.1 * rng.normal(size=120) for _ in range(5)]
    noise = [rng.normal(size=120) for _ in range(5)]
    assert period_of(season, TimeStep("months", 1)) == 12
    assert period_of(season, TimeStep("number", 1)) == 6
    assert period_of(noise, TimeStep("number", 1)) == 1


@pytest.mark.parametrize(
    ("size", "name"),
    [
        (DAY, "a day"),
        (7 * DAY, "a week"),
        (3 * DAY, "3 days"),
        (DAY // 24, "an hour"),
        (DAY // 96, "15 minutes"),
    ],
)
def test_a_step_is_named_in_words(size, name):
    assert TimeStep("fixed", size).describe() == name


def test_months_as_excel_writes_them():
    times = parse_dates(pd.Series(["Nov-23", "Dec-23", "Jan-24"]))
    assert list(times) == list(pd.date_range("2023-11-01", periods=3, freq="MS"))
