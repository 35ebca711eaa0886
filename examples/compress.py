"""A long prompt as a few virtual tokens in each attention layer.

    python examples/compress.py [MODEL PROMPT.txt]

With a chat model (a folder or a hub id) and a text file it compresses that; without, a toy model whose tokens
are letters.
"""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

import attangent


class Letters:
    """The simplest tokenizer: one token for each letter."""

    chat_template, eos_token_id = None, None
    __len__ = lambda self: 128  # noqa: E731
    __call__ = lambda self, text, add_special_tokens=False: {"input_ids": [ord(c) % 128 for c in text]}  # noqa: E731
    get_vocab = lambda self: {chr(i): i for i in range(128)}  # noqa: E731
    decode = lambda self, ids, **options: "".join(map(chr, ids))  # noqa: E731


if len(sys.argv) > 2:
    model = AutoModelForCausalLM.from_pretrained(sys.argv[1]).eval()
    tokenizer, prompt = AutoTokenizer.from_pretrained(sys.argv[1]), Path(sys.argv[2]).read_text()
else:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=128, max_position_embeddings=2048, **sizes)).eval()
    tokenizer, prompt = Letters(), "The keeper of the tower is Ada. The light of the tower is green. " * 4

found = attangent.compress(model, tokenizer, prompt, size=16)
print(f"{found.position_offset} tokens of prompt are {found.size} virtual tokens for each head now")

question = torch.tensor([tokenizer("Who is it?", add_special_tokens=False)["input_ids"]])
whole = torch.tensor([tokenizer(prompt + "Who is it?", add_special_tokens=False)["input_ids"]])
with torch.no_grad():
    full = model(whole).logits[0, -1].softmax(-1)
    none = model(question).logits[0, -1].softmax(-1)
    found.attach(model)
    compressed = model(question).logits[0, -1].softmax(-1)
print(f"next-token probabilities, distance to the full prompt: {(compressed - full).abs().sum():.4f}")
print(f"the same without any prompt: {(none - full).abs().sum():.4f}")
