import pytest
import torch

from attangent.adapters.call import AttentionCall
from attangent.attention import PrefixState
from attangent.attention.features import Elu
from tests.attention.cases import normal, tokens


class Layer(torch.nn.Module):
    def __init__(self, causal):
        super().__init__()
        self.is_causal = causal


def sdpa(q, k, v, mask, causal, **options):
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    return sdpa_attention_forward(Layer(causal), q, k, v, mask, **options)[0].transpose(1, 2)


MASKS = {
    "none": lambda rows, columns: None,
    "bool": lambda rows, columns: torch.ones(2, 1, rows, columns, dtype=torch.bool).tril(1),
    "added": lambda rows, columns: normal(2, 1, rows, columns),
}


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize(("rows", "columns"), [(5, 5), (1, 7), (3, 7)])
@pytest.mark.parametrize("given", [{}, {"is_causal": False}, {"scaling": 0.3}])
def test_it_means_what_transformers_means(causal, kind, rows, columns, given):
    q, k, v = tokens(2, 4, 2, rows, columns, 8)
    mask = MASKS[kind](rows, columns)
    layer = Layer(causal)
    layer.num_key_value_groups = 2
    call = AttentionCall.of(layer, q, k, v, mask, given)
    wide_k, wide_v = (x.repeat_interleave(2, dim=1) for x in (k, v))
    wanted = sdpa(q, wide_k, wide_v, mask, causal, **given)
    out, lse = call.tokens()
    torch.testing.assert_close(out, wanted)
    torch.testing.assert_close(call.with_prefix(PrefixState.zero(Elu(8), 2, dtype=q.dtype)), wanted)
    torch.testing.assert_close(call.logsumexp(), lse)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_a_bias_of_positions_is_added_to_the_logits(masked, causal):
    q, k, v = tokens(1, 2, 2, 4, 4, 8)
    bias, seen = normal(1, 2, 4, 4, seed=5), torch.ones(4, 4, dtype=torch.bool).tril()
    mask = seen[None, None] if masked else None
    call = AttentionCall.of(Layer(causal), q, k, v, mask, {"position_bias": bias})
    logits = q @ k.mT * 8**-0.5 + bias
    if masked or causal:
        logits = logits.masked_fill(~seen, -torch.inf)
    torch.testing.assert_close(call.tokens()[0], logits.softmax(dim=-1) @ v)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kind", MASKS)
def test_queries_within_a_part_see_that_part_alone(causal, kind):
    q, k, v = tokens(2, 2, 2, 6, 6, 8)
    part = torch.tensor([0, 0, 0, 1, 1, 1])
    seen = (part[:, None] == part[None]).expand(2, 1, 6, 6)
    mask = MASKS[kind](6, 6)
    found = AttentionCall.of(Layer(causal), q, k, v, mask, {}).within(seen).tokens()[0]
    for own in (slice(0, 3), slice(3, 6)):
        alone = None if mask is None else mask[..., own, own]
        call = AttentionCall.of(Layer(causal), *(x[:, :, own] for x in (q, k, v)), alone, {})
        torch.testing.assert_close(found[:, :, own], call.tokens()[0])


def test_scores_are_scaled_and_capped():
    q, k, v = tokens(1, 2, 2, 3, 3, 8)
    call = AttentionCall.of(Layer(True), q, k, v, None, {"scaling": 0.7, "softcap": 2.0})
    torch.testing.assert_close(call.scores(q, k), 2 * torch.tanh(0.7 * q @ k.mT / 2))


def test_padding_is_what_no_query_may_see():
    q, k, v = tokens(2, 2, 2, 3, 3, 8)
    mask = torch.ones(2, 1, 3, 3, dtype=torch.bool)
    mask[1, :, :, 0] = False
    queries, keys = AttentionCall.of(Layer(False), q, k, v, mask, {}).real_tokens()
    assert keys.tolist() == [[True, True, True], [False, True, True]]
    assert torch.equal(queries, keys)
