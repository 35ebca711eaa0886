"""A state beside LoRA."""

import pytest
import torch

from attangent import AttangentError
from attangent.adapters.config import NTKConfig
from attangent.tuning.methods import Method, adapt
from attangent.tuning.methods.ntk import NtkAndLora
from attangent.tuning.tasks import trained_sizes
from tests.adapters.models import inputs, tiny

ON_VALUES = {"peft_type": "LORA", "r": 4, "target_modules": ["value"]}


def adapted(**given):
    method = Method("ntk+lora", ntk=NTKConfig(size=4), **given)
    return adapt(tiny("bert"), method, "classification", 0, [inputs("bert")])


def test_the_config_of_its_lora_may_be_given():
    usual, own = (
        trained_sizes(adapted(**given))["parameters"] for given in ({"rank": 4}, {"peft": ON_VALUES})
    )
    assert usual - own == 2 * 2 * 4 * 32  # two layers without LoRA on queries
    trained = [name for name, one in adapted(peft=ON_VALUES).named_parameters() if one.requires_grad]
    assert any("value.lora_B" in name for name in trained)
    assert not any("query.lora" in name for name in trained)


def test_on_images_its_lora_is_on_values_with_twice_the_rank():
    method = Method("ntk+lora", rank=2, ntk=NTKConfig(size=4))
    model = adapt(tiny("vit"), method, "image-classification", 0, [inputs("vit")])
    parts = {name: one for name, one in model.named_parameters() if "lora_A" in name and one.requires_grad}
    assert len(parts) == 2
    assert all(".v_proj." in name or ".value." in name for name in parts)
    assert {one.shape[0] for one in parts.values()} == {4}
    scaled = [one.scaling["default"] for one in model.modules() if hasattr(one, "lora_A")]
    assert scaled == [8 / 4**0.5] * 2


def test_such_a_model_is_saved_and_loaded(tmp_path):
    model = adapted(peft=ON_VALUES)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1)
    NtkAndLora().save(model, tmp_path / "adapter")
    again = NtkAndLora().load(tiny("bert"), tmp_path / "adapter")
    torch.testing.assert_close(again(**inputs("bert")).logits, model(**inputs("bert")).logits)


def test_a_config_that_peft_does_not_know_is_refused():
    with pytest.raises(AttangentError, match="peft_type is 'NONE'"):
        adapted(peft={"peft_type": "NONE"})
