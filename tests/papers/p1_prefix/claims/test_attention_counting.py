"""The tests of `papers/p1/attention_counting.py`."""

import pytest
import torch

from attangent.attention import ntk_attention, prefix_attention
from attangent.attention.features import Elu
from attangent.attention.state import PrefixState
from attangent.papers.p1_prefix.claims.attention_counting import (
    algorithm_3,
    algorithm_4,
    count_3,
    count_4,
    last_exponent,
)


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
