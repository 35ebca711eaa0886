"""Where LoRA goes."""

import pytest
import torch

from attangent import AttangentError
from attangent.tuning.methods import lora_targets
from tests.adapters.models import tiny


def test_lora_goes_to_queries_and_values_of_the_top_layers():
    assert lora_targets(tiny("bert"), 1) == [
        "bert.encoder.layer.1.attention.self.query",
        "bert.encoder.layer.1.attention.self.value",
    ]
    assert len(lora_targets(tiny("gpt2"))) == 2
    with pytest.raises(AttangentError, match="Linear has no projection called"):
        lora_targets(torch.nn.Linear(2, 2))
