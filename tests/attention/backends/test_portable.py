import math

import pytest
import torch
import torch.nn.functional as F

from attangent.attention import merge_prefix, ntk_attention
from attangent.attention.backends.portable import attend_in_chunks, token_part
from attangent.attention.masks import Mask
from tests.attention.cases import make_state, normal, tokens


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
    monkeypatch.setattr("attangent.attention.backends.portable._LOGITS", most)
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
