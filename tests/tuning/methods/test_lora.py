"""Where LoRA goes, and further settings of peft's."""

import pytest
import torch

from attangent import AttangentError
from attangent.tuning.methods import Method, adapt, lora_targets
from attangent.tuning.methods.lora import RSLORA, value_targets
from tests.adapters.models import tiny


def test_lora_goes_to_queries_and_values_of_the_top_layers():
    assert lora_targets(tiny("bert"), 1) == [
        "bert.encoder.layer.1.attention.self.query",
        "bert.encoder.layer.1.attention.self.value",
    ]
    assert len(lora_targets(tiny("gpt2"))) == 2
    with pytest.raises(AttangentError, match="Linear has no projection called"):
        lora_targets(torch.nn.Linear(2, 2))


def test_values_alone_are_found_where_they_stand_alone():
    assert value_targets(tiny("bert"), 1) == ["bert.encoder.layer.1.attention.self.value"]
    assert len(value_targets(tiny("vit"))) == 2
    assert value_targets(tiny("gpt2")) == []  # one matrix for queries, keys and values


def test_further_settings_are_those_of_pefts_config():
    methods = [Method("lora", rank=4, peft=given) for given in ({}, RSLORA)]
    models = [adapt(tiny("bert"), method, "classification", 0) for method in methods]
    assert [scales(model) for model in models] == [{2.0}, {8 / 4**0.5}]
    with pytest.raises(AttangentError, match="unknown settings rslora of peft for the method lora"):
        adapt(tiny("bert"), Method("lora", peft={"rslora": True}), "classification", 0)


def scales(model):
    """What LoRA's matrices are multiplied by."""
    found = [one.scaling for one in model.modules() if hasattr(one, "lora_A")]
    return {scale for one in found for scale in one.values()}
