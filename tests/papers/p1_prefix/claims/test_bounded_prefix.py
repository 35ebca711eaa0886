"""The tests of `papers/p1/bounded_prefix.py`."""

import torch

from attangent.papers.p1_prefix.claims.bounded_prefix import BoundedPrefix, error_from


def test_error_bound_from_a_relative_error_is_kept_by_the_worst_weights():
    """Two tokens of values +-1: one weight too large, the other too small, as far as the error allows."""
    e = 0.2
    high, low = (1 + e), (1 - e)
    assert abs((high - low) / (high + low)) <= error_from(e, 1.0)
    assert error_from(1.5, 1.0) == 2.0


def test_values_of_the_bounded_prefix_keep_the_bound_and_follow_the_keys():
    prefix = BoundedPrefix.draw(50, 7, 3, 0.5, seed=0)
    assert prefix.K_C.shape == (1, 50, 3)
    assert max(t.abs().max().item() for t in (prefix.Q, prefix.K, prefix.V, prefix.K_C, prefix.V_C)) <= 0.5
    assert torch.equal(prefix.V_C[..., 1], prefix.K_C[..., 0])
