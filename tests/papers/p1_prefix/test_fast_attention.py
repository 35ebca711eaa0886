import math

import pytest
import torch

from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent.attention import ntk_attention
from attangent.attention.backends.torch.portable import token_part
from attangent.attention.masks import Mask, resolve_mask
from attangent.papers.p1_prefix.fast_attention import (
    HyperAttention,
    PolynomialAttention,
    fast_ntk_attention,
    merged,
)
from tests.attention.cases import make_state, normal, tokens


def exact(q, k, v, *, causal=False, scale=None):
    return token_part(q, k, v, resolve_mask(None, causal, q, k), scale or 1 / math.sqrt(q.shape[-1]))


@pytest.mark.parametrize("causal", [False, True])
def test_exact_token_attention_gives_ntk_attention(causal):
    q, k, v = tokens(2, 4, 2, 5, 5, 4)
    state = make_state("elu", 4, 2)
    found = fast_ntk_attention(exact, q, k, v, state, causal=causal, scale=0.4)
    torch.testing.assert_close(found, ntk_attention(q, k, v, state, causal=causal, scale=0.4))


def test_parts_merge_to_the_whole():
    q, k, v = tokens(1, 2, 2, 5, 9, 4)
    halves = [exact(q, k[:, :, part], v[:, :, part]) for part in (slice(0, 4), slice(4, 9))]
    for found, wanted in zip(merged(*halves), exact(q, k, v), strict=True):
        torch.testing.assert_close(found, wanted)


def test_hyper_attention_within_one_block_is_exact():
    q, k, v = tokens(1, 2, 2, 50, 50, 4)
    for found, wanted in zip(HyperAttention(block=64)(q, k, v), exact(q, k, v), strict=True):
        torch.testing.assert_close(found, wanted)


def test_hyper_attention_estimates_the_mass_without_bias():
    q, k, v = tokens(1, 1, 1, 40, 320, 4)
    _, wanted = exact(q, k, v)
    draws = torch.stack([HyperAttention(block=40, samples=64, seed=s)(q, k, v)[1].exp() for s in range(300)])
    standard_error = draws.std(dim=0) / math.sqrt(len(draws))
    assert ((draws.mean(dim=0) - wanted.exp()) / standard_error).abs().max() < 4.5


def test_error_of_hyper_attention_falls_like_one_over_the_root_of_its_samples():
    q, k, v = tokens(1, 2, 2, 600, 600, 4, dtype=torch.float32)
    wanted, _ = exact(q, k, v)
    gaps = {
        samples: sum(
            (HyperAttention(block=60, samples=samples, seed=s)(q, k, v)[0] - wanted).square().mean().item()
            for s in range(4)
        )
        for samples in (32, 512)
    }
    assert 2 < math.sqrt(gaps[32] / gaps[512]) < 8


def test_hash_brings_alike_queries_and_keys_together():
    """Queries and keys in ten tight clusters: their own block holds nearly all the mass."""
    centres = 6 * normal(10, 8)
    which = torch.arange(400) % 10
    q = (centres[which] + 0.1 * normal(400, 8, seed=1))[None, None]
    k = (centres[which] + 0.1 * normal(400, 8, seed=2))[None, None]
    v = normal(1, 1, 400, 8, seed=3)
    wanted, _ = exact(q, k, v)

    def gap(bits):
        outs = [HyperAttention(block=80, samples=40, bits=bits, seed=seed)(q, k, v)[0] for seed in range(8)]
        return sum((out - wanted).abs().mean().item() for out in outs)

    assert gap(bits=12) < 0.5 * gap(bits=1)


def test_causal_hyper_attention_never_looks_ahead():
    q, k, v = tokens(1, 2, 1, 300, 300, 4)
    hyper = HyperAttention(block=16, samples=16, exact_below=32)
    before, lse = hyper(q, k, v, causal=True)
    k2, v2 = k.clone(), v.clone()
    k2[:, :, 200:], v2[:, :, 200:] = 3.0, -3.0
    after, _ = hyper(q, k2, v2, causal=True)
    assert torch.equal(before[:, :, :128], after[:, :, :128])
    assert (lse[:, :, 0] - (q[:, :, 0] * k[:, :, 0]).sum(-1) / 2).abs().max() < 1e-9


def test_short_causal_attention_is_exact():
    q, k, v = tokens(1, 2, 2, 40, 40, 4)
    for found, wanted in zip(
        HyperAttention()(q, k, v, causal=True), exact(q, k, v, causal=True), strict=True
    ):
        torch.testing.assert_close(found, wanted)


def test_lengths_that_no_block_divides_are_filled_up():
    q, k, v = tokens(1, 1, 1, 137, 211, 4)
    out, lse = HyperAttention(block=50, samples=4000)(q, k, v)
    wanted, wanted_lse = exact(q, k, v)
    assert (lse - wanted_lse).abs().max() < 0.3
    assert (out - wanted).abs().max() < 0.3


def test_gradients_pass_through_hyper_attention_to_everything():
    q, k, v = (t.requires_grad_() for t in tokens(1, 1, 1, 24, 24, 3))
    state = make_state("elu", 3, 1)
    hyper = HyperAttention(block=8, samples=8, bits=2)
    found = fast_ntk_attention(hyper, q, k, v, state)
    upstream = normal(*found.shape, seed=3)
    grads = torch.autograd.grad(found, [q, k, v, *state.parameters()], upstream)
    assert all(torch.isfinite(g).all() and (g != 0).any() for g in grads)
    step = 1e-6 * normal(1, 1, 24, 3, seed=4)
    moved = [fast_ntk_attention(hyper, q, k, v + sign * step, state) for sign in (1, -1)]
    slope = ((moved[0] - moved[1]) / 2 * upstream).sum()
    torch.testing.assert_close(slope, (grads[2] * step).sum(), rtol=1e-5, atol=0)


@pytest.mark.parametrize(("order", "bound"), [(2, 1e-2), (4, 1e-4)])
def test_polynomial_attention_is_attention_for_small_entries(order, bound):
    rng = generator(0, "polynomial")
    q, k, v = (torch.rand(3, 1, 2, 60, 4, generator=rng, dtype=torch.float64) - 0.5).unbind()
    out, lse = PolynomialAttention(order)(q, k, v)
    wanted, wanted_lse = token_part(q, k, v, Mask(), 0.5)
    assert (out - wanted).abs().max() < bound
    assert (lse - wanted_lse).abs().max() < bound


def test_what_cannot_be_computed_is_refused():
    q, k, v = tokens(1, 1, 1, 5, 5, 4)
    state = make_state("elu", 4, 1)
    with pytest.raises(AttangentError, match="cannot be causal"):
        PolynomialAttention()(q, k, v, causal=True)
    with pytest.raises(AttangentError, match="even"):
        PolynomialAttention(order=3)
    with pytest.raises(AttangentError, match="block is 0"):
        HyperAttention(block=0)
    with pytest.raises(AttangentError, match="bits is 31"):
        HyperAttention(bits=31)
    with pytest.raises(AttangentError, match="token attention gave"):
        fast_ntk_attention(lambda *a, **o: (v, v), q, k, v, state)
