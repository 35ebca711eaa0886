import math

import pytest
import torch

from attangent._core.errors import AttangentError
from attangent.attention import prefix_attention
from tests.attention.cases import MASKS, make_mask, normal, tokens


def by_hand(q, k, v, prefix_k, prefix_v, mask=None, causal=False, softcap=None):
    """Algorithm 1 with plain exponentials: prefix first, every query sees all of it."""
    rows, columns, m = q.shape[2], k.shape[2], prefix_k.shape[-2]
    group = q.shape[1] // k.shape[1]
    K = torch.cat([prefix_k.expand(len(q), -1, -1, -1), k], dim=2).repeat_interleave(group, dim=1)
    V = torch.cat([prefix_v.expand(len(q), -1, -1, -1), v], dim=2).repeat_interleave(group, dim=1)
    logits = q @ K.mT / math.sqrt(q.shape[-1])
    logits = logits if softcap is None else softcap * torch.tanh(logits / softcap)
    A = logits.exp()
    if mask is not None:
        factor = mask.double() if mask.dtype == torch.bool else mask.exp()
        A[..., m:] *= factor
    if causal:
        A[..., m:] *= torch.ones(rows, columns, dtype=torch.float64).tril(columns - rows)
    return A @ V / A.sum(dim=-1, keepdim=True)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", MASKS)
def test_is_algorithm_1_for_every_mask(kind, causal):
    q, k, v = tokens(2, 4, 2, 5, 6, 3)
    prefix_k, prefix_v = normal(2, 7, 3, seed=5), normal(2, 7, 3, seed=6)
    mask = make_mask(kind, 2, 4, 5, 6)
    found = prefix_attention(q, k, v, prefix_k, prefix_v, mask=mask, causal=causal)
    torch.testing.assert_close(found, by_hand(q, k, v, prefix_k, prefix_v, mask, causal))


def test_square_causal_attention_with_a_prefix_for_each_batch_element():
    q, k, v = tokens(2, 4, 2, 5, 5, 3)
    prefix_k, prefix_v = normal(2, 2, 7, 3, seed=5), normal(2, 2, 7, 3, seed=6)
    found = prefix_attention(q, k, v, prefix_k, prefix_v, causal=True)
    torch.testing.assert_close(found, by_hand(q, k, v, prefix_k, prefix_v, causal=True))


def test_softcap_caps_the_logits():
    q, k, v = tokens(2, 2, 2, 5, 6, 3)
    prefix_k, prefix_v = normal(2, 7, 3, seed=5), normal(2, 7, 3, seed=6)
    found = prefix_attention(q, k, v, prefix_k, prefix_v, softcap=0.5)
    torch.testing.assert_close(found, by_hand(q, k, v, prefix_k, prefix_v, softcap=0.5))


def test_empty_prefix_is_plain_attention():
    q, k, v = tokens(2, 2, 2, 5, 5, 3)
    none = torch.zeros(2, 0, 3, dtype=torch.float64)
    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert torch.equal(prefix_attention(q, k, v, none, none, causal=True), wanted)


def test_dropout_averages_out_to_attention_without_it():
    q, k, v = tokens(1, 1, 1, 3, 4, 3)
    prefix_k, prefix_v = normal(1, 7, 3, seed=5), normal(1, 7, 3, seed=6)
    rng = torch.Generator().manual_seed(0)
    draws = torch.stack(
        [prefix_attention(q, k, v, prefix_k, prefix_v, dropout=0.3, generator=rng) for _ in range(2000)]
    )
    wanted = prefix_attention(q, k, v, prefix_k, prefix_v)
    standard_error = draws.std(dim=0) / math.sqrt(len(draws))
    assert ((draws.mean(dim=0) - wanted) / standard_error).abs().max() < 4.5


@pytest.mark.parametrize(
    ("prefix_k", "prefix_v", "message"),
    [
        (torch.zeros(2, 7, 4), torch.zeros(2, 7, 3), "prefix_k is float32"),
        (normal(2, 7, 4), normal(2, 7, 3), "prefix_k is float64"),
        (normal(2, 7, 3), normal(3, 7, 3), "prefix_v is float64"),
        (normal(2, 7, 3), normal(2, 6, 3), "7 keys and 6 values"),
    ],
)
def test_prefixes_that_do_not_fit_are_refused(prefix_k, prefix_v, message):
    q, k, v = tokens(2, 4, 2, 5, 6, 3)
    with pytest.raises(AttangentError, match=message):
        prefix_attention(q, k, v, prefix_k, prefix_v)
