"""The course: smooth decays are in it whatever their kind, changes and noise are recovered."""

import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.signal import lfilter

from attangent.stages.detector.course import LossCourse, Readings
from attangent.stages.detector.noise import NOISES, Noise
from attangent.stages.detector.shapes import Shift

STEPS = np.arange(200.0)
DECAYS = {
    "exponential": 0.3 + 2 * np.exp(-STEPS / 37),
    "power law": 0.1 + (1 + STEPS / 7) ** -0.6,
    "two rates": 1 + np.exp(-STEPS / 5) + np.exp(-STEPS / 90),
}


@pytest.mark.parametrize("losses", DECAYS.values(), ids=DECAYS)
def test_smooth_decays_leave_nothing(losses):
    course = LossCourse(Readings(STEPS, losses))
    assert np.abs(course.mean - losses).max() < 0.01


def test_a_fall_is_no_smooth_decay():
    fall = Shift("logistic", 80.0, 30.0)
    losses = 1 + fall.column(STEPS)
    readings = Readings(STEPS, losses)
    null, with_fall = LossCourse(readings), LossCourse(readings, [fall])
    assert np.abs(null.mean - losses).max() > 0.1
    assert with_fall.heights == pytest.approx([1.0], abs=1e-3)
    assert with_fall.gain_over(null) > 300


@pytest.mark.parametrize(("phi", "theta"), [(0.0, 0.0), (0.9, 0.0), (0.99, 0.8)])
def test_the_noise_is_found(phi, theta):
    white = np.random.default_rng(0).normal(size=3400)
    readings = Readings(np.arange(400.0), 5 + 0.1 * lfilter([1, -theta], [1, -phi], white)[3000:])
    course = LossCourse(readings)
    assert course.noise.phi == pytest.approx(phi, abs=0.21 if phi == 0 else 0.07)
    assert course.noise.theta == pytest.approx(theta, abs=0.13)
    everywhere = min(LossCourse(readings).fit_at(noise)[1] for noise in NOISES)
    assert course.value == pytest.approx(everywhere, rel=1e-3)


def test_the_value_is_the_likelihood():
    """n log(value) is -2 log likelihood at the best scale, up to a constant, by the dense covariance."""
    readings = Readings(STEPS, DECAYS["exponential"] + np.random.default_rng(1).normal(size=200))
    course = LossCourse(readings, [Shift("ramp", 50.0, 20.0)])
    found = []
    for noise in (Noise(0.0), Noise(0.92), Noise(0.96, 0.7)):
        x, value = course.fit_at(noise)
        cov = np.array(
            [noise.variance, *(noise.variance * noise.correlation * noise.phi ** np.arange(199.0))]
        )
        left = readings.losses - course.A @ x
        squares = left @ np.linalg.solve(toeplitz(cov), left) + readings.floor
        found.append((value, squares * np.exp(np.linalg.slogdet(toeplitz(cov))[1] / 200)))
    np.testing.assert_allclose(*zip(*found, strict=True), rtol=1e-5)
