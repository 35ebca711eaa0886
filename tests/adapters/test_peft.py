"""The plug-in against the installed peft."""

import copy

import peft
import pytest
import torch

from attangent import AttangentError
from attangent.adapters import NTKConfig, attach, calibrate, detach, load_adapter, save_adapter, states_of
from attangent.adapters.peft import NTKPeftConfig, register
from tests.adapters.models import inputs, tiny

register()


def disturb(model, *names, seed=1):
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name in names or ("default",):
            for state in states_of(model, name).values():
                for parameter in state.parameters():
                    parameter.add_(0.3 * torch.randn(parameter.shape, generator=draw))
    return model


def logits(model, given):
    with torch.no_grad():
        return model(**given).logits


@pytest.fixture
def given():
    return inputs("llama")


@pytest.fixture
def model(given):
    wrapped = peft.get_peft_model(tiny("llama"), NTKPeftConfig(ntk=NTKConfig(features="anchors", size=4)))
    calibrate(wrapped, given)
    return disturb(wrapped).eval()


def test_it_does_what_attach_does(model, given):
    plain = attach(tiny("llama"), NTKConfig(features="anchors", size=4), calibration=given)
    disturb(plain)
    assert torch.equal(logits(model, given), logits(plain, given))


def test_trainable_parameters_are_counted(model, capsys):
    model.print_trainable_parameters()
    counted, _ = model.get_nb_trainable_parameters()
    assert counted == sum(p.numel() for s in states_of(model).values() for p in s.parameters())
    assert f"trainable params: {counted:,}" in capsys.readouterr().out


def test_saved_by_peft_loaded_by_peft_and_by_us(model, given, tmp_path):
    before = logits(model, given)
    model.save_pretrained(tmp_path)
    again = peft.PeftModel.from_pretrained(tiny("llama"), tmp_path)
    assert torch.equal(logits(again, given), before)
    assert torch.equal(logits(load_adapter(tiny("llama"), tmp_path), given), before)


def test_saved_by_us_loaded_by_peft(given, tmp_path):
    ours = disturb(attach(tiny("llama"), NTKConfig(), calibration=given))
    save_adapter(ours, tmp_path)
    theirs = peft.PeftModel.from_pretrained(tiny("llama"), tmp_path)
    assert torch.equal(logits(theirs, given), logits(ours, given))


def test_given_states_of_any_size_pass_through_peft(given, tmp_path):
    small = attach(tiny("llama"), NTKConfig(features="anchors", size=3), calibration=given)
    states = states_of(disturb(small))
    first = dict(list(states.items())[:1])
    ours = attach(tiny("llama"), NTKConfig(), states=copy.deepcopy(first))
    save_adapter(ours, tmp_path)
    theirs = peft.PeftModel.from_pretrained(tiny("llama"), tmp_path)
    assert torch.equal(logits(theirs, given), logits(ours, given))


def test_add_set_delete(model, given):
    one = logits(model, given)
    model.add_adapter("other", NTKPeftConfig(ntk=NTKConfig(features="elu")))
    assert torch.equal(logits(model, given), one)
    disturb(model, "other")
    model.set_adapter("other")
    two = logits(model, given)
    assert not torch.allclose(one, two)
    trained = {n for n, p in model.named_parameters() if p.requires_grad}
    assert all(".other." in n for n in trained)
    model.set_adapter("default")
    assert torch.equal(logits(model, given), one)
    model.delete_adapter("other")
    assert torch.equal(logits(model, given), one)
    assert not any("other" in n for n in model.state_dict())


def test_disabled_it_is_the_base_model(model, given):
    bare = logits(tiny("llama"), given)
    with model.disable_adapter():
        assert torch.equal(logits(model, given), bare)
    assert not torch.equal(logits(model, given), bare)
    assert torch.equal(logits(model.unload(), given), bare)


def test_merging_is_refused_with_the_reason(model):
    with pytest.raises(AttangentError, match="cannot be merged"):
        model.merge_and_unload()


def test_it_generates(model, given):
    out = model.generate(**inputs("llama", side="left"), max_new_tokens=3, do_sample=False, eos_token_id=None)
    assert out.shape == (3, 12)


def test_a_classifier_is_trained_and_saved(tmp_path):
    config = NTKPeftConfig(ntk=NTKConfig(), task_type="SEQ_CLS")
    config.modules_to_save = ["classifier"]
    model = peft.get_peft_model(tiny("bert"), config).eval()
    given = inputs("bert")
    calibrate(model, given)
    with torch.no_grad():
        for p in model.parameters():
            if p.requires_grad:
                p.add_(0.1)
    assert any("classifier" in n for n, p in model.named_parameters() if p.requires_grad)
    before = logits(model, given)
    model.save_pretrained(tmp_path)
    assert torch.equal(logits(peft.PeftModel.from_pretrained(tiny("bert"), tmp_path), given), before)
    assert torch.equal(logits(load_adapter(tiny("bert"), tmp_path), given), before)


def test_beside_lora(given, tmp_path):
    bare = tiny("llama")
    lora = peft.get_peft_model(bare, peft.LoraConfig(target_modules=["q_proj", "v_proj"])).eval()
    with torch.no_grad():
        for n, p in lora.named_parameters():
            if "lora_B" in n:
                p.normal_(generator=torch.Generator().manual_seed(3))
    alone = logits(lora, given)
    disturb(attach(lora, NTKConfig(), calibration=given))
    both = logits(lora, given)
    assert not torch.allclose(alone, both)
    lora(**given).logits.square().mean().backward()
    found = {n for n, p in lora.named_parameters() if p.grad is not None}
    assert any("lora_A" in n for n in found)
    assert any("attangent_prefix" in n for n in found)
    assert all("lora_" in n or "attangent_prefix" in n for n in found)
    save_adapter(lora, tmp_path / "prefix")
    lora.save_pretrained(tmp_path / "lora")
    again = peft.PeftModel.from_pretrained(tiny("llama"), tmp_path / "lora")
    load_adapter(again, tmp_path / "prefix")
    assert torch.equal(logits(again, given), both)
    assert torch.equal(logits(detach(lora), given), alone)


def test_a_config_that_cannot_be_is_refused():
    with pytest.raises(AttangentError, match="unknown settings"):
        NTKPeftConfig(ntk={"colour": 3})
    with pytest.raises(AttangentError, match="needs a prompt"):
        NTKPeftConfig(ntk=NTKConfig(features="elu", init="text"))


def test_states_for_layers_the_model_does_not_have_are_refused(model, tmp_path):
    model.save_pretrained(tmp_path)
    text = (tmp_path / "adapter_config.json").read_text().replace("layers.1.self_attn", "layers.7.self_attn")
    (tmp_path / "adapter_config.json").write_text(text)
    with pytest.raises(AttangentError, match="layers that the model does not have"):
        peft.PeftModel.from_pretrained(tiny("llama"), tmp_path)
