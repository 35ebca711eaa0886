import numpy as np
import pandas as pd
import pytest

from attangent.forecast.data.steps import Step, find_step

CASES = [
    ("MS", "months", 12),
    ("ME", "months", 12),
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
    assert (step.kind, step.period()) == (kind, period)
    assert list(step.after(times[39], 20)) == list(times[40:])
    assert step.apart(times[39], np.array([-5]))[0] == times[34]
    np.testing.assert_allclose(np.diff(step.units(times)), 1, atol=0.05)


def test_numbers_and_a_gap():
    step = find_step(pd.Index([0, 5, 10, 20, 0, 5]), np.array([True, True, True, False, True]))
    assert step == Step("number", 5)
    assert step.after(20, 2).tolist() == [25, 30]
    assert step.period() == 1
    assert find_step(pd.Index([1, 2]), np.array([False])) is None
