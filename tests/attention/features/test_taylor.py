import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attangent._core.errors import AttangentError
from attangent.attention.features import Taylor, order_for, taylor_error
from tests.attention.cases import normal


@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("dim", [1, 2, 5])
def test_product_of_features_is_the_taylor_polynomial(order, dim):
    q, k = normal(6, dim), normal(7, dim, seed=1)
    features = Taylor(dim, order)
    s = q @ k.T / math.sqrt(dim)
    wanted = sum(s**j / math.factorial(j) for j in range(order + 1))
    assert features.size == math.comb(dim + order, order)
    torch.testing.assert_close(features(q) @ features(k).T, wanted)


@pytest.mark.parametrize("order", range(1, 9))
@pytest.mark.parametrize("bound", [0.1, 1.0, 4.0])
def test_relative_error_is_the_supremum_and_is_attained(order, bound):
    s = torch.linspace(-bound, bound, 2001, dtype=torch.float64)
    polynomial = sum(s**j / math.factorial(j) for j in range(order + 1))
    measured = (polynomial * (-s).exp() - 1).abs().max().item()
    assert measured == pytest.approx(taylor_error(order, bound), rel=1e-9)


def test_relative_error_is_of_the_map_itself():
    features = Taylor(4, order=3)
    corner = torch.full((1, 4), 0.7, dtype=torch.float64)
    value = (features(corner) @ features(-corner).T).item() * math.exp(0.7**2 * 2)
    assert abs(value - 1) == pytest.approx(features.relative_error(0.7), rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(bound=st.floats(0.05, 6), tolerance=st.floats(1e-8, 0.9))
def test_order_for_a_tolerance_is_the_lowest(bound, tolerance):
    order = order_for(bound, tolerance)
    assert taylor_error(order, bound) <= tolerance
    assert order == 1 or taylor_error(order - 1, bound) > tolerance


def test_for_tolerance_keeps_the_tolerance_on_random_entries():
    features = Taylor.for_tolerance(3, entry_bound=0.8, tolerance=1e-3)
    rng = torch.Generator().manual_seed(0)
    q, k = (1.6 * torch.rand(2, 200, 3, generator=rng, dtype=torch.float64) - 0.8).unbind()
    exact = torch.exp(q @ k.T / math.sqrt(3))
    assert ((features(q) @ features(k).T) / exact - 1).abs().max() <= 1e-3
    assert Taylor(3, features.order - 1).relative_error(0.8) > 1e-3


def test_even_orders_are_positive_polynomials_and_odd_ones_are_not():
    q, k = normal(300, 3, scale=3), normal(300, 3, seed=1, scale=3)
    lowest = {order: (Taylor(3, order)(q) @ Taylor(3, order)(k).T).min().item() for order in (1, 2, 3, 4)}
    assert lowest[2] > 0
    assert lowest[4] > 0
    assert lowest[1] < 0
    assert lowest[3] < 0


def test_half_precision_modules_keep_the_coefficients():
    x = normal(4, 3)
    assert torch.equal(Taylor(3, 3).half()(x), Taylor(3, 3)(x))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim": 0, "order": 1}, "dim is 0"),
        ({"dim": 3, "order": 0}, "order is 0"),
        ({"dim": 64, "order": 6}, "at most 2,000,000"),
    ],
)
def test_impossible_maps_are_refused(arguments, message):
    with pytest.raises(AttangentError, match=message):
        Taylor(**arguments)


@pytest.mark.parametrize(("bound", "tolerance"), [(-1.0, 0.1), (math.inf, 0.1), (1.0, 0.0), (1.0, 1.0)])
def test_impossible_tolerances_are_refused(bound, tolerance):
    with pytest.raises(AttangentError, match="expected"):
        Taylor.for_tolerance(3, bound, tolerance)


def test_hopeless_error_is_infinite_not_an_overflow():
    assert taylor_error(2, 5000.0) == math.inf


@pytest.mark.parametrize(("dim", "bound"), [(10**6, 1.0), (64, 1e3), (2, 80.0), (10**12, 1e-3)])
def test_hopeless_tolerances_are_refused_at_once(dim, bound):
    with pytest.raises(AttangentError, match="Taylor features of order"):
        Taylor.for_tolerance(dim, bound, 1e-3)


@pytest.mark.parametrize(("bound", "tolerance"), [(1e9, 0.1), (0.0, 0.1), (1.0, 0.0), (math.nan, 0.1)])
def test_an_order_that_cannot_be_found_is_refused(bound, tolerance):
    with pytest.raises(AttangentError, match="bound and tolerance are"):
        order_for(bound, tolerance)


@given(st.floats(0.01, 60), st.sampled_from([0.5, 1e-2, 1e-6]))
@settings(max_examples=30, deadline=None)
def test_no_lower_order_than_the_first_tried_would_do(bound, tolerance):
    order = order_for(bound, tolerance)
    assert taylor_error(order, bound) <= tolerance
    assert order == 1 or taylor_error(order - 1, bound) > tolerance


def test_entries_that_no_model_has_are_refused():
    with pytest.raises(AttangentError, match=r"entry_bound is 1e\+150, expected at most 10000"):
        Taylor.for_tolerance(64, 1e150, 1e-3)
