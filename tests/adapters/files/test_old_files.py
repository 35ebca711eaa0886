"""Files written by version 0.1.0 still load and give the numbers they gave then.

The models are tiny, their weights a formula, so that only adapters and answers are kept.
"""

import json
from pathlib import Path

import pytest
import torch

from attangent import PrefixState, load_adapter, ntk_attention

OLD = Path(__file__).parents[2] / "fixtures" / "adapters"
IDS = torch.tensor([[1, 5, 2, 9], [3, 3, 8, 1]])


def filled(model):
    """The model with weights that are a formula of their places."""
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            places = torch.arange(parameter.numel(), dtype=torch.float64).view(parameter.shape)
            level = 1.0 if "norm" in name.lower() and name.endswith("weight") else 0.0
            parameter.copy_(0.3 * torch.sin(1.7 * places + len(name)) + level)
    return model.eval()


def bert():
    from transformers import BertConfig, BertForSequenceClassification

    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    words = {"vocab_size": 11, "max_position_embeddings": 8, "num_labels": 3, "pad_token_id": 0}
    return filled(BertForSequenceClassification(BertConfig(**sizes, **words)))


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2}
    words = {"intermediate_size": 8, "vocab_size": 11, "max_position_embeddings": 64}
    tokens = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    return filled(LlamaForCausalLM(LlamaConfig(**sizes, **words, **tokens)))


def answer(name):
    return torch.tensor(json.loads((OLD / "answers.json").read_text())[name])


@pytest.mark.parametrize(("name", "model"), [("learned_with_classifier", bert), ("anchors_raw", llama)])
def test_an_old_adapter_answers_as_it_did(name, model):
    bare = model()
    with torch.no_grad():
        before = bare(input_ids=IDS).logits
        found = load_adapter(bare, OLD / name)(input_ids=IDS).logits
    assert not torch.allclose(found, before, atol=1e-2)
    found = found if found.ndim == 2 else found[:, -1]
    assert torch.allclose(found, answer(name), rtol=1e-5, atol=1e-6)


def test_an_old_state_attends_as_it_did():
    state = PrefixState.load(OLD / "state.safetensors")
    q = torch.sin(torch.arange(16.0)).view(1, 2, 2, 4)
    assert torch.allclose(ntk_attention(q, q, q, state), answer("state"), rtol=1e-5, atol=1e-6)
