"""Attention with a prefix at the edges: no prefix, no tokens, huge numbers, half precision."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from attangent.attention import PrefixState, ntk_attention, prefix_attention
from attangent.attention.features import Elu
from tests.attention.cases import (
    MAPS,
    gradients,
    make_mask,
    make_state,
    normal,
    portable,
    tokens,
    written_out,
)


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dim", [8, 16])
def test_zero_state_is_plain_attention_bit_for_bit(name, dtype, dim):
    q, k, v = tokens(2, 4, 2, 9, 9, dim, dtype=dtype)
    state = PrefixState.zero(make_state(name, dim, 2, dtype=torch.float32).features, heads=2)
    mask = make_mask("bool-full", 2, 4, 9, 9)
    for options, plain in (
        ({}, {}),
        ({"causal": True}, {"is_causal": True}),
        ({"mask": mask}, {"attn_mask": mask}),
        ({"scale": 0.3}, {"scale": 0.3}),
    ):
        wanted = F.scaled_dot_product_attention(q, k, v, enable_gqa=True, **plain)
        assert torch.equal(ntk_attention(q, k, v, state, **options), wanted)


def test_zero_state_on_the_portable_path_is_plain_attention_bit_for_bit():
    q, k, v = tokens(2, 4, 4, 9, 9, 8, dtype=torch.float32)
    state = PrefixState.zero(Elu(8), heads=4)
    with sdpa_kernel(SDPBackend.MATH):
        wanted = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert torch.equal(portable(q, k, v, state, causal=True), wanted)


def _extreme(kind, size, dim=8, rows=6):
    """q and k whose logits reach +-size: of both signs, all high or all low."""
    q, k, v = tokens(2, 2, 2, rows, rows, dim, dtype=torch.float32)
    length = math.sqrt(size * math.sqrt(dim))
    if kind == "both":
        return *(length * t / t.norm(dim=-1, keepdim=True) for t in (q, k)), v
    same = torch.full_like(q, length / math.sqrt(dim))
    return same, same if kind == "high" else -same, v


@pytest.mark.parametrize("zero", [False, True], ids=["state", "zero state"])
@pytest.mark.parametrize("kind", ["both", "high", "low"])
@pytest.mark.parametrize("name", MAPS)
def test_extreme_logits_give_finite_numbers(name, kind, zero):
    one_sided = torch.ones(6, 6, dtype=torch.bool).triu()
    one_sided[2] = False
    state = make_state(name, 8, 2, dtype=torch.float32)
    state = PrefixState.zero(state.features, heads=2) if zero else state
    for size in (100.0, 1e4):
        for mask in (None, one_sided):
            q, k, v = (t.requires_grad_() for t in _extreme(kind, size))
            for attend in (ntk_attention, portable):
                out = attend(q, k, v, state, mask=mask, causal=mask is None)
                found = gradients(out, [q, k, v, *state.parameters()])
                assert all(torch.isfinite(t).all() for t in (out, *found))


@pytest.mark.parametrize("attend", [ntk_attention, portable], ids=["fused", "portable"])
def test_a_query_that_sees_no_token_gets_the_prefix_alone(attend):
    q, k, v = tokens(1, 2, 2, 3, 4, 4)
    state, mask = make_state("elu", 4, 2), torch.ones(3, 4, dtype=torch.bool)
    mask[1] = False
    phi = state.features(q)
    alone = phi @ state.Z / torch.linalg.vecdot(phi, state.k.unsqueeze(-2)).unsqueeze(-1)
    torch.testing.assert_close(attend(q, k, v, state, mask=mask)[:, :, 1], alone[:, :, 1])
    nothing = k[:, :, :0]
    torch.testing.assert_close(attend(q, nothing, nothing, state), alone)
    zero = PrefixState.zero(Elu(4), heads=2)
    assert (attend(q, k, v, zero, mask=mask)[:, :, 1] == 0).all()


@pytest.mark.parametrize("attend", [ntk_attention, portable], ids=["fused", "portable"])
@pytest.mark.parametrize("name", MAPS)
def test_a_query_without_any_mass_gives_no_gradient(attend, name):
    q, k, v = (t.requires_grad_() for t in tokens(1, 2, 2, 3, 4, 4))
    state, mask = PrefixState.zero(make_state(name, 4, 2).features, 2), torch.ones(3, 4, dtype=torch.bool)
    mask[1] = False
    everything = [q, k, v, *state.parameters()]
    weight = torch.zeros(1, 2, 3, 4, dtype=torch.float64)
    weight[:, :, 1] = 1
    found = torch.autograd.grad(attend(q, k, v, state, mask=mask), everything, weight, allow_unused=True)
    assert all(grad is None or (grad == 0).all() for grad in found)


@pytest.mark.parametrize("attend", [ntk_attention, portable], ids=["fused", "portable"])
@pytest.mark.parametrize("name", ["elu", "anchors", "learned-elu", "taylor-2"])
def test_gradients_of_float32_states_under_float64_queries_are_finite(attend, name):
    q, k, v = (t.requires_grad_() for t in tokens(1, 2, 2, 3, 4, 4))
    state = PrefixState.zero(make_state(name, 4, 2).features.float(), 2)
    out = attend(-100 * q.abs(), 100 * k.abs(), v, state)
    found = gradients(out, [q, k, v, *state.parameters()])
    assert all(torch.isfinite(grad).all() for grad in found)


@pytest.mark.parametrize("scale", [0.0, -0.5, -30.0, 1e-300, -1e-300, 1e-31, 50.0])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rows", [3, 80])
def test_every_scale_that_is_taken_gives_the_formula(scale, causal, rows):
    q, k, v = (t.requires_grad_() for t in tokens(1, 2, 2, rows, rows, 4, dtype=torch.float32))
    state = make_state("elu", 4, 2, dtype=torch.float32)
    found = ntk_attention(q, k, v, state, causal=causal, scale=scale)
    wanted = portable(
        *(t.double() for t in (q, k, v)), copy.deepcopy(state).double(), causal=causal, scale=scale
    )
    torch.testing.assert_close(found.double(), wanted, rtol=1e-3, atol=1e-4)
    keys, values = normal(2, 5, 4, dtype=torch.float32), normal(2, 5, 4, seed=3, dtype=torch.float32)
    exact = prefix_attention(q, k, v, keys, values, causal=causal, scale=scale)
    for out in (found, exact):
        assert all(torch.isfinite(grad).all() for grad in gradients(out, [q, k, v]))


@pytest.mark.parametrize("softcap", [1e-30, 1e-3, 1e30])
def test_every_softcap_that_is_taken_gives_the_formula(softcap):
    q, k, v = (t.requires_grad_() for t in tokens(1, 2, 2, 3, 4, 4, dtype=torch.float32))
    state = make_state("elu", 4, 2, dtype=torch.float32)
    found = ntk_attention(q, k, v, state, softcap=softcap)
    wanted = written_out(q, k, v, copy.deepcopy(state), softcap=softcap)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=1e-5)
    assert all(torch.isfinite(grad).all() for grad in gradients(found, [q, k, v]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["elu", "anchors"])
def test_half_precision_error_is_that_of_plain_attention(name, dtype):
    """At most 1.5 times the error without a prefix: output and gradients, absolute and relative."""
    exact = tokens(2, 4, 4, 64, 64, 32)
    q, k, v = (t.to(dtype).requires_grad_() for t in exact)
    wide = [t.detach().double().requires_grad_() for t in (q, k, v)]
    state = make_state(name, 32, 4, dtype=torch.float32)
    upstream = normal(2, 4, 64, 32, seed=5).to(dtype)

    def errors(half, full):
        rounded = [half, *torch.autograd.grad(half, (q, k, v), upstream)]
        wanted = [full, *torch.autograd.grad(full, wide, upstream.double())]
        root_mean_squares = [
            ((a.double() - b).square().mean().sqrt().item(), b.square().mean().sqrt().item())
            for a, b in zip(rounded, wanted, strict=True)
        ]
        return (half.double() - full).abs().max().item(), root_mean_squares

    plain_largest, plain = errors(
        F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(*wide)
    )
    our_largest, ours = errors(ntk_attention(q, k, v, state), ntk_attention(*wide, state.double()))
    assert our_largest <= 1.5 * plain_largest
    for (error, size), (plain_error, plain_size) in zip(ours, plain, strict=True):
        assert error <= 1.5 * plain_error
        assert error / size <= 1.5 * plain_error / plain_size


def test_prefix_is_computed_in_float32_under_bfloat16():
    """A prefix of 2^16 tokens with equal values: bfloat16 sums of masses would be off by percents."""
    state = PrefixState.from_prefix(
        Elu(8), normal(1, 1 << 16, 8, dtype=torch.float32), torch.ones(1, 1 << 16, 8)
    )
    q = normal(1, 1, 16, 8).bfloat16()
    v = torch.zeros(1, 1, 1, 8, dtype=torch.bfloat16)
    out = ntk_attention(q, q[:, :, :1], v, state)
    assert ((out.float() - 1).abs() <= 2**-8).all()


def test_autocast_lowers_the_tokens_and_not_the_state():
    q, k, v = (t.requires_grad_() for t in tokens(1, 2, 2, 5, 5, 8, dtype=torch.float32))
    state = make_state("elu", 8, 2, dtype=torch.float32)
    inputs = [q, k, v, *state.parameters()]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = ntk_attention(q, k, v, state, causal=True)
        inside = gradients(out, inputs)
    lowered = ntk_attention(*(t.bfloat16() for t in (q, k, v)), state, causal=True)
    assert out.dtype == torch.bfloat16
    assert torch.equal(out, lowered)
    assert all(g.dtype == torch.float32 for g in inside)
    for found, wanted in zip(inside, gradients(lowered, inputs), strict=True):
        assert torch.equal(found, wanted)
