"""Methods of peft: LoRA and any other config."""

import pytest
import torch

from attangent import AttangentError
from attangent.tuning.methods import Method, adapt, lora_targets
from attangent.tuning.methods.peft_methods import RSLORA, linear_targets, value_targets
from attangent.tuning.tasks import trained_sizes
from tests.adapters.models import inputs, tiny


def test_lora_goes_to_queries_and_values_of_the_top_layers():
    assert lora_targets(tiny("bert"), 1) == [
        "bert.encoder.layer.1.attention.self.query",
        "bert.encoder.layer.1.attention.self.value",
    ]
    assert len(lora_targets(tiny("gpt2"))) == 2
    with pytest.raises(AttangentError, match="Linear has no projection called"):
        lora_targets(torch.nn.Linear(2, 2))


def test_all_linear_layers_are_those_of_the_blocks():
    names = linear_targets(tiny("bert"), 1)
    parts = ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense")
    parts = (*parts, "intermediate.dense", "output.dense")
    assert names == [f"bert.encoder.layer.1.{part}" for part in parts]
    assert len(linear_targets(tiny("gpt2"))) == 2 * 4
    everywhere = Method("lora", peft={"target_modules": "all-linear"})
    adapted = adapt(tiny("bert"), everywhere, "classification", 0)
    assert sum(hasattr(module, "lora_A") for module in adapted.modules()) == 2 * 6
    with pytest.raises(AttangentError, match="Linear has no linear layers in numbered blocks"):
        linear_targets(torch.nn.Linear(2, 2))


def test_values_alone_are_found_where_they_stand_alone():
    assert value_targets(tiny("bert"), 1) == ["bert.encoder.layer.1.attention.self.value"]
    assert len(value_targets(tiny("vit"))) == 2
    assert value_targets(tiny("gpt2")) == []  # one matrix for queries, keys and values


def test_further_settings_are_those_of_pefts_config():
    methods = [Method("lora", rank=4, peft=given) for given in ({}, RSLORA)]
    models = [adapt(tiny("bert"), method, "classification", 0) for method in methods]
    assert [scales(model) for model in models] == [{2.0}, {8 / 4**0.5}]
    with pytest.raises(AttangentError, match="unexpected keyword argument 'rslora'"):
        adapt(tiny("bert"), Method("lora", peft={"rslora": True}), "classification", 0)


def scales(model):
    """What LoRA's matrices are multiplied by."""
    found = [one.scaling for one in model.modules() if hasattr(one, "lora_A")]
    return {scale for one in found for scale in one.values()}


@pytest.mark.parametrize(
    ("settings", "parameters"),
    [
        ({"peft_type": "LORA", "r": 4, "use_rslora": True}, 2 * 2 * (32 * 4 * 2)),
        ({"peft_type": "LORA", "r": 4, "use_dora": True}, 2 * 2 * (32 * 4 * 2 + 32)),
        ({"peft_type": "LN_TUNING", "target_modules": ["LayerNorm"]}, 5 * 2 * 32),
    ],
)
@pytest.mark.filterwarnings("ignore:Unsupported layer type")  # peft on layer norms
def test_configs_train_what_they_say_and_one_head(settings, parameters):
    model = adapt(tiny("bert"), Method("peft", peft=settings), "classification", 0, [inputs("bert")])
    sizes = trained_sizes(model)
    assert sizes == {"parameters": parameters, "head_parameters": 32 * 3 + 3}
    model(**inputs("bert")).logits.sum().backward()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "peft_type is None"),
        ({"peft_type": "MAGIC"}, "peft_type is 'MAGIC'"),
        ({"peft_type": "LORA", "q": 1}, "unexpected keyword argument 'q'"),
        ({"peft_type": "LN_TUNING"}, "specify `target_modules`"),
    ],
)
def test_what_peft_does_not_know_is_refused(settings, message):
    with pytest.raises(AttangentError, match=message):
        adapt(tiny("bert"), Method("peft", peft=settings), "classification", 0)
