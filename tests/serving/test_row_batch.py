"""Other architectures in one batch: positions in a table, windows, and settings of generation."""

import pytest
import torch

from attangent import AttangentError, batch
from attangent.adapters import NTKConfig, attach
from attangent.compression.session import generate
from attangent.serving.generation import Generation, Sampler, TextStream
from attangent.serving.row_batch import RowBatch
from attangent.serving.slot_cache import PromptReuse
from tests.compression.cases import Letters
from tests.serving.conftest import drawn_prompt

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 128}
MORE = {"intermediate_size": 48, "num_key_value_heads": 2, "eos_token_id": None, "bos_token_id": None}


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=128, n_positions=200))


def mistral():
    from transformers import MistralConfig, MistralForCausalLM

    return MistralForCausalLM(MistralConfig(**SIZES, **MORE, sliding_window=9, pad_token_id=None))


def gemma3():
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    kinds = ["sliding_attention", "full_attention"]
    return Gemma3ForCausalLM(
        Gemma3TextConfig(**SIZES, **MORE, head_dim=8, sliding_window=9, layer_types=kinds, pad_token_id=None)
    )


def penalised():
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(LlamaConfig(**SIZES, **MORE))
    model.generation_config.repetition_penalty = 1.7
    return model


@pytest.mark.parametrize("build", [gpt2, mistral, gemma3, penalised])
def test_greedy_tokens_are_those_of_generate(build):
    torch.manual_seed(0)
    model = build().eval().requires_grad_(False)
    model.generation_config.eos_token_id = None
    for parameter in model.parameters():
        parameter.mul_(3)
    tokenizer = Letters()
    prompt = drawn_prompt(model, tokenizer, 20, 1)
    attach(model, prompt.config, "red", states=prompt.states)
    texts = [(None, "hello there, keeper"), ("red", "who"), ("red", "a longer question?"), (None, "b")]
    rows = RowBatch(model, tokenizer, PromptReuse(0))
    generations = [
        Generation(
            "base", name, tokenizer(text)["input_ids"], 16, Sampler(0, 1, 0), TextStream(tokenizer), print, 0
        )
        for name, text in texts
    ]
    for generation in generations:
        rows.begin(generation)
        while rows.is_reading:
            rows.read_on()
        rows.step()
    while rows.running:
        rows.step()
    rows._assign(())
    model.attangent_record.rows = None
    for generation, (name, text) in zip(generations, texts, strict=True):
        with batch(model, [name]):
            wanted = generate(model, tokenizer, torch.tensor(tokenizer(text)["input_ids"]), 16)
        assert generation.written == wanted.tolist()


def test_layers_without_keys_are_refused():
    model = penalised()
    model.config.layer_types = ["full_attention", "linear_attention"]
    with pytest.raises(AttangentError, match="linear_attention"):
        RowBatch(model, Letters(), PromptReuse(0))


def test_a_trained_state_shares_the_batch():
    torch.manual_seed(0)
    model = penalised().eval()
    attach(model, NTKConfig(features="elu", init="gaussian"), "mine")
    rows = RowBatch(model, Letters(), PromptReuse(0))
    assert rows.prefix_bytes("mine") > 0
    assert rows.prefix_bytes(None) == 0
