"""The course: smooth decays are in it whatever their kind, changes and noise are recovered."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import toeplitz
from scipy.optimize import nnls
from scipy.signal import lfilter

from attangent.stages.loss_model import (
    NOISES,
    SCOUTS,
    SHAPES,
    LossChange,
    LossCurve,
    LossFit,
    Noise,
    least_squares,
    neighbours,
    remaining,
    step_at,
    whitening,
    without_outliers,
)

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


def test_single_outliers_go_and_steps_stay():
    readings = np.concatenate([np.full(30, 2.0), np.full(30, 1.0)])
    with_outliers = readings.copy()
    with_outliers[5::10] = 7.0
    np.testing.assert_array_equal(without_outliers(with_outliers), readings)


def test_noise_is_left_as_it_is():
    readings = np.random.default_rng(0).normal(size=300)
    assert (without_outliers(readings) == readings).mean() > 0.99


def covariance(noise, n):
    """Autocovariances by their own recursion: the sum over all white noise that two readings share."""
    weights = [1.0, noise.phi - noise.theta]
    while len(weights) < 40_000:
        weights.append(noise.phi * weights[-1])
    psi = np.array(weights)
    return toeplitz([psi[: len(psi) - lag] @ psi[lag:] for lag in range(n)])


@pytest.mark.parametrize("noise", SCOUTS, ids=str)
def test_whitening_whitens(noise):
    n = 12
    S, white = covariance(noise, n), whitening(noise, n)
    W = white(np.eye(n))
    np.testing.assert_allclose(W @ S @ W.T, np.eye(n), atol=1e-7)
    np.testing.assert_allclose(white.back(np.eye(n)), W.T, atol=1e-12)
    np.testing.assert_allclose(white.of_ones[:, 0], W.sum(1), atol=1e-12)
    assert np.log(white.profile) == pytest.approx(np.linalg.slogdet(S)[1] / n, abs=1e-7)
    assert noise.variance == pytest.approx(S[0, 0])
    assert noise.correlation == pytest.approx(S[0, 1] / S[0, 0])
    assert white(np.empty((n, 0))).shape == (n, 0)


@given(phi=st.floats(0.5, 0.99), share=st.floats(0.05, 0.95))
def test_between_0_and_phi_it_is_autocorrelated_noise_and_independent_noise(phi, share):
    noise = Noise(phi, share * phi)
    slow = (noise.correlation / phi) * noise.variance
    assert 0 < slow < noise.variance
    S = toeplitz(slow * phi ** np.arange(8.0)) + (noise.variance - slow) * np.eye(8)
    W = whitening(noise, 8)(np.eye(8))
    np.testing.assert_allclose(W @ S @ W.T, np.eye(8), atol=1e-8)


def test_every_noise_is_reached_from_every_other():
    assert set(SCOUTS) <= set(NOISES)
    reached, new = {NOISES[0]}, [NOISES[0]]
    while new:
        new = [near for noise in new for near in neighbours(noise) if near not in reached]
        reached |= set(new)
    assert reached == set(NOISES)


@given(seed=st.integers(0, 200))
def test_least_squares_from_products_is_that_of_the_columns(seed):
    random = np.random.default_rng(seed)
    A, y = random.normal(size=(30, 5)), random.normal(size=30)
    x, value = least_squares(A.T @ A, A.T @ y, float(y @ y))
    expected, norm = nnls(A, y)
    np.testing.assert_allclose(x, expected, atol=1e-6)
    assert value == pytest.approx(norm**2, rel=1e-6)


def test_columns_of_nothing_do_not_break_it():
    A = np.column_stack([np.ones(20), np.zeros(20), np.full(20, 1e-12)])
    x, value = least_squares(A.T @ A, A.T @ np.ones(20), 20.0)
    assert np.isfinite(x).all()
    assert value < 1e-6
