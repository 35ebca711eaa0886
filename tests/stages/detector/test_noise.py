"""Outliers, whitening, and least squares with signs, against slow references."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import toeplitz
from scipy.optimize import nnls

from attangent.stages.detector.noise import (
    NOISES,
    SCOUTS,
    Noise,
    least_squares,
    neighbours,
    whitening,
    without_outliers,
)


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
