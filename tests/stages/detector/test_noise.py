"""Outliers, whitening, and least squares with signs, against slow references."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from attangent.stages.detector.noise import Products, least_squares, whitened, without_outliers


def test_single_outliers_go_and_steps_stay():
    readings = np.concatenate([np.full(30, 2.0), np.full(30, 1.0)])
    with_outliers = readings.copy()
    with_outliers[5::10] = 7.0
    np.testing.assert_array_equal(without_outliers(with_outliers), readings)


def test_noise_is_left_as_it_is():
    readings = np.random.default_rng(0).normal(size=300)
    assert (without_outliers(readings) == readings).mean() > 0.99


@given(phi=st.floats(0, 1), seed=st.integers(0, 100))
def test_products_are_those_of_whitened_columns(phi, seed):
    random = np.random.default_rng(seed)
    A, B = random.normal(size=(12, 3)), random.normal(size=(12, 2))
    white = [whitened(X, phi) for X in (A, B)]
    np.testing.assert_allclose(white[0][1:], A[1:] - phi * A[:-1])
    np.testing.assert_allclose(Products(A, B)(phi), white[0].T @ white[1], atol=1e-12)


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
