"""Scores of tokens against the model's own attention and against autograd."""

from dataclasses import replace

import torch
from hypothesis import given
from hypothesis import strategies as st

from attangent.attention.backends.torch.portable import merged
from attangent.compression.attribution import (
    best_of_each_head,
    best_tokens,
    layer_effects,
    lesson_rows,
    margins,
    scored_width,
    token_scores,
)
from attangent.compression.capture import Room, intercepted, prefill
from attangent.compression.text import Turn
from tests.compression.cases import tiny_llama

PROMPT = torch.arange(30) % 61
TURNS = [Turn(torch.arange(3), torch.arange(7, 13)), Turn(torch.arange(5, 9), torch.arange(20, 36))]


def test_attention_is_the_largest_that_the_model_itself_pays():
    model = tiny_llama(layers=2)
    model.set_attn_implementation("eager")
    slow = []
    for turn in TURNS:
        with torch.no_grad():
            out = model(torch.cat([PROMPT, turn.ids])[None], output_attentions=True)
        seen = torch.stack([a[0, :, 30:, :30] for a in out.attentions])  # (layers, H, L, m)
        slow.append(seen.amax(dim=2).unflatten(1, (2, 2)).amax(dim=2))
    found = token_scores(model, prefill(model, PROMPT), lesson_rows(TURNS)).attention
    expected = torch.stack(slow).amax(dim=0)
    torch.testing.assert_close(torch.stack(list(found.values())), expected, atol=1e-5, rtol=1e-3)


def test_effects_are_the_gradient_of_the_margins_in_the_log_masses_of_the_tokens():
    model = tiny_llama(layers=2)
    cache = prefill(model, PROMPT)
    row = lesson_rows(TURNS[:1])[0]
    biases = {}

    def handle(call):
        keys, values = cache.layers[call.layer]
        bias = biases[call.layer] = torch.zeros(4, len(TURNS[0].ids), 30, requires_grad=True)
        logits = call.scores(call.q, keys.repeat_interleave(2, dim=0)) + bias
        out = logits.softmax(dim=-1) @ values.repeat_interleave(2, dim=0)
        return merged(call.tokens(), (out, logits.logsumexp(dim=-1)))[0]

    positions = 30 + torch.arange(len(TURNS[0].ids))[None]
    with intercepted(model, handle):
        logits = model(row.text.ids, position_ids=positions, use_cache=False).logits
    log_p = logits[0, 2:-1].log_softmax(dim=-1).gather(1, TURNS[0].answer.unsqueeze(1))
    expected = torch.autograd.grad(margins(log_p).sum(), list(biases.values()))
    heard, _ = layer_effects(model, cache, row)
    for one, slow in zip(heard.values(), expected, strict=True):
        by_kv_head = slow.abs().unflatten(0, (2, 2))
        torch.testing.assert_close(one.effects[:, 0], by_kv_head.amax(dim=1), atol=1e-5, rtol=1e-3)
        torch.testing.assert_close(one.sums[0], by_kv_head.sum(dim=(0, 1, 3)), atol=1e-5, rtol=1e-3)
        assert slow.abs().max() > 1e-3


def test_margins_are_log_odds_up_to_the_largest():
    p = torch.tensor([0.001, 0.5, 0.9])
    torch.testing.assert_close(margins(p.log()), (p / (1 - p)).log())
    assert margins(torch.tensor([-1e-12])).tolist() == [8.0]


def test_rows_are_narrower_after_longer_prompts():
    model = tiny_llama(layers=2)
    assert scored_width(prefill(model, PROMPT)) == 96
    with_long = prefill(model, PROMPT)
    keys = torch.zeros(2, 60_000, 8)
    with_long = replace(with_long, layers={"a": (keys, keys)})
    assert scored_width(with_long) == (9 << 20) // 120_000


def test_room_that_is_used_again_gives_the_same_scores():
    model, room = tiny_llama(layers=2), Room()
    cache = prefill(model, PROMPT)
    row = lesson_rows(TURNS)[0]
    heard = [layer_effects(model, cache, row, some)[0] for some in (None, room, room)]
    for name, alone in heard[0].items():
        assert torch.equal(heard[1][name].effects, alone.effects)
        assert heard[1][name].effects.data_ptr() == heard[2][name].effects.data_ptr()


def test_the_model_is_left_without_gradients_and_answers_as_before():
    model = tiny_llama(layers=2)
    cache = prefill(model, PROMPT)
    before = model(PROMPT[None]).logits
    scores = token_scores(model, cache, lesson_rows(TURNS)).together()
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(model(PROMPT[None]).logits, before)
    assert all((layer >= 0).all() and layer.shape == (2, 30) for layer in scores.values())


def test_largest_effects_are_those_of_all_effects():
    model = tiny_llama(layers=2)
    row = lesson_rows(TURNS)[0]
    heard, _ = layer_effects(model, prefill(model, PROMPT), row)
    parts = torch.rand(row.text.ids.shape, generator=torch.Generator().manual_seed(0))
    for one in heard.values():
        slow = (one.effects * parts[..., None]).flatten(1, 2).amax(dim=1)
        torch.testing.assert_close(one.largest_effects(parts), slow)
        assert slow.max() > 1e-3


@given(seed=st.integers(0, 50), size=st.integers(5, 30))
def test_the_total_is_kept_and_the_first_tokens_always(seed, size):
    draw = torch.Generator().manual_seed(seed)
    scores = {name: torch.rand(2, 20, generator=draw) for name in "abc"}
    kept = best_tokens(scores, size)
    heads = [places for layer in kept.values() for places in layer]
    assert sum(map(len, heads)) == min(size, 20) * 6
    worst = min(scores[n][h, p].item() for n in kept for h, row in enumerate(kept[n]) for p in row[4:])
    for name, layer in kept.items():
        for head, places in enumerate(layer):
            assert places[:4].tolist() == [0, 1, 2, 3]
            assert places.tolist() == sorted(set(places.tolist()))
            left = torch.ones(20, dtype=torch.bool)
            left[places] = False
            assert (scores[name][head][left] <= worst).all()


@given(seed=st.integers(0, 50), size=st.integers(5, 12))
def test_heads_may_have_different_numbers_of_tokens(seed, size):
    draw = torch.Generator().manual_seed(seed)
    scores = {"a": [torch.rand(length, generator=draw) for length in (5, 30)], "b": [torch.rand(9)]}
    kept = best_tokens(scores, size)
    assert [len(layer) for layer in kept.values()] == [2, 1]
    assert sum(len(places) for layer in kept.values() for places in layer) == size * 3
    for name, layer in kept.items():
        for own, places in zip(scores[name], layer, strict=True):
            assert places.max() < len(own)
            assert places[:4].tolist() == [0, 1, 2, 3]


def test_each_head_by_itself_keeps_its_own_best_and_the_first_tokens():
    scores = {
        "a": torch.tensor([[0.0, 0, 0, 0, 5, 1, 7, 2], [0, 0, 0, 0, 1, 2, 3, 4.0]]),
        "b": [torch.rand(5)],
    }
    kept = best_of_each_head(scores, 6)
    assert [places.tolist() for places in kept["a"]] == [[0, 1, 2, 3, 4, 6], [0, 1, 2, 3, 6, 7]]
    assert [places.tolist() for places in kept["b"]] == [[0, 1, 2, 3, 4]]
