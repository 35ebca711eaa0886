import math

import pytest
import torch

from attangent.adapters.call import AttentionCall
from attangent.attention import PrefixState, RaggedState, ntk_attention
from attangent.attention.backends.decode.alone import Alone
from attangent.attention.backends.decode.anchors import fold_ragged
from attangent.attention.backends.decode.fold import decode, fold
from attangent.attention.features import Anchors
from tests.attention.cases import normal, tokens

pytestmark = pytest.mark.usefixtures("merging")


def call(q, k, v, mask=None, scale=0.5):
    return AttentionCall("", q, k, v, mask, True, scale)


def ragged(sizes, dim=4):
    keys = [normal(size, dim, seed=i) for i, size in enumerate(sizes)]
    masses = [normal(size, seed=9 + i).abs() for i, size in enumerate(sizes)]
    return RaggedState.of(keys, keys, masses)


def test_anchors_without_mass_are_left_out():
    keys = normal(2, 5, 4)
    state = PrefixState.from_prefix(Anchors(keys), keys[:, :3], keys[:, :3])
    assert (state.k == 0).any()
    q, k, v = tokens(1, 4, 2, 1, 6, 4)
    with torch.no_grad():
        found = decode(call(q, k, v, scale=0.5), fold(state, 0.5, q))
        assert torch.allclose(found, ntk_attention(q, k, v, state))


@pytest.mark.parametrize("sizes", [(3, 3), (2, 40), (300, 1), (5, 700)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("length", [1, 5])
def test_heads_of_any_size_give_the_same_as_the_general_path(sizes, dtype, length):
    q, k, v = tokens(2, 4, 2, length, 5, 4, dtype=dtype)
    state = ragged(sizes).to(torch.float64 if dtype == torch.float64 else torch.float32)
    with torch.no_grad():
        found = decode(call(q, k, v), fold(state, 0.5, q))
        wanted = ntk_attention(q, k, v, state, causal=length > 1, scale=0.5)
    assert found.dtype == dtype
    tolerance = {torch.float32: 1e-5, torch.float64: 1e-9, torch.bfloat16: 2e-2}[dtype]
    assert torch.allclose(found, wanted, rtol=tolerance, atol=tolerance)


def test_the_prefix_alone_is_attention_over_its_tokens():
    state, q = ragged((2, 40)), normal(1, 4, 3, 4, seed=5)
    alone = fold_ragged(state, 1.0, 4, torch.float64)
    assert isinstance(alone, Alone)
    u, level = alone.attend(q)
    for head, (keys, values, masses) in enumerate(state.by_head()):
        rows = slice(2 * head, 2 * head + 2)
        logits = q[:, rows] @ keys.mT / math.sqrt(4) + masses.log()
        torch.testing.assert_close(u[:, rows], logits.softmax(dim=-1) @ values)
        torch.testing.assert_close(level[:, rows], logits.logsumexp(dim=-1, keepdim=True))


def test_a_head_without_mass_or_with_capped_scores_is_left_to_the_general_path():
    state = ragged((2, 40))
    with torch.no_grad():
        state.mass[:2] = 0
    assert fold_ragged(state, 1.0, 4, torch.float32) is None
    keys = [normal(3, 4), normal(5, 4)]
    capped = RaggedState.of(keys, keys, [torch.ones(3), torch.ones(5)], softcap=5.0)
    assert fold_ragged(capped, 1.0, 4, torch.float32) is None
