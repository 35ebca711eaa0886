import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import forward_ad

from attangent.attention import PrefixState, merge_prefix, ntk_attention
from attangent.attention.backends.cpu.prepare import trusted
from attangent.attention.backends.torch import portable
from attangent.attention.backends.torch.portable import attend_in_chunks, token_part
from attangent.attention.masks import Mask
from tests.attention.backends.cpu.test_library import MAPS, rows_of, state_of
from tests.attention.cases import make_map, make_state, normal, tokens


def test_token_part_is_attention_and_the_logsumexp_of_its_logits():
    q, k, v = tokens(2, 4, 2, 3, 5, 4)
    out, lse = token_part(q, k, v, Mask(), 0.5)
    torch.testing.assert_close(out, F.scaled_dot_product_attention(q, k, v, scale=0.5, enable_gqa=True))
    torch.testing.assert_close(lse, torch.logsumexp(0.5 * q @ k.repeat_interleave(2, dim=1).mT, dim=-1))


def test_any_attention_may_supply_output_and_logsumexp():
    """Tokens seen in two parts, merged by their logsumexp, then with the prefix."""
    q, k, v = tokens(2, 2, 2, 3, 6, 4)
    state = make_state("elu", 4, 2)
    (one, first), (two, second) = (
        token_part(q, k[:, :, part], v[:, :, part], Mask(), 0.5) for part in (slice(0, 2), slice(2, 6))
    )
    lse = torch.logaddexp(first, second)
    out = one * (first - lse).exp().unsqueeze(-1) + two * (second - lse).exp().unsqueeze(-1)
    torch.testing.assert_close(
        merge_prefix(q, out, lse, state, 0.5), ntk_attention(q, k, v, state, scale=0.5)
    )


@pytest.mark.parametrize("most", [1, 40, 1000])
def test_chunks_of_queries_do_not_show(most, monkeypatch):
    Q, K, V = normal(2, 7, 4), normal(2, 9, 4, seed=1), normal(2, 9, 3, seed=2)
    wanted = token_part(Q[None], K[None], V[None], Mask(), 0.5)
    monkeypatch.setattr("attangent.attention.backends.torch.portable._LOGITS", most)
    for found, whole in zip(attend_in_chunks(Q, K, V, 0.5), wanted, strict=True):
        torch.testing.assert_close(found, whole[0])
    assert (attend_in_chunks(Q, K[:, :0], V[:, :0], 0.5)[1] == -torch.inf).all()


def test_merged_gradient_reaches_output_and_logsumexp():
    q, k, v = tokens(1, 2, 2, 3, 6, 4)
    state = make_state("taylor-2", 4, 2)
    out, lse = (t.detach().requires_grad_() for t in token_part(q, k, v, Mask(), 0.5))
    assert torch.autograd.gradcheck(lambda o, s: merge_prefix(q, o, s, state, 0.5), (out, lse))


def test_dropout_keeps_the_share_it_says():
    q, k, v = tokens(1, 1, 1, 50, 400, 2)
    rng = torch.Generator().manual_seed(0)
    ones = torch.ones_like(v)
    out, _ = token_part(q, k, ones, Mask(), 0.0, dropout=0.25, generator=rng)
    spread = math.sqrt(0.25 / 0.75 / 400)
    assert abs(out.mean().item() - 1) < 4 * spread / math.sqrt(50)
    assert 0.7 * spread < out[..., 0].std().item() < 1.3 * spread


compiled = pytest.mark.skipif(trusted() is None, reason="there was no C compiler at installation")


@pytest.fixture
def merges(monkeypatch):
    """How often compiled code has merged."""
    seen = []
    apply = portable._CompiledMerge.apply
    monkeypatch.setattr(portable._CompiledMerge, "apply", lambda *given: seen.append(1) or apply(*given))
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
