import json

import pytest
import torch

import attangent
from attangent import AttangentError, PrefixState
from attangent.adapters import NTKConfig, attach, load_adapter, save_adapter, states_of
from attangent.adapters.files.format import CONFIG, WEIGHTS
from attangent.adapters.files.save import may_write_card, model_card, write_adapter
from attangent.attention.features import Anchors
from tests.adapters.files.cases import LAYER, tensors
from tests.adapters.models import inputs, logits, tiny


def test_the_folder_looks_like_an_adapter(saved):
    described = json.loads((saved / CONFIG).read_text())
    assert described["peft_type"] == "ATTANGENT_NTK"
    assert described["base_model_class"] == "BertForSequenceClassification"
    assert set(described["versions"]) == {"attangent", "torch", "transformers"}
    assert list(described["states"]) == [LAYER]
    card = (saved / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: attangent")
    assert "attangent.load_adapter(model" in card
    assert sorted(path.name for path in saved.iterdir()) == sorted([CONFIG, WEIGHTS, "README.md"])
    assert "base_model.model.classifier.weight" in tensors(saved)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_the_dtype_is_kept(dtype, tmp_path):
    model = attach(tiny("bert"), calibration=inputs("bert")).to(dtype)
    save_adapter(model, tmp_path)
    assert {tensor.dtype for tensor in tensors(tmp_path).values()} == {dtype}
    again = load_adapter(tiny("bert").to(dtype), tmp_path)
    assert {p.dtype for state in states_of(again).values() for p in state.parameters()} == {dtype}


def test_an_adapter_under_another_name(saved):
    model = attach(tiny("bert"))
    load_adapter(model, saved, "other")
    assert attangent.adapters.active_adapters(model) == ("other",)
    save_adapter(model, saved.parent / "again", "other")
    one, two = tensors(saved), tensors(saved.parent / "again")
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_masses_below_zero_are_kept(tmp_path):
    model = attach(tiny("bert"), NTKConfig(features="elu"))
    with torch.no_grad():
        for state in states_of(model).values():
            state.mass.copy_(torch.randn_like(state.mass))
    save_adapter(model, tmp_path)
    again = states_of(load_adapter(tiny("bert"), tmp_path))
    assert all(torch.equal(again[layer].mass, state.mass) for layer, state in states_of(model).items())


def test_a_failed_write_leaves_the_old_file(saved, folder, monkeypatch):
    import safetensors.torch

    old = (folder / WEIGHTS).read_bytes()

    def full(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    with pytest.raises(AttangentError, match="disk full"):
        save_adapter(attach(tiny("bert")), folder)
    assert (folder / WEIGHTS).read_bytes() == old
    assert sorted(path.name for path in folder.iterdir()) == sorted([CONFIG, WEIGHTS, "README.md"])


def test_a_readme_of_somebody_else_stays(folder):
    (folder / "README.md").write_text("# What I trained\n")
    save_adapter(attach(tiny("bert")), folder)
    assert (folder / "README.md").read_text() == "# What I trained\n"
    (folder / "README.md").unlink()
    save_adapter(attach(tiny("bert")), folder)
    first = (folder / "README.md").read_text()
    save_adapter(attach(tiny("bert"), NTKConfig(size=3)), folder)
    assert (folder / "README.md").read_text() not in ("# What I trained\n", first)


def test_states_are_written_without_being_attached(tmp_path):
    model, given = tiny("llama"), inputs("llama")
    keys = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(0))
    states = {"model.layers.1.self_attn": PrefixState.from_prefix(Anchors(keys), keys, keys)}
    config = NTKConfig(features="anchors", size=6, units="raw", per="kv")
    before = list(model.state_dict())
    write_adapter(tmp_path / "written", model, config, states)
    assert list(model.state_dict()) == before
    assert all(parameter.requires_grad for parameter in model.parameters())
    save_adapter(attach(model, config, states=states), tmp_path / "saved")
    one, two = tensors(tmp_path / "written"), tensors(tmp_path / "saved")
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert torch.equal(logits(load_adapter(tiny("llama"), tmp_path / "written"), given), logits(model, given))


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(AttangentError, match="cannot create the folder"):
        save_adapter(attach(tiny("bert")), tmp_path / "file" / "adapter")


def test_the_card_says_what_the_adapter_is():
    card = model_card("someone/model", "LlamaForCausalLM", NTKConfig(), 7, 12345)
    for part in ("base_model: someone/model", "12,345 numbers in 7 attention layers", "features `learned`"):
        assert part in card


def test_our_own_card_is_known_again(tmp_path):
    path = tmp_path / "README.md"
    assert may_write_card(path)
    path.write_text(model_card("", "GPT2LMHeadModel", NTKConfig(), 1, 1))
    assert may_write_card(path)


@pytest.mark.parametrize("text", ["", "# My adapter\n", "---\nlibrary_name: peft\n"])
def test_other_cards_are_not_ours(text, tmp_path):
    (tmp_path / "README.md").write_text(text)
    assert not may_write_card(tmp_path / "README.md")


def test_a_link_is_not_ours(tmp_path):
    (tmp_path / "README.md").symlink_to(tmp_path / "elsewhere")
    assert not may_write_card(tmp_path / "README.md")


def test_an_adapter_is_not_saved_into_the_folder_of_a_model(tmp_path):
    from transformers import AutoModelForCausalLM

    model = tiny("llama")
    model.save_pretrained(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(AttangentError, match=r"holds a model \(config.json\).*choose another folder"):
        save_adapter(attach(model), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert AutoModelForCausalLM.from_pretrained(tmp_path).config.num_hidden_layers == 2


def test_states_of_some_layers_are_saved_and_loaded_as_such(tmp_path):
    states = states_of(attach(tiny("bert"), NTKConfig(layers=(1,))))
    save_adapter(attach(tiny("bert"), NTKConfig(), states=states), tmp_path)
    assert json.loads((tmp_path / CONFIG).read_text())["ntk"]["layers"] == [1]
    assert list(states_of(load_adapter(tiny("bert"), tmp_path))) == [LAYER]
