"""The fused passes around any token attention."""

import pytest
import torch

from attangent.attention import ntk_attention
from attangent.attention.backends.torch import fused
from attangent.attention.backends.torch.tokens import CpuFlash
from attangent.attention.masks import resolve_mask
from tests.attention.cases import make_mask, make_state, normal, tokens


class _Reference:
    """Token attention in plain operations, in the place of a device's."""

    def supports(self, q, k, v):
        return True

    def forward(self, q, k, v, mask, scale):
        logits = self._logits(q, k, mask, scale)
        lse = torch.logsumexp(logits, dim=-1)
        return torch.exp(logits - lse.unsqueeze(-1)) @ v, lse, "remembered"

    def backward(self, grad, q, tokens, out, lse, saved):
        k, v, mask, scale = tokens
        assert saved == "remembered"
        P = torch.exp(self._logits(q, k, mask, scale) - lse.unsqueeze(-1))
        slope = P * (grad @ v.mT - (grad * out).sum(dim=-1, keepdim=True))
        return scale * slope @ k, scale * slope.mT @ q, P.mT @ grad

    def _logits(self, q, k, mask, scale):
        logits = scale * q @ k.mT
        return logits if mask.bias is None else logits + mask.bias


@pytest.mark.parametrize("name", ["elu", "taylor-2", "learned-gelu"])
def test_any_attention_that_keeps_the_contract_gives_the_same_attention(name):
    q, k, v = (t.requires_grad_() for t in tokens(2, 2, 2, 4, 5, 3))
    state, mask = make_state(name, 3, 2), resolve_mask(make_mask("added-full", 2, 2, 4, 5), False, q, k)
    inputs = [q, k, v, *state.parameters()]
    outs = [fused.fused_attention(kernel, q, k, v, state, mask, 0.4) for kernel in (_Reference(), CpuFlash())]
    torch.testing.assert_close(*outs)
    upstream = normal(2, 2, 4, 3, seed=5)
    for ours, theirs in zip(*(torch.autograd.grad(out, inputs, upstream) for out in outs), strict=True):
        torch.testing.assert_close(ours, theirs)


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
