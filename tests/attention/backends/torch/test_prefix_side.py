"""The shares of tokens and prefix, and the blocks."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attangent.attention.backends.torch.prefix_side import _BLOCK, blocks_of, merge_weights, total_mass
from tests.attention.cases import normal


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("shift", [None, 3.0])
def test_weights_are_the_two_shares_of_the_total_mass(positive, shift):
    lse, mass = normal(50), normal(50, seed=1).exp()
    factor = 1 if shift is None else math.exp(shift)
    given = None if shift is None else torch.full_like(lse, shift)
    keep, add, sign = merge_weights(lse, mass, given, positive)
    whole = lse.exp() + mass * factor
    torch.testing.assert_close(keep, lse.exp() / whole)
    torch.testing.assert_close(add, factor / whole)
    torch.testing.assert_close(total_mass(lse, mass, given, positive), whole.log())
    assert sign is None if positive else (sign == 1).all()


def test_signed_mass_may_outweigh_the_tokens():
    lse, mass = torch.tensor([0.0, 0.0]).double(), torch.tensor([-0.5, -3.0]).double()
    keep, add, sign = merge_weights(lse, mass, None, positive=False)
    torch.testing.assert_close(keep, 1 / (1 + mass))
    torch.testing.assert_close(add, 1 / (1 + mass))
    torch.testing.assert_close(total_mass(lse, mass, None, positive=False), (1 + mass).abs().log())
    assert sign is not None
    assert sign.tolist() == [1, -1]


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("lse", [-math.inf, -1e4, -100.0, 0.0, 1e4])
@pytest.mark.parametrize("mass", [0.0, 1e-30, 1.0, 1e30])
def test_weights_are_finite_at_every_extreme(lse, mass, positive):
    given = torch.tensor([lse]), torch.tensor([mass]), None, positive
    keep, add, _ = merge_weights(*given)
    total = total_mass(*given)
    assert torch.isfinite(torch.cat([keep, add, total])).all()
    if mass == 0 and lse > -math.inf:
        assert keep.item() == 1
    if mass >= 1 and lse <= -100:
        assert keep.item() < 1e-20


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 700), st.integers(1, 300))
def test_blocks_cover_every_row_once_and_are_about_a_block_in_size(batch, heads, rows, size):
    q = torch.zeros(batch, heads, rows, 1)
    largest = 0
    for block in blocks_of(q, size):
        q[block] += 1
        largest = max(largest, q[block].numel() * size)
    assert (q == 1).all()
    assert largest <= max(2 * _BLOCK, heads * size)
