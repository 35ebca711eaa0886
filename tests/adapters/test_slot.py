import pytest
import torch

from attangent.adapters.slot import stacked
from attangent.attention import ntk_attention
from attangent.attention.features import Calibrated, Learned
from attangent.attention.state import PrefixState
from tests.attention.cases import make_state, normal, tokens

PAIRS = [("elu", "anchors"), ("learned-gelu", "anchors"), ("anchors", "anchors"), ("elu", "taylor-2")]


def one_after_the_other(q, k, v, states):
    """The formula with both prefixes, plain exponentials in float64."""
    scale = q.shape[-1] ** -0.5
    weights = (scale * q @ k.repeat_interleave(q.shape[1] // k.shape[1], 1).mT).exp()
    top = weights @ v.repeat_interleave(q.shape[1] // v.shape[1], 1)
    whole = weights.sum(dim=-1, keepdim=True)
    for state in states:
        groups = q.shape[1] // state.heads
        x = q.reshape(q.shape[0], state.heads, groups * q.shape[2], -1)
        phi = state.features(x)
        top = top + (phi @ state.Z).reshape(top.shape)
        whole = whole + (phi @ state.k.unsqueeze(-1)).reshape(whole.shape)
    return top / whole


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("heads", [(4, 4), (4, 2)])
def test_both_prefixes_add_up_with_gradients(pair, heads):
    q, k, v = tokens(2, 4, 2, 5, 7, 4)
    states = [make_state(name, 4, h, seed=i) for i, (name, h) in enumerate(zip(pair, heads, strict=True))]
    parameters = [p for state in states for p in state.parameters()]
    inputs = [t.requires_grad_() for t in (q, k, v)]
    upstream = normal(2, 4, 5, 4, seed=9)
    ours, exact = ntk_attention(q, k, v, stacked(states)), one_after_the_other(q, k, v, states)
    assert torch.allclose(ours, exact, rtol=1e-9)
    found = torch.autograd.grad(ours, [*inputs, *parameters], upstream)
    wanted = torch.autograd.grad(exact, [*inputs, *parameters], upstream)
    for one, two in zip(found, wanted, strict=True):
        assert torch.allclose(one, two, rtol=1e-7, atol=1e-10)


def test_levels_far_apart_do_not_overflow():
    def state(level):
        inner = Learned.draw(4, 5, seed=1, heads=2, activation="elu")
        units = Calibrated(inner, torch.zeros(2, 4), torch.ones(2), torch.full((2,), level))
        return PrefixState(units, torch.ones(2, 5, 4), torch.ones(2, 5))

    q, k, v = tokens(1, 2, 2, 3, 4, 4, dtype=torch.float32)
    low, high = state(-200.0), state(200.0)
    assert torch.allclose(ntk_attention(q, k, v, stacked([low, high])), ntk_attention(q, k, v, high))
