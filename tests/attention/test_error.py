import pytest
import torch

from attangent._core.errors import AttangentError
from attangent.attention import ntk_attention, prefix_attention
from tests.attention.cases import make_state, normal


def test_error_is_the_distance_of_the_two_attentions():
    state = make_state("elu", 4, 2)
    keys, values = normal(2, 20, 4, seed=1, scale=0.5).clamp(-1, 1), normal(2, 20, 4, seed=2).clamp(-1, 1)
    q, k, v = normal(2, 30, 4), normal(2, 6, 4, seed=7), normal(2, 6, 4, seed=8)
    found = state.error(q, keys, values, token_keys=k, token_values=v)
    batched = q[None], k[None], v[None]
    gap = (ntk_attention(*batched, state) - prefix_attention(*batched, keys, values)).abs()
    assert found.sup == pytest.approx(gap.max().item(), rel=1e-9)
    assert found.mean == pytest.approx(gap.mean().item(), rel=1e-9)


def test_without_tokens_the_prefix_is_all_there_is():
    state = make_state("taylor-3", 4, 2)
    keys, values = normal(2, 20, 4, seed=1, scale=0.5).clamp(-1, 1), normal(2, 20, 4, seed=2).clamp(-1, 1)
    q = normal(2, 30, 4, scale=0.3)
    phi = state.features(q)
    approximate = phi @ state.Z / torch.linalg.vecdot(phi, state.k.unsqueeze(-2)).unsqueeze(-1)
    exact = torch.softmax(q @ keys.mT / 2, dim=-1) @ values
    assert state.error(q, keys, values).sup == pytest.approx((approximate - exact).abs().max().item())


def test_half_given_tokens_are_refused():
    with pytest.raises(AttangentError, match="both or neither"):
        make_state("elu", 4, 2).error(
            normal(2, 3, 4), normal(2, 5, 4), normal(2, 5, 4), token_keys=normal(2, 1, 4)
        )
