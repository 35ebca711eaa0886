"""Virtual tokens: the state they start from, and gradients through attention."""

import pytest
import torch

from attangent import AttangentError
from attangent.attention import PrefixState, RaggedState
from attangent.attention.features import Anchors, Elu
from attangent.compression.distilling.virtual import VirtualTokens


def drawn_state(heads=2, r=5, d=8, seed=0):
    draw = torch.Generator().manual_seed(seed)
    keys, values = torch.randn(2, heads, r, d, generator=draw).unbind()
    masses = torch.rand(heads, r, generator=draw) + 0.1
    return PrefixState(Anchors(keys), values * masses.unsqueeze(-1), masses)


def ragged_state(seed=0):
    draw = torch.Generator().manual_seed(seed)
    keys, values = ([torch.randn(r, 8, generator=draw) for r in (2, 6)] for _ in range(2))
    return RaggedState.of(keys, values, [torch.rand(r, generator=draw) + 0.1 for r in (2, 6)])


def test_virtual_tokens_begin_and_end_as_the_state_they_are():
    state = drawn_state()
    tokens = VirtualTokens(state)
    for now, before in zip(tokens.state().weights(), state.weights(), strict=True):
        torch.testing.assert_close(now, before)
    torch.testing.assert_close(tokens.state().features.keys, state.features.keys)
    ragged = ragged_state()
    same = VirtualTokens(ragged).state()
    assert same.sizes == ragged.sizes
    for now, before in zip(same.tokens(), ragged.tokens(), strict=True):
        torch.testing.assert_close(now, before)
    with pytest.raises(AttangentError, match="cannot be distilled"):
        VirtualTokens(PrefixState.zero(Elu(4), heads=2))


@pytest.mark.parametrize("make", [drawn_state, ragged_state])
def test_gradients_are_those_of_a_finite_difference(make):
    torch.manual_seed(0)
    state, (q, k, v) = make().double(), torch.randn(3, 1, 4, 3, 8, dtype=torch.float64).unbind()
    from attangent.attention import ntk_attention

    def loss(keys, values, masses):
        tokens = VirtualTokens(state)
        tokens.units = 1.0, 1.0, 1.0
        del tokens.steps
        tokens.steps = keys, values, masses
        return ntk_attention(q, k, v, tokens).square().sum()

    steps = [torch.zeros_like(s, requires_grad=True) for s in VirtualTokens(state).starts]
    assert torch.autograd.gradcheck(loss, steps)
