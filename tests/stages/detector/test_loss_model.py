"""The course: smooth decays are in it whatever their kind, changes and noise are recovered."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import toeplitz
from scipy.signal import lfilter

from attangent.stages.detector.loss_model import SHAPES, LossChange, LossCurve, LossFit, remaining, step_at
from attangent.stages.detector.noise import NOISES, Noise

STEPS = np.arange(200.0)
DECAYS = {
    "exponential": 0.3 + 2 * np.exp(-STEPS / 37),
    "power law": 0.1 + (1 + STEPS / 7) ** -0.6,
    "two rates": 1 + np.exp(-STEPS / 5) + np.exp(-STEPS / 90),
}


@pytest.mark.parametrize("losses", DECAYS.values(), ids=DECAYS)
def test_smooth_decays_leave_nothing(losses):
    course = LossFit(LossCurve(STEPS, losses))
    assert np.abs(course.mean - losses).max() < 0.01


def test_a_fall_is_no_smooth_decay():
    fall = LossChange("logistic", 80.0, 30.0)
    losses = 1 + fall.column(STEPS)
    readings = LossCurve(STEPS, losses)
    null, with_fall = LossFit(readings), LossFit(readings, [fall])
    assert np.abs(null.mean - losses).max() > 0.1
    assert with_fall.heights == pytest.approx([1.0], abs=1e-3)
    assert with_fall.gain_over(null) > 300


@pytest.mark.parametrize(("phi", "theta"), [(0.0, 0.0), (0.9, 0.0), (0.99, 0.8)])
def test_the_noise_is_found(phi, theta):
    white = np.random.default_rng(0).normal(size=3400)
    readings = LossCurve(np.arange(400.0), 5 + 0.1 * lfilter([1, -theta], [1, -phi], white)[3000:])
    course = LossFit(readings)
    assert course.noise.phi == pytest.approx(phi, abs=0.21 if phi == 0 else 0.07)
    assert course.noise.theta == pytest.approx(theta, abs=0.13)
    everywhere = min(LossFit(readings).fit_at(noise)[1] for noise in NOISES)
    assert course.value == pytest.approx(everywhere, rel=1e-3)


def test_the_value_is_the_likelihood():
    """n log(value) is -2 log likelihood at the best scale, up to a constant, by the dense covariance."""
    readings = LossCurve(STEPS, DECAYS["exponential"] + np.random.default_rng(1).normal(size=200))
    course = LossFit(readings, [LossChange("ramp", 50.0, 20.0)])
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


@pytest.mark.parametrize("shape", SHAPES)
@given(onset=st.floats(-50, 50), length=st.floats(0.1, 100))
def test_a_tenth_is_gone_at_the_onset_and_nine_tenths_at_the_end(shape, onset, length):
    steps = np.array([onset - 50 * length, onset, onset + length, onset + 50 * length])
    np.testing.assert_allclose(remaining(shape, steps, onset, onset + length), [1, 0.9, 0.1, 0], atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_falls_fall(shape):
    assert (np.diff(remaining(shape, np.linspace(0, 100, 301), 30, 60)) <= 0).all()


def test_places_between_and_beyond_uneven_steps():
    steps = np.array([0.0, 1.0, 10.0, 100.0])
    assert [step_at(steps, index) for index in (0.5, 2.5, 4.0, -1.0)] == [0.5, 55.0, 190.0, -1.0]
    column = LossChange("ramp", 1.0, 1.0, -1.0).column(steps)
    np.testing.assert_allclose(column, [-1.0, -0.9, -0.1, 0.0], atol=0.02)
