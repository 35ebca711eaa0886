import pytest
import torch

from attangent.attention import ntk_attention, prefix_attention
from attangent.attention.features import Elu
from attangent.attention.state import PrefixState
from attangent.papers.p1_prefix.claims.attention_setting import (
    BoundedPrefix,
    algorithm_3,
    algorithm_4,
    count_3,
    count_4,
    error_from,
    last_exponent,
)


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


@pytest.mark.parametrize(("L", "m", "d"), [(5, 7, 3), (8, 1, 4), (3, 20, 2)])
def test_counts_are_those_of_the_products_written_out(L, m, d):
    assert count_3(L, m, d) == L * d * d + 2 * (m + L) * d * d + 2 * L * (m + L) * d + L * (m + L)
    assert count_4(L, d, Elu(d), (d, d), (d,)) == 3 * L * d * d + 2 * L * L * d + L * L + L * d + L * d * d


def test_algorithms_as_printed_are_the_two_attentions():
    rng = torch.Generator().manual_seed(0)
    X, P, *W = (torch.randn(n, 4, generator=rng, dtype=torch.float64) for n in (5, 9, 4, 4, 4))
    q, k, v = ((X @ w)[None, None] for w in W)
    prefix = P @ W[1], P @ W[2]
    exact = prefix_attention(q, k, v, prefix[0][None], prefix[1][None])
    torch.testing.assert_close(algorithm_3(X, P, *W), exact[0, 0])
    state = PrefixState.from_prefix(Elu(4), *prefix)
    found = algorithm_4(X, state.Z[0], state.k[0], *W, phi=Elu(4))
    torch.testing.assert_close(found, ntk_attention(q, k, v, state)[0, 0])


def test_exponent_of_a_power_is_the_power():
    assert last_exponent([1, 10, 100], [5, 500, 50000]) == pytest.approx(2)
