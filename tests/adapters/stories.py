"""stories260K: a trained Llama of 260,032 parameters, from llama2.c files in $ATTANGENT_DATA/stories260K."""

import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch

_NAMES = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
)


def stories_folder() -> Path | None:
    """Where the files are; None where there are none."""
    root = os.environ.get("ATTANGENT_DATA")
    folder = Path(root) / "stories260K" if root else None
    return folder if folder is not None and (folder / "stories260K.bin").is_file() else None


def load_stories(folder: Path) -> Any:
    """The model as a transformers Llama."""
    from transformers import LlamaConfig, LlamaForCausalLM

    raw = (folder / "stories260K.bin").read_bytes()
    *sizes, vocabulary, length = struct.unpack("7i", raw[:28])
    config = LlamaConfig(
        **dict(zip(_NAMES, sizes, strict=True)),
        vocab_size=vocabulary,
        max_position_embeddings=length,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = LlamaForCausalLM(config)
    model.load_state_dict(_weights(np.frombuffer(raw[28:], dtype=np.float32), config), strict=False)
    return model.eval()


def _weights(numbers: np.ndarray, config: Any) -> dict[str, torch.Tensor]:
    flat, at = torch.from_numpy(numbers.copy()), 0

    def take(*shape: int) -> torch.Tensor:
        nonlocal at
        count = int(np.prod(shape))
        at += count
        return flat[at - count : at].view(shape)

    n, d, f = config.num_hidden_layers, config.hidden_size, config.intermediate_size
    heads, kv = config.num_attention_heads, config.num_key_value_heads
    kv_size = d // heads * kv
    found = {"model.embed_tokens.weight": take(config.vocab_size, d)}
    parts = {
        "input_layernorm": take(n, d),
        "self_attn.q_proj": _to_halves(take(n, d, d), heads),
        "self_attn.k_proj": _to_halves(take(n, kv_size, d), kv),
        "self_attn.v_proj": take(n, kv_size, d),
        "self_attn.o_proj": take(n, d, d),
        "post_attention_layernorm": take(n, d),
        "mlp.gate_proj": take(n, f, d),
        "mlp.down_proj": take(n, d, f),
        "mlp.up_proj": take(n, f, d),
    }
    for name, stacked in parts.items():
        found |= {f"model.layers.{i}.{name}.weight": stacked[i] for i in range(n)}
    return found | {"model.norm.weight": take(d), "lm_head.weight": found["model.embed_tokens.weight"]}


def _to_halves(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows of each head from pairs of neighbours to halves, as transformers rotates them."""
    n, rows, columns = weight.shape
    return weight.view(n, heads, rows // heads // 2, 2, columns).transpose(2, 3).reshape(n, rows, columns)


class StoriesTokenizer:
    """The 512 tokens of the model: byte pairs merged greedily by score."""

    def __init__(self, folder: Path):
        raw, at = (folder / "tok512.bin").read_bytes(), 4
        self.pieces: list[bytes] = []
        self.scores: list[float] = []
        while at < len(raw):
            score, length = struct.unpack_from("fi", raw, at)
            self.scores.append(score)
            self.pieces.append(raw[at + 8 : at + 8 + length])
            at += 8 + length
        self.ids = {piece: i for i, piece in enumerate(self.pieces)}

    def encode(self, text: str) -> list[int]:
        """Token ids with the beginning-of-text token in front."""
        ids: list[int] = [self.ids[b" "]]
        for letter in text:
            piece = letter.encode()
            ids += [self.ids[piece]] if piece in self.ids else [byte + 3 for byte in piece]
        while best := self._best_pair(ids):
            place, merged = best
            ids[place : place + 2] = [merged]
        return [1, *ids]

    def _best_pair(self, ids: list[int]) -> tuple[int, int] | None:
        pairs = [
            (self.scores[merged], -place, merged)
            for place in range(len(ids) - 1)
            if (merged := self.ids.get(self.pieces[ids[place]] + self.pieces[ids[place + 1]])) is not None
        ]
        if not pairs:
            return None
        _, place, merged = max(pairs)
        return -place, merged

    def decode(self, ids: list[int]) -> str:
        return b"".join(self.pieces[i] for i in ids if i > 2).decode(errors="replace").strip()
