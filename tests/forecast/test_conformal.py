import numpy as np
import pytest

from attangent import AttangentError
from attangent.forecast import LinearForecaster, Persistence, load_csv
from attangent.forecast.conformal import Residuals, interval, rolling_coverage
from tests.forecast.examples import ett


def test_quantile_is_the_conformal_rank():
    residuals = Residuals(np.arange(1.0, 20.0).reshape(19, 1, 1))
    assert residuals.quantile(0.8)[0, 0] == 16  # ceil(20 * 0.8)
    assert residuals.quantile(0.95)[0, 0] == 19
    assert residuals.quantile(0.5, memory=9)[0, 0] == 15  # the 5th of 11..19


def test_too_few_windows_pool_the_steps_then_refuse():
    few = Residuals(np.arange(1.0, 11.0).reshape(2, 5, 1))
    assert few.quantile(0.8).tolist() == [[9.0]] * 5
    with pytest.raises(AttangentError, match="needs 19 held-out values, there are 10"):
        few.quantile(0.95)


def test_coverage_of_exchangeable_residuals_is_nominal():
    series = np.random.default_rng(0).normal(size=(6000, 1))
    model = Persistence(20, 2).fit(series)
    calibration = Residuals.of(model, series[:3000])
    for level in (0.8, 0.95):
        assert Residuals.of(model, series[3000:]).coverage(level, calibration) == pytest.approx(
            level, abs=0.03
        )


def test_interval_covers_as_often_as_coverage_says():
    series = np.random.default_rng(1).normal(size=(1500, 2))
    model = Persistence(10, 3).fit(series)
    calibration = Residuals.of(model, series[:800])
    windows = np.stack([series[t : t + 10] for t in range(800, 1400)])
    targets = np.stack([series[t + 10 : t + 13] for t in range(800, 1400)])
    low, high = interval(model, windows, calibration, 0.8)
    inside = ((low <= targets) & (targets <= high)).mean()
    assert Residuals.of(model, series[800:1412]).coverage(0.8, calibration) == pytest.approx(
        inside, abs=0.001
    )


def test_rolling_calibration_uses_only_the_known_past():
    scaled = np.ones((400, 5, 1))
    scaled[200:] = 3.0  # the series grows restless at window 200
    found = rolling_coverage(Residuals(scaled), 200, [0.8], every=10, memory=50)
    # nothing of the change is known for 5 windows, then the quantile must move over 50 * 0.2 of them
    assert 0.7 < found[0.8] < 1.0
    assert rolling_coverage(Residuals(scaled[:200]), 100, [0.8])[0.8] == 1.0


@pytest.mark.parametrize("horizon", [24, 96, 336])
def test_coverage_on_ett(horizon):
    data = load_csv(ett("ETTh1"), split="ett")
    model = LinearForecaster(336, horizon).fit(data.part("train"), data.part("validation", 336))
    series = np.concatenate((data.part("validation", 336), data.part("test")))
    residuals = Residuals.of(model, series)
    covered = rolling_coverage(residuals, data.ends[1] - data.ends[0], [0.8, 0.95], every=96)
    assert covered[0.8] == pytest.approx(0.8, abs=0.03)
    assert covered[0.95] == pytest.approx(0.95, abs=0.03)
