"""A compressed prompt on a model: attached, saved, loaded, composed."""

import json
from pathlib import Path

import pytest
import torch

import attangent
from attangent import AttangentError
from attangent.compression.entry import compress
from attangent.compression.result import NOTES, composed, load_compressed
from tests.compression.cases import ChatLetters, Letters, tiny_llama

TEXT = "some text that is long enough to be worth compressing, and then a little more. " * 2


CHAT = [{"role": "system", "content": TEXT}]


def tokens(text):
    return torch.tensor(Letters()(text)["input_ids"])[None]


@pytest.fixture
def model():
    return tiny_llama()


def test_cached_generation_behind_the_state_is_uncached_generation(model):
    compress(model, Letters(), TEXT, size=16).attach(model)
    ids = tokens("what is it?")
    options = {
        "max_new_tokens": 8,
        "do_sample": False,
        "pad_token_id": 0,
        "attention_mask": torch.ones_like(ids),
    }
    with_cache = model.generate(ids, **options)
    without = model.generate(ids, use_cache=False, **options)
    assert with_cache.tolist() == without.tolist()


def test_the_attached_model_answers_as_the_one_that_was_measured(model):
    from attangent.compression.capture import run, with_states

    found = compress(model, Letters(), TEXT, size=16)
    with torch.no_grad():
        measured = run(model, tokens("what is it?"), len(TEXT), with_states(found.states)).logits
        found.attach(model)
        torch.testing.assert_close(model(tokens("what is it?")).logits, measured, atol=1e-5, rtol=1e-5)


def test_save_and_load_give_the_same_answers_and_leave_the_model_bare(model, tmp_path):
    found = compress(model, ChatLetters(), CHAT, size=16)
    before = model(tokens("hello")).logits
    found.save(model, tmp_path / "adapter")
    assert torch.equal(model(tokens("hello")).logits, before)
    found.attach(model)
    expected = model(tokens("hello")).logits
    other = tiny_llama()
    reader = load_compressed(other, ChatLetters(), tmp_path / "adapter")
    assert reader.roles == ("system",)
    assert torch.equal(other(tokens("hello")).logits, expected)
    plain = tiny_llama()
    attangent.load_adapter(plain, tmp_path / "adapter")
    assert torch.equal(plain(tokens("hello")).logits, expected)
    with pytest.raises(AttangentError, match="has adapters attached"):
        found.save(model, tmp_path / "again")


def test_the_folder_is_small_and_does_not_grow_with_the_prompt(model, tmp_path):
    sizes = []
    for repeats in (1, 3):
        found = compress(model, Letters(), TEXT * repeats, size=16)
        found.save(model, tmp_path / str(repeats))
        sizes.append((tmp_path / str(repeats) / "adapter_model.safetensors").stat().st_size)
    assert sizes[1] < 1.2 * sizes[0]
    assert sizes[1] < 1.2 * found.number_of_bytes + 4096


def test_wrong_tokenizers_models_and_folders_are_refused(model, tmp_path):
    compress(model, Letters(), TEXT, size=8).save(model, tmp_path)
    with pytest.raises(AttangentError, match="another tokenizer"):
        load_compressed(model, Letters(100), tmp_path)
    with pytest.raises(AttangentError, match="layer"):
        load_compressed(tiny_llama(kv_heads=4, layers=2), Letters(), tmp_path)
    with pytest.raises(AttangentError, match="expected a folder that"):
        load_compressed(model, Letters(), tmp_path / "nowhere")
    for broken in ("nonsense", "{}", json.dumps({"tokenizer": 3, "roles": []})):
        (tmp_path / NOTES).write_text(broken)
        with pytest.raises(AttangentError, match="is not what"):
            load_compressed(model, Letters(), tmp_path)


def test_prompts_compose_to_both_side_by_side(model):
    """Exact states of two prompts are the tokens of both, each from position 0 on, for any question."""
    one, other = (compress(model, Letters(), text, size=99) for text in ("first text", "another one!"))
    both = composed([one, other])
    assert both.position_offset == 12
    assert both.size == 22
    listed = compress(model, Letters(), ["first text", "another one!"], size=99)
    for name, state in both.states.items():
        assert torch.equal(listed.states[name].Z, state.Z)
        assert torch.equal(state.Z, torch.cat([one.states[name].Z, other.states[name].Z], dim=1))
    both.attach(model)
    assert torch.isfinite(model(tokens("question")).logits).all()


def test_prompts_of_different_models_do_not_compose(model):
    one = compress(model, Letters(), "first text", size=99)
    other = compress(tiny_llama(layers=2), Letters(), "first text", size=99)
    with pytest.raises(AttangentError, match="different models"):
        one.add(other)


def test_a_folder_written_by_an_earlier_version_loads_and_answers_the_same():
    fixtures = Path(__file__).parents[1] / "fixtures" / "compression"
    expected = json.loads((fixtures / "expected.json").read_text())
    model = tiny_llama(layers=1)
    reader = load_compressed(model, ChatLetters(), fixtures / "guide")
    assert reader.roles == ("system",)
    found = model(tokens(expected["text"])).logits[0, -1].topk(5)
    assert found.indices.tolist() == expected["likeliest"]
    torch.testing.assert_close(found.values, torch.tensor(expected["logits"]), atol=1e-3, rtol=0)
