"""Any config of peft's as a method."""

import pytest

from attangent import AttangentError
from attangent.tuning.methods import Method, adapt, trained_sizes
from tests.adapters.models import inputs, tiny


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
        ({}, "peft_type None"),
        ({"peft_type": "MAGIC"}, "peft_type 'MAGIC'"),
        ({"peft_type": "LORA", "q": 1}, "unexpected keyword argument 'q'"),
        ({"peft_type": "LN_TUNING"}, "specify `target_modules`"),
    ],
)
def test_what_peft_does_not_know_is_refused(settings, message):
    with pytest.raises(AttangentError, match=message):
        adapt(tiny("bert"), Method("peft", peft=settings), "classification", 0)
