"""The course: smooth decays are in it whatever their kind, changes and noise are recovered."""

import numpy as np
import pytest

from attangent.stages.detector.course import Readings, fit_course
from attangent.stages.detector.shapes import Shift

STEPS = np.arange(200.0)
DECAYS = {
    "exponential": 0.3 + 2 * np.exp(-STEPS / 37),
    "power law": 0.1 + (1 + STEPS / 7) ** -0.6,
    "two rates": 1 + np.exp(-STEPS / 5) + np.exp(-STEPS / 90),
}


@pytest.mark.parametrize("losses", DECAYS.values(), ids=DECAYS)
def test_smooth_decays_leave_nothing(losses):
    course = fit_course(Readings(STEPS, losses))
    assert np.abs(course.mean - losses).max() < 0.01


def test_a_fall_is_no_smooth_decay():
    fall = Shift("logistic", 80.0, 30.0)
    losses = 1 + fall.column(STEPS)
    readings = Readings(STEPS, losses)
    null, with_fall = fit_course(readings), fit_course(readings, [fall])
    assert np.abs(null.mean - losses).max() > 0.1
    assert with_fall.heights == pytest.approx([1.0], abs=1e-3)
    assert with_fall.gain_over(null) > 300


@pytest.mark.parametrize("phi", [0.0, 0.9])
def test_the_correlation_of_the_noise_is_found(phi):
    random, noise = np.random.default_rng(0), [0.0]
    for _ in range(399):
        noise.append(phi * noise[-1] + random.normal())
    course = fit_course(Readings(np.arange(400.0), 5 + 0.1 * np.array(noise)))
    assert course.phi == pytest.approx(phi, abs=0.21 if phi == 0 else 0.07)
