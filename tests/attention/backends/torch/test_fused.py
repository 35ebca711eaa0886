"""The fused passes around token attention."""

import pytest
import torch

from attangent.attention import ntk_attention
from attangent.attention.backends.torch import fused
from attangent.attention.masks import resolve_mask
from tests.attention.cases import make_mask, make_state, normal, tokens


def plain_flash(q, k, v, mask, scale):
    logits = scale * q @ k.mT + mask.bias
    lse = torch.logsumexp(logits, dim=-1)
    return torch.exp(logits - lse.unsqueeze(-1)) @ v, lse


def plain_gradients(grad, q, tokens, out, lse):
    k, v, mask, scale = tokens
    P = torch.exp(scale * q @ k.mT + mask.bias - lse.unsqueeze(-1))
    slope = P * (grad @ v.mT - (grad * out).sum(dim=-1, keepdim=True))
    return scale * slope @ k, scale * slope.mT @ q, P.mT @ grad


@pytest.mark.parametrize("name", ["elu", "taylor-2", "learned-gelu"])
def test_token_attention_in_plain_operations_gives_the_same_attention(name, monkeypatch):
    q, k, v = (t.requires_grad_() for t in tokens(2, 2, 2, 4, 5, 3))
    state, mask = make_state(name, 3, 2), resolve_mask(make_mask("added-full", 2, 2, 4, 5), False, q, k)
    inputs = [q, k, v, *state.parameters()]
    upstream = normal(2, 2, 4, 3, seed=5)

    def results():
        out = fused.fused_attention(q, k, v, state, mask, 0.4)
        return out, *torch.autograd.grad(out, inputs, upstream)

    ours = results()
    monkeypatch.setattr(fused, "flash", plain_flash)
    monkeypatch.setattr(fused, "flash_gradients", plain_gradients)
    torch.testing.assert_close(ours, results())


def test_only_wanted_gradients_are_computed():
    q, k, v = tokens(1, 2, 2, 3, 3, 4)
    state = make_state("elu", 4, 2)
    ntk_attention(q, k, v, state).sum().backward()
    assert state.mass.grad is not None
    state.requires_grad_(False)
    k.requires_grad_()
    ntk_attention(q, k, v, state).sum().backward()
    assert k.grad is not None
    assert q.grad is None


@pytest.mark.parametrize("name", ["elu", "learned-elu"])
def test_gradients_do_not_depend_on_which_of_them_are_asked_for(name):
    q, k, v = tokens(1, 2, 2, 3, 4, 4)
    state = make_state(name, 4, 2)
    everything = [q, k, v, *state.parameters()]
    for tensor in everything:
        tensor.requires_grad_()
    wanted = _gradients(ntk_attention(q, k, v, state), everything)
    for i, alone in enumerate(everything):
        for tensor in everything:
            tensor.requires_grad_(tensor is alone)
        (found,) = _gradients(ntk_attention(q, k, v, state), [alone])
        torch.testing.assert_close(found, wanted[i])


def _gradients(out, inputs):
    return torch.autograd.grad(out, inputs, normal(*out.shape, seed=99, dtype=out.dtype))
