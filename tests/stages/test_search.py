"""The search: changes where they are, none where there are none, slopes against differences."""

import json
from pathlib import Path

import numpy as np
import pytest

from attangent import AttangentError
from attangent.stages.loss_model import LossChange, LossCurve, Noise
from attangent.stages.search import (
    _FIRST,
    _LATER,
    _READINGS,
    ChangeResiduals,
    Threshold,
    search,
    threshold,
)
from benchmarks.suites.stages.calibration import gains, prices

STEPS = np.arange(200.0)
MEASURED = Path(__file__).parents[2] / "benchmarks/results/detector_calibration.json"


def readings(*changes, noise=0.03, seed=0, base=1.0):
    random = np.random.default_rng(seed)
    mean = base + sum(change.column(STEPS) for change in changes)
    return LossCurve(STEPS, mean + noise * random.normal(size=200))


def test_slopes_equal_differences():
    changes = (LossChange("logistic", 60.0, 25.0), LossChange("ramp", 130.0, 20.0))
    residuals = ChangeResiduals(readings(*changes), changes, Noise(0.96, 0.7))
    position = residuals.start + np.array([1.0, 0.1, -1.0, 0.05])
    left, active, heights = residuals.fit(position)
    slopes = residuals.slopes(position, active, heights)
    gradient = slopes.T @ left
    for part in range(4):
        nudge = np.eye(4)[part] * 1e-4
        ahead, behind = (residuals.fit(position + sign * nudge)[0] for sign in (1, -1))
        assert gradient[part] == pytest.approx((ahead @ ahead - behind @ behind) / 4e-4, rel=0.02, abs=1e-4)


def test_changes_are_moved_to_where_they_are():
    true = LossChange("logistic", 60.0, 25.0)
    (found,) = ChangeResiduals(readings(true), (LossChange("logistic", 75.0, 12.0),), Noise(0.0)).minimised(
        30
    )
    assert found.start == pytest.approx(60, abs=2)
    assert found.length == pytest.approx(25, abs=3)


def test_two_equal_falls_and_a_rise_are_told_apart():
    true = (
        LossChange("ramp", 40.0, 15.0),
        LossChange("logistic", 90.0, 12.0),
        LossChange("ramp", 150.0, 4.0, -1.0),
    )
    course = search(readings(*true, base=3.0), Threshold(22.0, 12.0))
    found = sorted(course.changes, key=lambda change: change.start)
    assert [change.sign for change in found] == [1.0, 1.0, -1.0]
    assert [change.start for change in found] == pytest.approx([40, 90, 150], abs=3)


def test_noise_gains_less_than_its_price():
    assert search(readings(noise=0.1), Threshold(22.0, 12.0)).changes == ()
    assert 0 <= gains(readings(noise=0.1), most=1)[0] < 22
    one, two = gains(readings(LossChange("ramp", 90.0, 20.0), noise=0.05), most=2)
    assert 60 < one <= two < one + 22


def test_three_falls_count_together_and_a_change_too_many_does_not_stay():
    """Alone none of them is more than wandering noise would do; an expensive later price leaves none."""
    true = [LossChange("logistic", place, 30.0) for place in (25.0, 85.0, 145.0)]
    losses = readings(*true, noise=0.11, base=0.5, seed=3)
    assert len(search(losses, Threshold(22.0, 12.0)).changes) == 3
    assert search(losses, Threshold(22.0, 60.0)).changes == ()


def test_the_tables_are_the_largest_measured_over_all_noises():
    measured = prices(json.loads(MEASURED.read_text()))
    for place, count in enumerate(_READINGS):
        for rate in _FIRST:
            given = (_FIRST[rate][place], _LATER[rate][place])
            assert given == pytest.approx(measured[count][f"{rate:g}"], abs=0.1)


def test_rarer_alarms_cost_more():
    for count in (20, 77, 400):
        firsts = [threshold(rate, count).first for rate in (0.2, 0.1, 0.05, 0.001)]
        assert firsts == sorted(firsts)
    assert threshold(0.05, 30) == Threshold(_FIRST[0.05][0], _LATER[0.05][0])


def test_more_changes_cost_more():
    assert [Threshold(20.0, 10.0).of(count) for count in range(4)] == [0.0, 20.0, 30.0, 40.0]


@pytest.mark.parametrize("rate", [0.0, 0.9, float("nan"), "5 %"])
def test_impossible_rates_are_refused(rate):
    with pytest.raises(AttangentError, match="false_alarms"):
        threshold(rate, 100)
