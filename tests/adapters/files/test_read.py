import json

import pytest
import torch

from attangent.adapters import load_adapter, states_of
from attangent.adapters.files.format import CONFIG, WEIGHTS
from tests.adapters.files.cases import LAYER, key, refused, retensor, rewrite
from tests.adapters.models import tiny


def test_a_model_of_other_sizes_is_refused_with_the_layer(saved):
    from transformers import BertConfig, BertForSequenceClassification

    sizes = {"num_hidden_layers": 2, "intermediate_size": 48, "vocab_size": 61, "num_labels": 3}
    wide = BertForSequenceClassification(BertConfig(hidden_size=64, num_attention_heads=4, **sizes))
    assert "classifier" in refused(saved, wide)
    few = BertForSequenceClassification(BertConfig(hidden_size=32, num_attention_heads=2, **sizes))
    assert f"layer {LAYER} got a state of 4 heads" in refused(saved, few)


def test_another_model_is_refused_with_the_layer(saved):
    assert "which the model does not have" in refused(saved, tiny("llama"))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.update(colour=1), "unknown keys colour"),
        (lambda d: d.update(format="attangent adapter 9"), "has the format 'attangent adapter 9'"),
        (lambda d: d.pop("states"), "no 'states'"),
        (lambda d: d["ntk"].update(colour=1), "unknown settings colour"),
        (lambda d: d["ntk"].update(size="many"), "size is 'many'"),
        (lambda d: d["ntk"].update(modules_to_save=3), CONFIG),
        (lambda d: d["states"].update({"../../etc": d["states"][LAYER]}), "layers the model does not have"),
        (lambda d: d["states"][LAYER].update(kind="evil"), f"layer {LAYER}"),
        (lambda d: d["states"][LAYER].update(map="evil"), f"layer {LAYER}"),
        (lambda d: d["states"][LAYER].update(settings={"inner": "calibrated", "settings": {}}), "not known"),
        (lambda d: d["states"][LAYER].update(settings=[]), f"layer {LAYER}"),
        (lambda d: d["states"].update({LAYER: 3}), f"layer {LAYER}"),
    ],
)
def test_configs_that_do_not_hold_are_refused(folder, change, says):
    rewrite(folder, change)
    assert says in refused(folder)


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"format": 3}', "\ud800"])
def test_what_is_no_config_is_refused(folder, text):
    (folder / CONFIG).write_bytes(text.encode("utf-8", "surrogatepass"))
    assert CONFIG in refused(folder)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.update({"evil": torch.zeros(1)}), "unknown tensor evil"),
        (
            lambda t: t.update({"base_model.model.bert.pooler.dense.weight": torch.zeros(32, 32)}),
            "unknown tensor",
        ),
        (lambda t: t.update({key("evil"): torch.zeros(1)}), "unknown tensors evil"),
        (lambda t: t.pop(key("Z")), f"layer {LAYER}"),
        (lambda t: t.update({key("Z"): torch.zeros(4, 16, 9)}), f"layer {LAYER}"),
        (lambda t: t.update({key("Z"): torch.zeros(4)}), f"layer {LAYER}"),
        (lambda t: t.update({key("mass"): torch.zeros(4, 99)}), f"layer {LAYER}"),
        (lambda t: t.update({key("value_scale"): torch.zeros(7)}), f"layer {LAYER}"),
        (lambda t: t.update({key("features.scale"): torch.zeros(4)}), f"layer {LAYER}"),
        (lambda t: t.update({key("Z"): torch.full((4, 16, 8), torch.nan)}), f"layer {LAYER}"),
        (lambda t: t.update({key("Z"): torch.zeros(4, 16, 8, dtype=torch.int64)}), f"layer {LAYER}"),
        (lambda t: t.update({key("Z").replace(".1.", ".9."): torch.zeros(4, 16, 8)}), "does not have"),
        (lambda t: t.update({"base_model.model.classifier.weight": torch.zeros(5, 32)}), "classifier.weight"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(folder, change, says):
    retensor(folder, change)
    assert says in refused(folder)


def test_what_is_no_tensor_file_is_refused(folder):
    (folder / WEIGHTS).write_bytes(b"\x80\x04pickle")
    assert "not a safetensors file" in refused(folder)
    (folder / WEIGHTS).unlink()
    assert "there is no file" in refused(folder)


def test_a_header_that_claims_absurd_sizes_is_refused(folder):
    header = json.dumps(
        {key("Z"): {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}
    ).encode()
    (folder / WEIGHTS).write_bytes(len(header).to_bytes(8, "little") + header)
    assert "not a safetensors file" in refused(folder)


@pytest.mark.parametrize("where", ["nowhere", "a/../b", "/no/such/folder", "a/b/c"])
def test_a_folder_that_is_not_there_is_refused(where):
    assert "there is no folder" in refused(where)


def test_a_hub_id_that_cannot_be_had_is_refused(monkeypatch):
    import huggingface_hub

    def unreachable(*_):
        raise OSError("no network")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", unreachable)
    assert "could not be had from the hub: no network" in refused("someone/adapter")


def test_a_hub_id_is_downloaded(saved, monkeypatch):
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda repo, name: str(saved / name))
    assert list(states_of(load_adapter(tiny("bert"), "someone/adapter"))) == [LAYER]
