"""States with another number of tokens for each head, against the padded reference and head by head."""

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attangent import AttangentError, PrefixState
from attangent.attention import RaggedState, RaggedTokens, merge_prefix, ntk_attention
from attangent.attention.backends.torch.portable import token_part
from attangent.attention.features import Anchors, Elu
from attangent.attention.masks import Mask
from attangent.attention.prefix import PrefixWeights, similar_heads
from tests.attention.cases import normal, tokens


def lists(sizes, dim=4, values=4, seed=0):
    """Keys, values and masses of heads of these sizes."""
    keys = [normal(size, dim, seed=seed + i) for i, size in enumerate(sizes)]
    given = [normal(size, values, seed=seed + 50 + i) for i, size in enumerate(sizes)]
    masses = [normal(size, seed=seed + 90 + i).abs() for i, size in enumerate(sizes)]
    return keys, given, masses


def padded(state):
    """The same prefix with tokens of no mass, as attention of one size for all heads takes it."""
    return PrefixWeights(state.features, *state.weights())


SIZES = [(1, 1), (3, 3), (2, 5), (40, 3), (3, 40), (1, 200)]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("causal", [False, True])
def test_it_is_the_padded_state(sizes, causal):
    q, k, v = tokens(2, 4, 2, 5, 5, 4)
    state = RaggedState.of(*lists(sizes))
    found = ntk_attention(q, k, v, state, causal=causal, scale=0.3)
    torch.testing.assert_close(found, ntk_attention(q, k, v, padded(state), causal=causal, scale=0.3))


@pytest.mark.parametrize("sizes", SIZES)
def test_it_is_each_head_alone(sizes):
    q, k, v = tokens(2, 4, 2, 5, 7, 4)
    state, (keys, values, masses) = RaggedState.of(*lists(sizes)), lists(sizes)
    found = ntk_attention(q, k, v, state)
    for head in range(2):
        own, rows = slice(head, head + 1), slice(2 * head, 2 * head + 2)
        alone = PrefixState(
            Anchors(keys[head][None]), (values[head] * masses[head][:, None])[None], masses[head][None]
        )
        torch.testing.assert_close(found[:, rows], ntk_attention(q[:, rows], k[:, own], v[:, own], alone))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_heads_sizes_masks_and_caps(data):
    state_heads, kv_heads = data.draw(st.sampled_from([(4, 2), (2, 4), (4, 4), (1, 4), (4, 1), (2, 2)]))
    sizes = data.draw(st.lists(st.integers(1, 70), min_size=state_heads, max_size=state_heads))
    rows, columns = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 6))
    softcap = data.draw(st.sampled_from([None, 3.0]))
    q, k, v = tokens(2, 4, kv_heads, rows, columns, 4)
    state = RaggedState.of(*lists(sizes), softcap)
    mask = {
        "none": None,
        "rows": torch.ones(2, 1, rows, columns, dtype=torch.bool).tril(1),
        "heads": normal(2, 4, rows, columns),
    }[data.draw(st.sampled_from(["none", "rows", "heads"]))]
    options = {"mask": mask, "softcap": softcap, "scale": 0.4}
    torch.testing.assert_close(
        ntk_attention(q, k, v, state, **options), ntk_attention(q, k, v, padded(state), **options)
    )


@pytest.mark.parametrize("sizes", [(2, 5), (40, 3)])
@pytest.mark.parametrize("fused", [True, False])
def test_gradients_are_those_of_the_padded_state(sizes, fused):
    q, k, v = (t.requires_grad_() for t in tokens(2, 4, 2, 5, 5, 4))
    state = RaggedState.of(*lists(sizes))
    everything, wish = [q, k, v, *state.parameters()], normal(2, 4, 5, 4, seed=7)
    options = {"causal": True} if fused else {"causal": True, "softcap": 1e4}
    found = torch.autograd.grad(ntk_attention(q, k, v, state, **options), everything, wish)
    wanted = torch.autograd.grad(ntk_attention(q, k, v, padded(state), **options), everything, wish)
    for one, two in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, two)
    assert all(grad.abs().max() > 0 for grad in found)


def test_gradients_flow_to_whatever_the_tokens_are_made_of():
    q, k, v = tokens(1, 4, 2, 3, 3, 4)
    keys, values, masses = lists((2, 30))
    sources = [t.clone().requires_grad_() for t in (*keys, *values, *(m.log() for m in masses))]

    def attention():
        c, u, log_masses = sources[:2], sources[2:4], sources[4:]
        return ntk_attention(q, k, v, RaggedTokens.of(c, u, [m.exp() for m in log_masses])).square().sum()

    attention().backward()
    for source in sources:
        place = (0,) * source.ndim
        with torch.no_grad():
            source[place] += 1e-5
            above = attention()
            source[place] -= 2e-5
            below = attention()
            source[place] += 1e-5
        assert source.grad[place].item() == pytest.approx(((above - below) / 2e-5).item(), rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("sizes", [(2, 5), (40, 3)])
def test_it_merges_into_any_token_attention(sizes):
    q, k, v = tokens(2, 4, 2, 5, 5, 4)
    state = RaggedState.of(*lists(sizes))
    out, lse = token_part(q, k, v, Mask(), 0.5)
    torch.testing.assert_close(
        merge_prefix(q, out, lse, state, 0.5), ntk_attention(q, k, v, state, scale=0.5)
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_lower_precision(dtype):
    exact = tokens(2, 4, 2, 5, 5, 4)
    state = RaggedState.of(*lists((2, 30)))
    low = ntk_attention(*(t.to(dtype) for t in exact), copy.deepcopy(state).float())
    assert low.dtype == dtype
    gap = (low.double() - ntk_attention(*exact, state)).abs().max()
    assert gap < (0.05 if dtype == torch.bfloat16 else 1e-5)


def test_only_tokens_that_are_there_are_stored():
    state = RaggedState.of(*lists((2, 30)))
    assert {name: tuple(t.shape) for name, t in state.state_dict().items()} == {
        "keys": (32, 4),
        "Z": (32, 4),
        "mass": (32,),
    }
    assert state.number_of_floats == 32 * 9


def test_tokens_come_back_head_by_head():
    given = lists((2, 30))
    for one, two in zip(RaggedState.of(*given).by_head(), zip(*given, strict=True), strict=True):
        for found, wanted in zip(one, two, strict=True):
            torch.testing.assert_close(found, wanted)


def test_states_of_anchors_become_ragged_without_their_empty_tokens():
    keys = normal(2, 5, 4)
    state = PrefixState.from_prefix(Anchors(keys), keys[:, :3], keys[:, :3])
    ragged = RaggedState.from_state(state)
    assert ragged.sizes == (3, 3)
    q, k, v = tokens(1, 4, 2, 3, 6, 4)
    torch.testing.assert_close(ntk_attention(q, k, v, ragged), ntk_attention(q, k, v, state))
    with pytest.raises(AttangentError, match="has no virtual tokens"):
        RaggedState.from_state(PrefixState.zero(Elu(4), 2))


def test_states_add_up_as_numerators_and_masses_do():
    one, two = RaggedState.of(*lists((2, 30))), RaggedState.of(*lists((5, 1), seed=9))
    both = one.add(two)
    assert both.sizes == (7, 31)
    q, k, v = tokens(1, 4, 2, 3, 6, 4)
    out, lse = token_part(q, k, v, Mask(), 0.5)
    first = merge_prefix(q, out, lse, one, 0.5)
    mass = lse.exp() + (one.features(q.reshape(1, 2, 6, 4)) @ one.weights()[1].unsqueeze(-1)).reshape(1, 4, 3)
    wanted = merge_prefix(q, first, mass.log(), two, 0.5)
    torch.testing.assert_close(ntk_attention(q, k, v, both), wanted)
    with pytest.raises(AttangentError, match="cannot be added"):
        one.add(RaggedState.of(*lists((2, 3, 4))))


@given(st.lists(st.integers(1, 500), min_size=1, max_size=40))
def test_groups_of_like_size_hold_every_head_once_and_waste_little(sizes):
    groups = similar_heads(sizes)
    assert sorted(head for group in groups for head in group) == list(range(len(sizes)))
    for group in groups:
        own = [sizes[head] for head in group]
        assert max(own) - min(own) <= max(16, max(own) // 4)


def test_it_is_a_module_that_copies_moves_and_loads():
    state = RaggedState.of(*lists((2, 30)))
    twin = copy.deepcopy(state).to(torch.float32)
    assert {p.dtype for p in twin.parameters()} == {torch.float32}
    twin.load_state_dict(state.state_dict())
    assert torch.allclose(twin.Z.double(), state.Z, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda k, v, m: (k[:1], v, m), "keys for 1 heads, values for 2"),
        (lambda k, v, m: ([], [], []), "lists with one tensor per head"),
        (lambda k, v, m: ([k[0][:1], k[1]], v, m), "head 0 has keys float64 (1, 4)"),
        (lambda k, v, m: ([k[0], k[1][:, :3]], v, m), "head 1 has keys of size 3"),
        (lambda k, v, m: (k, v, [m[0], m[1][None]]), "head 1"),
        (lambda k, v, m: ([k[0][:0], k[1]], [v[0][:0], v[1]], [m[0][:0], m[1]]), "r at least 1"),
        (lambda k, v, m: ([k[0].long(), k[1]], v, m), "floating point"),
        (lambda k, v, m: ([k[0] * math.nan, k[1]], v, m), "NaN"),
    ],
)
def test_what_does_not_fit_is_refused(change, says):
    with pytest.raises(AttangentError) as error:
        RaggedState.of(*change(*lists((2, 3))))
    assert says in str(error.value)


@pytest.mark.parametrize("sizes", [(2, 4), (5,), (5, 0), (2, 3.0), (), (2, True, 2)])
def test_sizes_that_do_not_add_up_are_refused(sizes):
    keys, Z, mass = RaggedTokens.of(*lists((2, 3))).tokens()
    if sizes == (5,):
        assert RaggedState(keys, Z, mass, sizes).heads == 1
        return
    with pytest.raises(AttangentError, match=r"sizes (are|is)|for heads of \[2, 4\]"):
        RaggedState(keys, Z, mass, sizes)


def test_heads_that_do_not_divide_those_of_the_queries_are_refused():
    q, k, v = tokens(1, 4, 2, 3, 6, 4)
    with pytest.raises(AttangentError, match="the state has 3 heads and q has 4"):
        ntk_attention(q, k, v, RaggedState.of(*lists((1, 2, 30))))
    with pytest.raises(AttangentError, match="features of dimension 5"):
        ntk_attention(q, k, v, RaggedState.of(*lists((1, 30), dim=5)))
