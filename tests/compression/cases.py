"""Models and tokenizers for the tests of compression: a tiny random Llama, and stories260K if at hand."""

import os
import struct
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from benchmarks.suites.compression.second_model import chosen_states

TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}</>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


class Letters:
    """One token a character, as plain as a tokenizer can be."""

    chat_template = None
    eos_token_id = None

    def __init__(self, size=128):
        self.size = size

    def __len__(self):
        return self.size

    def __call__(self, text, add_special_tokens=True):
        return {"input_ids": [ord(letter) % self.size for letter in text]}

    def decode(self, ids, **_):
        return "".join(chr(i) for i in ids)

    def get_vocab(self):
        return {chr(i): i for i in range(self.size)}


class ChatLetters(Letters):
    """Letters with a chat template."""

    chat_template = TEMPLATE

    def apply_chat_template(self, messages, tokenize=False, add_generation_prompt=False):
        text = "".join(f"<{m['role']}>{m['content']}</>" for m in messages)
        return text + "<assistant>" if add_generation_prompt else text


def tiny_llama(seed=0, layers=3, kv_heads=2, vocabulary=128, context=4096, gain=3.0):
    """A random Llama whose attention is far from uniform."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=kv_heads,
        max_position_embeddings=context,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "proj" in name:
                parameter.mul_(gain)
            if "embed_tokens" in name or "lm_head" in name:
                parameter.mul_(20)
    return model


def decoders():
    """Return makers of small random models of four architectures, by name."""
    from transformers import (
        Gemma2Config,
        Gemma2ForCausalLM,
        GPT2Config,
        GPT2LMHeadModel,
        Qwen3Config,
        Qwen3ForCausalLM,
    )

    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "intermediate_size": 48,
        "vocab_size": 61,
    }
    return {
        "llama": lambda: tiny_llama(layers=2),
        "gpt2": lambda: GPT2LMHeadModel(
            GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=61, n_positions=128)
        ),
        "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**sizes)),
        "gemma2": lambda: Gemma2ForCausalLM(Gemma2Config(**sizes, sliding_window=4096)),
    }


def stories_folder():
    folder = Path(os.environ.get("ATTANGENT_DATA", "")) / "stories260K"
    if not os.environ.get("ATTANGENT_DATA") or not folder.is_dir():
        pytest.skip("stories260K is not there: set ATTANGENT_DATA")
    return folder


def stories_model():
    """The trained 260k-parameter Llama of the llama2.c project."""
    from transformers import LlamaConfig, LlamaForCausalLM

    raw = (stories_folder() / "stories260K.bin").read_bytes()
    dim, hidden, layers, heads, kv_heads, vocabulary, length = struct.unpack("7i", raw[:28])
    flat = torch.frombuffer(bytearray(raw[28:]), dtype=torch.float32)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=dim,
        intermediate_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=2 * length,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=None,
    )
    model = LlamaForCausalLM(config).eval()
    kv = dim // heads * kv_heads
    shapes = {
        "embed": [(vocabulary, dim)],
        "norm1": [(dim,)] * layers,
        "q_proj": [(dim, dim)] * layers,
        "k_proj": [(kv, dim)] * layers,
        "v_proj": [(kv, dim)] * layers,
        "o_proj": [(dim, dim)] * layers,
        "norm2": [(dim,)] * layers,
        "gate_proj": [(hidden, dim)] * layers,
        "down_proj": [(dim, hidden)] * layers,
        "up_proj": [(hidden, dim)] * layers,
        "norm": [(dim,)],
    }
    taken, parts = 0, {}
    for name, wanted in shapes.items():
        parts[name] = []
        for shape in wanted:
            count = torch.Size(shape).numel()
            parts[name].append(flat[taken : taken + count].view(shape))
            taken += count
    with torch.no_grad():
        model.model.embed_tokens.weight.copy_(parts["embed"][0])
        model.model.norm.weight.copy_(parts["norm"][0])
        for i, layer in enumerate(model.model.layers):
            layer.input_layernorm.weight.copy_(parts["norm1"][i])
            layer.post_attention_layernorm.weight.copy_(parts["norm2"][i])
            for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
                weight = parts[name][i]
                if name in ("q_proj", "k_proj"):
                    weight = _halves(weight, heads if name == "q_proj" else kv_heads)
                getattr(layer.self_attn, name).weight.copy_(weight)
            for name in ("gate_proj", "down_proj", "up_proj"):
                getattr(layer.mlp, name).weight.copy_(parts[name][i])
    return model


def _halves(weight, heads):
    """Rows of each head from interleaved pairs to two halves, as transformers rotates them."""
    out, size = weight.shape
    return weight.view(heads, out // heads // 2, 2, size).transpose(1, 2).reshape(out, size)


class Stories:
    """The 512-token tokenizer of stories260K: characters, then the best-scoring pairs merged greedily."""

    chat_template = None
    eos_token_id = 2

    def __init__(self):
        raw, at = (stories_folder() / "tok512.bin").read_bytes(), 4
        self.words, self.scores = [], []
        while at < len(raw):
            score, length = struct.unpack("fi", raw[at : at + 8])
            self.words.append(raw[at + 8 : at + 8 + length])
            self.scores.append(score)
            at += 8 + length
        self.ids = {word: i for i, word in enumerate(self.words)}

    def __len__(self):
        return len(self.words)

    def get_vocab(self):
        return {f"{i} {word!r}": i for i, word in enumerate(self.words)}

    def __call__(self, text, add_special_tokens=True):
        found = []
        for letter in " " + text:
            raw = letter.encode()
            found += [self.ids[raw]] if raw in self.ids else [byte + 3 for byte in raw]
        while True:
            pairs = [self.words[a] + self.words[b] for a, b in pairwise(found)]
            best = max(
                (i for i, pair in enumerate(pairs) if pair in self.ids),
                key=lambda i: self.scores[self.ids[pairs[i]]],
                default=None,
            )
            if best is None:
                return {"input_ids": ([1] if add_special_tokens else []) + found}
            found[best : best + 2] = [self.ids[pairs[best]]]

    def decode(self, ids, **_):
        return b"".join(self.words[i] for i in ids).decode(errors="replace")


def run_of(model, tokenizer, prompt, piece=None, folder=None, most_questions=48, **request):
    """A compression run of a prompt."""
    from attangent.compression.pipeline import CompressionRun
    from attangent.compression.request import CompressionRequest

    about = {"piece": piece, "folder": folder, "most_questions": most_questions}
    return CompressionRun(model, tokenizer, CompressionRequest(prompt, **request), **about)


def selected(run, size):
    """The compressed prompt with the tokens that a fit starts from, unchanged."""
    from attangent.compression.attribution import best_tokens

    return replace(run.fit(size), states=chosen_states(run.cache, best_tokens(run.scores, size)))


STORY = (
    "Once upon a time there was a little girl named Lily. She had a red ball and a big dog named Max. One "
    "day Lily and Max went to the park. They saw a tall tree with many green leaves. A small bird sat in the "
    "tree. The bird was sad because it had lost its mom. Lily wanted to help the bird. She asked Max to look "
    "for the mom bird. Max ran fast and looked everywhere. At last he found the mom bird near the pond. The "
    "little bird was very happy and sang a song. Lily clapped her hands and laughed. Then they all went home "
    "and ate cake."
)
