"""Least squares against the conditions that define their solutions."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from attangent.attention.least_squares import (
    _one_by_one,
    _pivoted,
    non_negative_solution,
    ridge_solution,
)


def drawn(seed, n=60, r=6):
    draw = torch.Generator().manual_seed(seed)
    design = torch.rand(n, r, generator=draw, dtype=torch.float64)
    return design, design @ torch.randn(r, generator=draw, dtype=torch.float64)


@given(seed=st.integers(0, 100), ridge=st.sampled_from([1e-8, 1e-3, 1.0]))
def test_the_free_solution_has_no_slope(seed, ridge):
    design, target = drawn(seed)
    x = ridge_solution(design, target.unsqueeze(1), ridge).squeeze(1)
    slope = design.mT @ (design @ x - target) / len(target) + ridge * x
    assert slope.abs().max() < 1e-9


@given(seed=st.integers(0, 100), ridge=st.sampled_from([1e-8, 1e-3, 1.0]))
def test_the_non_negative_solution_has_no_way_down(seed, ridge):
    design, target = drawn(seed)
    x = non_negative_solution(design, target, ridge)
    slope = design.mT @ (design @ x - target) / len(target) + ridge * x
    assert (x >= 0).all()
    assert (slope > -1e-8).all()
    assert slope[x > 1e-9].abs().le(1e-8).all()


@given(seed=st.integers(0, 300), r=st.integers(1, 40))
def test_pivoting_finds_what_freeing_one_by_one_finds(seed, r):
    design, target = drawn(seed, n=50, r=r)
    gram = design.mT @ design / 50 + 1e-4 * torch.eye(r, dtype=torch.float64)
    right = design.mT @ target / 50
    found = _pivoted(gram, right)
    assert found is not None
    torch.testing.assert_close(found, _one_by_one(gram, right), atol=1e-8, rtol=1e-6)
