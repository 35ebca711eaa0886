"""States of different sizes per head on a model: attached, saved, generated with, beside peft."""

import pytest
import torch

from attangent import PrefixState, attach, detach, load_adapter, save_adapter
from attangent.adapters import NTKConfig, activate, active_adapters, attention_layers, states_of
from attangent.adapters.slot import slot_of
from attangent.attention import RaggedState
from attangent.attention.features import Anchors
from tests.adapters.models import inputs, logits, tiny

CONFIG = NTKConfig(features="anchors", size=10, units="raw", per="kv", position_offset=5)
OPTIONS = {"max_new_tokens": 6, "do_sample": False, "eos_token_id": None}


pytestmark = pytest.mark.usefixtures("merging")


def states(model, sizes=((3, 40), (17, 1)), seed=0):
    draw = torch.Generator().manual_seed(seed)
    found = {}
    for layer, own in zip(attention_layers(model), sizes, strict=True):
        keys, values = ([torch.randn(r, layer.key_size, generator=draw) for r in own] for _ in range(2))
        found[layer.name] = RaggedState.of(keys, values, [torch.rand(r, generator=draw) for r in own])
    return found


def filled_up(ragged):
    """The same states with as many tokens for every head."""
    return {
        name: PrefixState(Anchors(state.features.keys), *state.weights()) for name, state in ragged.items()
    }


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_model_answers_as_with_states_filled_up(side):
    given, made = inputs("llama", side=side), states(tiny("llama"))
    one = attach(tiny("llama"), CONFIG, states=made)
    two = attach(tiny("llama"), CONFIG, states=filled_up(made))
    torch.testing.assert_close(logits(one, given), logits(two, given), rtol=1e-4, atol=1e-5)
    assert torch.equal(one.generate(**given, **OPTIONS), two.generate(**given, **OPTIONS))


def test_decoding_folds_them():
    model, given = attach(tiny("llama"), CONFIG, states=states(tiny("llama"))), inputs("llama", side="left")
    found = model.generate(**given, **OPTIONS)
    folded = slot_of(model.model.layers[0].self_attn).folded
    assert folded is not None
    assert folded.alone is not None
    assert torch.equal(found, model.generate(**given, **OPTIONS, use_cache=False))


def test_gradients_on_a_model_are_those_of_states_filled_up():
    given, made = inputs("llama"), states(tiny("llama"))
    one = attach(tiny("llama"), CONFIG, states=made)
    two = attach(tiny("llama"), CONFIG, states=filled_up(made))
    for model in (one, two):
        model(**given).logits.square().mean().backward()
    for name, state in states_of(one).items():
        wide = states_of(two)[name]
        for grad, padded in (
            (state.keys.grad, wide.features.keys.grad),
            (state.Z.grad, wide.Z_full.grad),
            (state.mass.grad, wide.mass.grad),
        ):
            kept = torch.cat([padded[head, :size] for head, size in enumerate(state.sizes)])
            torch.testing.assert_close(grad, kept, rtol=1e-3, atol=1e-6)


def test_folders_bring_them_back_and_hold_no_padding(tmp_path):
    given, made = inputs("llama"), states(tiny("llama"))
    model = attach(tiny("llama"), CONFIG, states=made)
    save_adapter(model, tmp_path)
    again = load_adapter(tiny("llama"), tmp_path)
    assert [state.sizes for state in states_of(again).values()] == [(3, 40), (17, 1)]
    assert torch.equal(logits(again, given), logits(model, given))
    numbers = 4 * (43 + 18) * (8 + 8 + 1)
    assert (tmp_path / "adapter_model.safetensors").stat().st_size < numbers + 2000


def test_peft_loads_what_we_save(tmp_path):
    from peft import PeftModel

    from attangent.adapters.peft import register

    register()
    given = inputs("llama")
    model = attach(tiny("llama"), CONFIG, states=states(tiny("llama")))
    save_adapter(model, tmp_path)
    loaded = PeftModel.from_pretrained(tiny("llama"), tmp_path)
    torch.testing.assert_close(logits(loaded, given), logits(model, given))


def test_they_stand_beside_other_adapters_and_come_off():
    model, given = tiny("llama"), inputs("llama")
    bare = logits(model, given)
    attach(model, CONFIG, states=states(model))
    alone = logits(model, given)
    attach(model, NTKConfig(share=0), "other")
    activate(model, "default", "other")
    assert active_adapters(model) == ("default", "other")
    torch.testing.assert_close(logits(model, given), alone, rtol=1e-4, atol=1e-5)
    detach(model)
    assert torch.equal(logits(model, given), bare)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_precisions(dtype):
    given = inputs("llama", side="left")
    model = attach(tiny("llama").to(dtype), CONFIG, states=states(tiny("llama")))
    exact = attach(tiny("llama").double(), CONFIG, states=states(tiny("llama")))
    gap = (logits(model, given).double() - logits(exact, given)).abs()[given["attention_mask"].bool()].max()
    assert gap < (0.1 if dtype == torch.bfloat16 else 1e-9)
