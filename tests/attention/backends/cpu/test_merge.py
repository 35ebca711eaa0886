"""A prefix merged by compiled code against the same by plain operations in float64."""

import copy

import pytest
import torch
from torch.autograd import forward_ad

from attangent.attention import PrefixState, merge_prefix, ntk_attention
from attangent.attention.backends.cpu import merge as module
from attangent.attention.backends.cpu.prepare import trusted
from tests.attention.backends.cpu.test_call import MAPS, rows_of, state_of
from tests.attention.cases import make_map, normal

pytestmark = pytest.mark.skipif(trusted() is None, reason="there was no C compiler at installation")


@pytest.fixture
def merges(monkeypatch):
    """How often compiled code has merged."""
    seen = []
    merge = module.merge
    monkeypatch.setattr(
        "attangent.attention.backends.portable.merge", lambda *given: seen.append(1) or merge(*given)
    )
    return seen


def merged_and_gradients(state, q, out, lse, grad):
    inputs = [tensor.detach().clone().requires_grad_() for tensor in (q, out, lse)]
    merged = merge_prefix(*inputs, state, 0.4)
    return merged, *torch.autograd.grad(merged, [*inputs, *state.parameters()], grad)


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("sharing", [1, 2])
def test_the_output_and_every_gradient(name, sharing, merges):
    state = state_of(name, 2, 8)
    q, out, grad = (rows_of(2, 2 * sharing, 30, 8, seed, torch.float64) for seed in (6, 7, 8))
    lse = 3 + normal(2, 2 * sharing, 30, seed=9)
    want = merged_and_gradients(state, q, out, lse, grad)
    assert not merges
    have = merged_and_gradients(
        copy.deepcopy(state).float(), *(tensor.float() for tensor in (q, out, lse, grad))
    )
    assert len(merges) == 1
    for mine, exact in zip(have, want, strict=True):
        torch.testing.assert_close(
            mine.double(), exact, rtol=2e-4, atol=2e-4 * max(1.0, exact.abs().max().item())
        )


def test_rows_with_hardly_any_tokens_and_without_mass(merges):
    state = state_of("elu", 1, 8).float()
    q, out, grad = (rows_of(1, 1, 6, 8, seed) for seed in (6, 7, 8))
    lse = torch.tensor([-200.0, 0.0, 88.0, 1e4, -100.0, -3e38]).view(1, 1, 6)
    found = merged_and_gradients(state, q, out, lse, grad)
    assert all(part.isfinite().all() for part in found)
    zero = PrefixState.zero(make_map("elu", 8, 1), heads=1).float()
    nothing = merge_prefix(q, out, lse, zero, 0.4)
    assert torch.equal(nothing[:, :, 1:5], out[:, :, 1:5])
    assert len(merges) == 2
    lse[0, 0, 0] = -torch.inf
    merge_prefix(q, out, lse, state, 0.4)
    assert len(merges) == 2, "a query without tokens is left to torch"


def test_gradients_of_gradients_go_by_plain_operations(merges):
    state = state_of("learned-elu", 1, 8)
    q, out = (rows_of(1, 1, 5, 8, seed, torch.float64) for seed in (6, 7))

    def second(state, q, out):
        q, out = (tensor.clone().requires_grad_() for tensor in (q, out))
        merged = merge_prefix(q, out * q.sin(), q.square().sum(dim=-1), state, 0.4)
        [first] = torch.autograd.grad(merged.square().sum(), q, create_graph=True)
        return torch.autograd.grad(first.square().sum(), [q, out])

    want = second(state, q, out)
    have = second(copy.deepcopy(state).float(), q.float(), out.float())
    assert len(merges) == 1
    for mine, exact in zip(have, want, strict=True):
        torch.testing.assert_close(mine.double(), exact, rtol=1e-3, atol=1e-3 * exact.abs().max().item())


def test_transforms_and_forward_derivatives_go_by_plain_operations(merges):
    state = state_of("elu", 1, 8).float()
    q, out = (rows_of(1, 1, 5, 8, seed) for seed in (6, 7))
    lse = torch.zeros(1, 1, 5)
    _, moved = torch.func.jvp(lambda out: merge_prefix(q, out, lse, state, 0.4), (out,), (out,))
    with forward_ad.dual_level():
        dual = merge_prefix(q, forward_ad.make_dual(out, out), lse, state, 0.4)
        torch.testing.assert_close(forward_ad.unpack_dual(dual).tangent, moved)
    assert not merges


def test_dropout_trains_with_it(merges):
    state = state_of("learned-gelu", 2, 16).float()
    q, k, v = (normal(1, 2, 9, 16, seed=seed).float() for seed in (1, 2, 3))
    draws = [torch.Generator().manual_seed(4) for _ in range(2)]
    quick = ntk_attention(q, k, v, state, dropout=0.3, generator=draws[0])
    plain = ntk_attention(*(t.double() for t in (q, k, v)), copy.deepcopy(state).double(), dropout=0.0)
    assert len(merges) == 1
    assert not torch.allclose(quick.double(), plain)
    quick.square().sum().backward()
    assert all(parameter.grad is not None for parameter in state.parameters())
