"""The search: changes where they are, none where there are none, slopes against differences."""

import numpy as np
import pytest

from attangent.stages.detector.course import Readings
from attangent.stages.detector.noise import Noise
from attangent.stages.detector.prices import Price
from attangent.stages.detector.search import Residuals, gains, search
from attangent.stages.detector.shapes import Shift

STEPS = np.arange(200.0)


def readings(*changes, noise=0.03, seed=0, base=1.0):
    random = np.random.default_rng(seed)
    mean = base + sum(change.column(STEPS) for change in changes)
    return Readings(STEPS, mean + noise * random.normal(size=200))


def test_slopes_equal_differences():
    changes = (Shift("logistic", 60.0, 25.0), Shift("ramp", 130.0, 20.0))
    residuals = Residuals(readings(*changes), changes, Noise(0.96, 0.7))
    position = residuals.start + np.array([1.0, 0.1, -1.0, 0.05])
    left, active, heights = residuals.fit(position)
    slopes = residuals.slopes(position, active, heights)
    gradient = slopes.T @ left
    for part in range(4):
        nudge = np.eye(4)[part] * 1e-4
        ahead, behind = (residuals.fit(position + sign * nudge)[0] for sign in (1, -1))
        assert gradient[part] == pytest.approx((ahead @ ahead - behind @ behind) / 4e-4, rel=0.02, abs=1e-4)


def test_changes_are_moved_to_where_they_are():
    true = Shift("logistic", 60.0, 25.0)
    (found,) = Residuals(readings(true), (Shift("logistic", 75.0, 12.0),), Noise(0.0)).minimised(30)
    assert found.place == pytest.approx(60, abs=2)
    assert found.length == pytest.approx(25, abs=3)


def test_two_equal_falls_and_a_rise_are_told_apart():
    true = (Shift("ramp", 40.0, 15.0), Shift("logistic", 90.0, 12.0), Shift("ramp", 150.0, 4.0, -1.0))
    course = search(readings(*true, base=3.0), Price(22.0, 12.0))
    found = sorted(course.changes, key=lambda change: change.place)
    assert [change.sign for change in found] == [1.0, 1.0, -1.0]
    assert [change.place for change in found] == pytest.approx([40, 90, 150], abs=3)


def test_noise_gains_less_than_its_price():
    assert search(readings(noise=0.1), Price(22.0, 12.0)).changes == ()
    assert 0 <= gains(readings(noise=0.1), most=1)[0] < 22
    one, two = gains(readings(Shift("ramp", 90.0, 20.0), noise=0.05), most=2)
    assert 60 < one <= two < one + 22


def test_three_falls_count_together_and_a_change_too_many_does_not_stay():
    """Alone none of them is more than wandering noise would do; an expensive later price leaves none."""
    true = [Shift("logistic", place, 30.0) for place in (25.0, 85.0, 145.0)]
    losses = readings(*true, noise=0.11, base=0.5, seed=3)
    assert len(search(losses, Price(22.0, 12.0)).changes) == 3
    assert search(losses, Price(22.0, 60.0)).changes == ()
