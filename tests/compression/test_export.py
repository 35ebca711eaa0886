"""A compressed prompt in other engines: identical tokens in all three ways, and what cannot be exported."""

import pytest
import torch

from attangent import AttangentError, detach
from attangent.compression.compressor import Compressor
from attangent.compression.entry import compress
from attangent.compression.export import Rotation
from attangent.compression.folder import compress_to_folder
from attangent.compression.request import Order
from attangent.compression.result import load_compressed
from tests.compression.cases import STORY, Letters, Stories, stories_model, tiny_llama

TEXT = "some text that is long enough to be worth compressing, and then a little more. " * 2
OPTIONS = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}


def tokens(text):
    return torch.tensor(Letters()(text)["input_ids"])[None]


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
    job = Compressor(stories_model(), Stories(), STORY)
    with_masses, plain = (job.fidelity(job.fit(32, method)).ratio for method in ("anchors", "plain"))
    selected = job.fidelity(job.fit(32, "select")).ratio
    assert plain < 0.5 * selected
    assert with_masses < 0.05


def test_an_export_with_a_goal_has_more_tokens_where_it_needs_them(tmp_path):
    order = Order(keep=1.0, size=24, distill=0)
    report = compress_to_folder(tiny_llama(layers=1), Letters(), TEXT, tmp_path / "out", order, export="peft")
    exported = report.exported
    assert report.size <= exported["size"] <= 24
    assert exported["attempts"][-1]["size"] >= exported["size"]
    assert (tmp_path / "out" / "peft" / "adapter_model.safetensors").is_file()


def test_what_cannot_be_exported_is_refused_before_any_work(tmp_path):
    from transformers import GPT2Config, GPT2LMHeadModel

    gpt2 = GPT2LMHeadModel(GPT2Config(n_embd=32, n_layer=1, n_head=4, vocab_size=128, n_positions=512)).eval()
    out, order = tmp_path / "out", Order(size=12)
    with pytest.raises(AttangentError, match="no rotary positions"):
        compress_to_folder(gpt2, Letters(), TEXT, out, order, export="peft")
    long = TEXT * 40
    with pytest.raises(AttangentError, match="in pieces cannot be exported"):
        compress_to_folder(tiny_llama(layers=1), Letters(), long, out, order, export="peft")
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
    with pytest.raises(AttangentError, match="positions cannot be moved"):
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
