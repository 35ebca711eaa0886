"""A model behind a prompt kept apart answers as it does with the prompt in its input."""

import pytest
import torch

from attangent.adapters.call import AttentionCall
from attangent.attention import PrefixState
from attangent.attention.features import Anchors
from attangent.compression.capture import _drawn, intercepted, prefill, run, sample
from attangent.compression.prompt_cache import prompt_part, whole_prompt, with_states
from tests.compression.cases import decoders, tiny_llama

PROMPT = torch.arange(40) % 61
NONE = torch.zeros(0, dtype=torch.long)


def draw(rows, columns, seed=0):
    return torch.randint(0, 61, (rows, columns), generator=torch.Generator().manual_seed(seed))


@pytest.fixture(params=["llama", "gpt2", "qwen3", "gemma2"])
def model(request):
    torch.manual_seed(0)
    return decoders()[request.param]().eval()


def behind(model, prompt, text):
    """The logits of `text` with the prompt in the input."""
    ids = torch.cat([prompt.expand(len(text), -1), text], dim=1)
    with torch.no_grad():
        return model(ids).logits[:, prompt.shape[-1] :]


def test_the_whole_prompt_kept_apart_is_the_prompt_in_the_input(model):
    prompt, text = draw(1, 40)[0], draw(3, 12, seed=1)
    cache = prefill(model, prompt)
    assert cache.length == 40
    with torch.no_grad():
        found = run(model, text, 40, whole_prompt(cache)).logits
    torch.testing.assert_close(found, behind(model, prompt, text), atol=2e-4, rtol=1e-4)


def test_states_of_all_tokens_are_the_prompt_in_the_input(model):
    prompt, text = draw(1, 30)[0], draw(2, 9, seed=1)
    softcap = getattr(model.config, "attn_logit_softcapping", None)
    states = {
        name: PrefixState(Anchors(keys, softcap), values, torch.ones_like(keys[..., 0]))
        for name, (keys, values) in prefill(model, prompt).layers.items()
    }
    with torch.no_grad():
        found = run(model, text, 30, with_states(states)).logits
    torch.testing.assert_close(found, behind(model, prompt, text), atol=2e-4, rtol=1e-4)


def test_a_prompt_read_in_chunks_has_the_same_keys(monkeypatch):
    model, prompt = tiny_llama(), draw(1, 50)[0]
    whole = prefill(model, prompt)
    monkeypatch.setattr("attangent.compression.capture._PREFILL", 7)
    seen = []
    chunked = prefill(model, prompt, seen.append)
    assert sum(seen) == 50
    assert len(seen) == 8
    for name, pair in whole.layers.items():
        torch.testing.assert_close(chunked.layers[name], pair, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(chunked.logits, whole.logits, atol=1e-3, rtol=1e-4)


def test_few_logits_at_once_give_the_same(monkeypatch):
    model, prompt, text = tiny_llama(), draw(1, 33)[0], draw(2, 8, seed=1)
    cache = prefill(model, prompt)
    with torch.no_grad():
        whole = run(model, text, 33, whole_prompt(cache)).logits
        monkeypatch.setattr("attangent.compression.prompt_cache._LOGITS", 100)
        assert torch.allclose(run(model, text, 33, whole_prompt(cache)).logits, whole, atol=1e-4)


def test_the_model_is_as_it_was_afterwards_even_after_an_error():
    model, text = tiny_llama(), draw(1, 6)
    before = model(text).logits

    def broken(call):
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"), intercepted(model, broken):
        model(text)
    assert torch.equal(model(text).logits, before)
    assert not any("attangent" in name for module in model.modules() for name in vars(module))


def test_samples_are_those_of_the_model_with_the_prompt_in_its_input():
    """Drawn with almost no temperature, samples are the model's own likeliest tokens."""
    model = tiny_llama()
    opening, few = torch.tensor([5, 6]), {"length": 12, "temperature": 1e-4}
    found = sample(model, prefill(model, PROMPT), opening, {"a": 1, "b": 1}, 0, **few)
    ids = torch.cat([PROMPT, torch.tensor([5, 6])])[None]
    with torch.no_grad():
        for _ in range(10):
            ids = torch.cat([ids, model(ids).logits[:, -1:].argmax(dim=-1)], dim=1)
    assert found["a"].tolist() == found["b"].tolist() == ids[:, 40:].tolist()


def test_the_first_drawn_token_follows_the_prompt_where_there_is_no_opening():
    model = tiny_llama()
    found = sample(model, prefill(model, PROMPT), NONE, {"a": 1}, 0, length=3, temperature=1e-4)
    assert found["a"][0, 0] == model(PROMPT[None]).logits[0, -1].argmax()


def test_seeds_and_streams_draw_different_texts():
    model = tiny_llama()
    cache = prefill(model, PROMPT)

    def draw(seed, *streams):
        found = sample(model, cache, NONE, dict.fromkeys(streams, 2), seed, length=16)
        return {stream: texts.tolist() for stream, texts in found.items()}

    assert draw(0, "a") == draw(0, "a")
    assert draw(0, "a") != draw(1, "a")
    assert draw(0, "a")["a"] != draw(0, "b")["b"]
    assert draw(0, "a", "b") == draw(0, "a") | draw(0, "b")


def test_tokens_are_drawn_as_often_as_their_chances_say():
    chances = torch.tensor([0.5, 0.0, 0.3, 0.2])
    found = _drawn(chances.log().expand(20_000, 4), torch.Generator().manual_seed(0))
    often = torch.bincount(found[:, 0], minlength=4) / 20_000
    torch.testing.assert_close(often, chances, atol=0.02, rtol=0)
    assert often[1] == 0


def test_fused_attention_to_the_prompt_is_that_of_the_slow_path():
    draw = torch.Generator().manual_seed(3)
    keys, values = torch.randn(2, 2, 7, 8, generator=draw).unbind()
    q = torch.randn(3, 4, 5, 8, generator=draw)
    call = AttentionCall("", q, q, q, None, True, 0.3)
    fused = prompt_part(call, keys, values)
    slow = prompt_part(call._replace(q=q.clone().requires_grad_()), keys, values)
    for one, other in zip(fused, slow, strict=True):
        assert other.requires_grad
        torch.testing.assert_close(one, other.detach(), atol=1e-5, rtol=1e-5)
