import pytest
import torch

from attangent.attention import ntk_attention
from tests.attention.cases import make_state, normal, tokens


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
