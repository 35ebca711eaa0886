import json
import math
import os

import pytest
import torch

from attangent.adapters import NTKConfig, attach, load_adapter, save_adapter, states_of
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
        (
            lambda d: d["states"].update({"../../etc": d["states"][LAYER]}),
            "layers that the model does not have",
        ),
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

    def unreachable(*_, **options):
        raise OSError("no network")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", unreachable)
    assert "the Hub could not be reached (no network)" in refused("someone/adapter")
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda *_, **options: None)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", unreachable)
    assert "nor an adapter on the Hub: no network" in refused("someone/adapter")


def test_a_hub_id_is_downloaded(saved, monkeypatch):
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda *_, **options: None)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda repo, name: str(saved / name))
    assert list(states_of(load_adapter(tiny("bert"), "someone/adapter"))) == [LAYER]


def test_a_pipe_in_the_place_of_the_weights_is_refused(folder):
    (folder / WEIGHTS).unlink()
    os.mkfifo(folder / WEIGHTS)
    assert "not a regular file" in refused(folder)


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_modules_with_numbers_that_are_none_are_refused(folder, wrong):
    name = "base_model.model.classifier.bias"
    retensor(folder, lambda t: t.update({name: torch.tensor([0.0, wrong, 0.0])}))
    assert f"{name} has NaN or infinite entries" in refused(folder)


@pytest.fixture
def random_folder(tmp_path):
    save_adapter(attach(tiny("bert"), NTKConfig(features="positive-random", size=6)), tmp_path)
    return tmp_path


@pytest.fixture
def taylor_folder(tmp_path):
    save_adapter(attach(tiny("bert"), NTKConfig(features="taylor", size=2)), tmp_path)
    return tmp_path


FIRST = "bert.encoder.layer.0.attention.self"
PROJECTION = f"base_model.model.{FIRST}.attangent_prefix.states.features.projection"


def test_random_features_of_any_size_take_no_memory_before_they_are_refused(random_folder):
    rewrite(random_folder, lambda d: d["states"][FIRST]["settings"].update(size=10**8))
    assert "expected (100000000, 8): one row per feature" in refused(random_folder)
    retensor(
        random_folder,
        lambda t: t.pop(f"base_model.model.{FIRST}.attangent_prefix.states.features.projection"),
    )
    assert "incomplete" in refused(random_folder)


def test_a_projection_of_another_height_is_refused(random_folder):
    retensor(random_folder, lambda t: t.update({PROJECTION: torch.randn(7, 8, dtype=torch.float64)}))
    assert "projection has shape (7, 8), expected (6, 8): one row per feature" in refused(random_folder)


@pytest.mark.parametrize("order", [2_000_000, 10**9])
def test_a_taylor_map_of_any_order_takes_no_memory_before_it_is_refused(taylor_folder, order):
    rewrite(taylor_folder, lambda d: d["states"][FIRST]["settings"].update(order=order))
    assert f"Taylor features of order {order}" in refused(taylor_folder)
    rewrite(taylor_folder, lambda d: d["states"][FIRST]["settings"].update(order=1_999_999, dim=1))
    assert "Taylor features of order 1999999" in refused(taylor_folder)


@pytest.mark.parametrize("layers", [None, (-2, -1), r"layer\."])
def test_a_model_with_more_layers_is_refused(tmp_path, layers):
    from transformers import BertForSequenceClassification

    save_adapter(attach(tiny("bert"), NTKConfig(layers=layers)), tmp_path)
    config = tiny("bert").config
    config.num_hidden_layers = 3
    message = refused(tmp_path, BertForSequenceClassification(config))
    assert "load the model that the adapter was made for" in message
