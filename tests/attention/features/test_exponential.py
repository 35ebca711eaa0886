import math

import pytest
import torch

from attangent._core.errors import AttangentError
from attangent.attention import PrefixState, ntk_attention, prefix_attention
from attangent.attention.features import Anchors, PositiveRandom
from tests.attention.cases import normal, tokens


def test_positive_random_features_are_unbiased():
    q, k = normal(5, 4, scale=0.5), normal(6, 4, seed=1, scale=0.5)
    exact = torch.exp(q @ k.T / 2)
    draws = torch.stack([(m := PositiveRandom(4, 64, seed=seed))(q) @ m(k).T for seed in range(200)])
    standard_error = draws.std(dim=0) / math.sqrt(len(draws))
    assert ((draws.mean(dim=0) - exact) / standard_error).abs().max() < 4.5


def test_other_seeds_draw_other_features():
    x = normal(3, 4)
    assert not torch.equal(PositiveRandom(4, 8, seed=0)(x), PositiveRandom(4, 8, seed=1)(x))
    assert torch.equal(PositiveRandom(4, 8, seed=0)(x), PositiveRandom(4, 8, seed=0)(x))


def test_anchored_state_is_extra_tokens_with_log_masses():
    q, k, v = tokens(2, 3, 3, 5, 6, 4)
    anchors, masses, U = normal(3, 7, 4, seed=5), normal(3, 7, seed=6).exp(), normal(3, 7, 4, seed=7)
    state = PrefixState(Anchors(anchors), masses.unsqueeze(-1) * U, masses)
    bias = torch.cat([masses.log().unsqueeze(1).expand(3, 5, 7), torch.zeros(3, 5, 6)], dim=-1)
    extra_k, extra_v = (torch.cat([a.expand(2, -1, -1, -1), b], dim=2) for a, b in ((anchors, k), (U, v)))
    wanted = torch.nn.functional.scaled_dot_product_attention(q, extra_k, extra_v, attn_mask=bias)
    torch.testing.assert_close(ntk_attention(q, k, v, state), wanted)


def test_anchors_that_are_the_prefix_make_equation_7_exact():
    q, k, v = tokens(2, 3, 3, 5, 6, 4)
    keys, values = normal(3, 9, 4, seed=5, scale=4), normal(3, 9, 4, seed=6)
    state = PrefixState.from_prefix(Anchors(keys), keys, values)
    wanted = prefix_attention(q, k, v, keys, values)
    torch.testing.assert_close(ntk_attention(q, k, v, state), wanted)


def test_softcapped_anchors_follow_softcapped_attention():
    q, k, v = tokens(1, 2, 2, 5, 6, 4)
    keys, values = normal(2, 9, 4, seed=5, scale=3), normal(2, 9, 4, seed=6)
    state = PrefixState.from_prefix(Anchors(keys, softcap=0.7), keys, values)
    wanted = prefix_attention(q, k, v, keys, values, softcap=0.7)
    torch.testing.assert_close(ntk_attention(q, k, v, state, softcap=0.7), wanted)


def test_different_anchors_stand_side_by_side_when_added():
    q, k, v = tokens(1, 2, 2, 5, 6, 4)
    keys, values = normal(2, 9, 4, seed=5), normal(2, 9, 4, seed=6)
    first = PrefixState.from_prefix(Anchors(keys[:, :3]), keys[:, :3], values[:, :3])
    second = PrefixState.from_prefix(Anchors(keys[:, 3:]), keys[:, 3:], values[:, 3:])
    both = first.add(second)
    assert both.features.size == 9
    torch.testing.assert_close(ntk_attention(q, k, v, both), prefix_attention(q, k, v, keys, values))


def test_anchor_without_mass_cannot_drown_the_others():
    """A score 130 above the others on an anchor of mass 0 would push them below the smallest float32."""
    anchors = torch.tensor([[[260.0, 0.0], [0.0, 0.0]]])
    U = torch.tensor([[[0.0, 0.0], [1.0, 2.0]]])
    state = PrefixState(Anchors(anchors), U, torch.tensor([[0.0, 1.0]]))
    q = torch.tensor([[[[0.5 * math.sqrt(2), 0.0]]]])
    nothing = torch.zeros(1, 1, 0, 2)
    torch.testing.assert_close(ntk_attention(q, nothing, nothing, state), torch.tensor([[[[1.0, 2.0]]]]))


def test_anchors_with_different_heads_or_caps_are_refused():
    two, three = Anchors(normal(2, 5, 4)), Anchors(normal(3, 5, 4))
    with pytest.raises(AttangentError, match="same number of heads"):
        two.joined(three)
    with pytest.raises(AttangentError, match="cannot be added"):
        two.joined(Anchors(normal(2, 5, 4), softcap=1.0))


@pytest.mark.parametrize("softcap", [0.0, -1.0, math.inf])
def test_impossible_softcaps_are_refused(softcap):
    with pytest.raises(AttangentError, match="softcap"):
        Anchors(normal(5, 4), softcap=softcap)


@pytest.mark.parametrize("keys", [torch.zeros(4), torch.zeros(0, 4), torch.full((2, 4), math.nan)])
def test_impossible_anchors_are_refused(keys):
    with pytest.raises(AttangentError, match="keys"):
        Anchors(keys)


def test_random_features_that_would_fill_the_memory_are_refused():
    with pytest.raises(AttangentError, match=r"random features .* would take 4\.66 TiB"):
        PositiveRandom(64, 10**10)
    with pytest.raises(AttangentError, match=r"shape \(3, 4\), expected \(5, 4\): one row per feature"):
        PositiveRandom(4, 5, projection=torch.zeros(3, 4))
