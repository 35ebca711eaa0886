"""A compressed prompt: attached, saved, loaded, composed, and in other engines."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import attangent
from attangent import AttangentError, detach
from attangent.compression.entry import compress, compress_to_folder
from attangent.compression.request import CompressionRequest
from attangent.compression.result import NOTES, Rotation, composed, load_compressed
from tests.compression.cases import (
    STORY,
    ChatLetters,
    Letters,
    Stories,
    run_of,
    selected,
    stories_model,
    tiny_llama,
)

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
    from attangent.compression.capture import run
    from attangent.compression.prompt_cache import with_states

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
    with pytest.raises(AttangentError, match="pass a folder that"):
        load_compressed(model, Letters(), tmp_path / "nowhere")
    for broken in ("nonsense", "{}", json.dumps({"tokenizer": 3, "roles": []})):
        (tmp_path / NOTES).write_text(broken)
        with pytest.raises(AttangentError, match="was not written by"):
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
    with pytest.raises(AttangentError, match="of the same model"):
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


OPTIONS = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}


def greedy(model, ids, **more):
    mask = torch.ones_like(ids)
    return model.generate(input_ids=ids, attention_mask=mask, **OPTIONS, **more)[0, ids.shape[1] :].tolist()


@pytest.mark.parametrize(("size", "steps"), [(12, 0), (12, 3), (400, 0)])
def test_attached_cached_and_with_peft_the_same_tokens_are_written(size, steps, tmp_path):
    from peft import PeftModel

    model, ids = tiny_llama(layers=2), tokens("what is it?")
    found = compress(model, Letters(), TEXT, size=size, method="plain", distill=steps)
    cached = greedy(model, found.behind(ids), past_key_values=found.cache())
    found.export_peft(model, tmp_path / "peft")
    found.attach(model)
    attached = greedy(model, ids)
    detach(model)
    loaded = PeftModel.from_pretrained(model, str(tmp_path / "peft")).eval()
    assert attached == cached == greedy(loaded, ids)


def test_the_logits_of_the_cache_are_those_of_the_attached_prompt():
    model, ids = tiny_llama(layers=2), tokens("what is it?")
    found = compress(model, Letters(), TEXT, size=12, method="plain")
    with torch.no_grad():
        cached = model(ids, past_key_values=found.cache(), use_cache=True).logits
        found.attach(model)
        torch.testing.assert_close(cached, model(ids).logits, atol=1e-3, rtol=1e-3)


def test_tokens_without_masses_keep_most_of_what_masses_keep():
    job = run_of(stories_model(), Stories(), STORY)
    with_masses, plain = (job.fidelity(job.fit(32, method)).ratio for method in ("recall", "plain"))
    unchanged = job.fidelity(selected(job, 32)).ratio
    assert plain < 0.05
    assert with_masses < 0.5 * plain
    assert plain < unchanged


def test_an_export_with_a_goal_has_more_tokens_where_it_needs_them(tmp_path):
    request = CompressionRequest(TEXT, keep=1.0, size=24, distill=0, export="peft")
    report = compress_to_folder(tiny_llama(layers=1), Letters(), request, tmp_path / "out")
    exported = report.exported
    assert report.size <= exported["size"] <= 24
    assert exported["attempts"][-1]["size"] >= exported["size"]
    assert (tmp_path / "out" / "peft" / "adapter_model.safetensors").is_file()


def test_what_cannot_be_exported_is_refused_before_any_work(tmp_path):
    from transformers import GPT2Config, GPT2LMHeadModel

    gpt2 = GPT2LMHeadModel(GPT2Config(n_embd=32, n_layer=1, n_head=4, vocab_size=128, n_positions=512)).eval()
    out, request = tmp_path / "out", CompressionRequest(TEXT, size=12, export="peft")
    with pytest.raises(AttangentError, match="no rotary positions"):
        compress_to_folder(gpt2, Letters(), request, out)
    with pytest.raises(AttangentError, match="cannot be exported"):
        compress_to_folder(tiny_llama(layers=1), Letters(), replace(request, prompt=TEXT * 40), out)
    assert not out.exists()


def test_sizes_by_head_and_masses_do_not_fit_into_a_cache():
    found = compress(tiny_llama(layers=2), Letters(), TEXT, size=12)
    with pytest.raises(AttangentError, match="method='plain'"):
        found.cache()


def test_models_without_rotary_positions_are_refused_with_the_reason(tmp_path):
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    gpt2 = GPT2LMHeadModel(GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=128, n_positions=512)).eval()
    with pytest.raises(AttangentError, match="no rotary positions"):
        Rotation.of(gpt2)
    found = compress(gpt2, Letters(), TEXT, size=12, method="plain")
    with pytest.raises(AttangentError, match="cannot be moved"):
        found.export_peft(gpt2, tmp_path)


def test_keys_move_as_the_model_moves_them():
    model = tiny_llama(layers=1)
    rotation, keys = Rotation.of(model), []
    for position in (3, 40):
        with torch.no_grad():
            out = model(torch.tensor([[5]]), position_ids=torch.tensor([[position]]), use_cache=True)
        keys.append(out.past_key_values.layers[0].keys)
    torch.testing.assert_close(rotation.moved(keys[1], -37), keys[0], atol=1e-4, rtol=1e-4)


def test_a_prompt_in_another_layout_is_refused_with_the_reason(tmp_path):
    model = tiny_llama(layers=2)
    compress(model, Letters(), TEXT, size=12, method="plain").export_peft(model, tmp_path)
    with pytest.raises(AttangentError, match="CARTRIDGE adapter of peft"):
        load_compressed(model, Letters(), tmp_path)
