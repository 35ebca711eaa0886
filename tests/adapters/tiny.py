"""Tiny models with tokenizers in folders, and data they can learn: no network, no large file."""

import json
from pathlib import Path
from typing import Any

import torch

WORDS = [
    "the",
    "a",
    "cat",
    "dog",
    "sun",
    "sea",
    "runs",
    "sleeps",
    "red",
    "blue",
    "old",
    "new",
    "yes",
    "no",
    "0",
    "1",
    "2",
    "3",
    "4",
    "5",
    "6",
    "7",
    "8",
    "9",
    "answer",
    "is",
    ":",
    ".",
    "?",
]


def save_bert(folder: Path, layers: int = 2, **own: Any) -> Path:
    from transformers import BertConfig, BertModel

    tokenizer = _tokenizer(template=True)
    torch.manual_seed(0)
    sizes = {
        "hidden_size": 32,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "num_hidden_layers": layers,
    }
    loud = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "initializer_range": 0.3}
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=48, **sizes | loud | own)
    return _saved(BertModel(config), tokenizer, folder)


def save_llama(folder: Path) -> Path:
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = _tokenizer(template=False)
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48}
    tokens = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    config = LlamaConfig(
        vocab_size=len(tokenizer), num_hidden_layers=2, max_position_embeddings=64, **sizes, **tokens
    )
    return _saved(LlamaForCausalLM(config), tokenizer, folder)


def save_vit(folder: Path) -> Path:
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32, "num_hidden_layers": 2}
    ViTForImageClassification(ViTConfig(image_size=8, patch_size=4, num_labels=4, **sizes)).save_pretrained(
        folder
    )
    return folder


def _saved(model: Any, tokenizer: Any, folder: Path) -> Path:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _tokenizer(template: bool) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    made = Tokenizer(models.WordLevel({w: i for i, w in enumerate([*special, *WORDS])}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    pair = "[CLS] $A [SEP] $B:1 [SEP]:1" if template else "[CLS] $A $B"
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]" if template else "[CLS] $A",
        pair=pair,
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]"}
    more = (
        {"cls_token": "[CLS]", "sep_token": "[SEP]"}
        if template
        else {"bos_token": "[CLS]", "eos_token": "[SEP]"}
    )
    fields = (
        ["input_ids", "token_type_ids", "attention_mask"] if template else ["input_ids", "attention_mask"]
    )
    return PreTrainedTokenizerFast(tokenizer_object=made, model_input_names=fields, **names, **more)


def write_rows(path: Path, count: int, seed: int = 0) -> Path:
    """Texts labelled with whether they speak of a cat."""
    draw = torch.Generator().manual_seed(seed)
    rows = []
    for number in range(count):
        places = torch.randint(4, 12, (5,), generator=draw).tolist()
        words = [WORDS[place] for place in places]
        words[int(torch.randint(5, (1,), generator=draw))] = "cat" if number % 2 else "dog"
        rows.append({"text": " ".join(words), "label": "cat" if number % 2 else "dog"})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_images(folder: Path, count: int, seed: int = 0) -> Path:
    """Bright and dark images, a folder each."""
    from PIL import Image

    draw = torch.Generator().manual_seed(seed)
    for name, low in (("bright", 150), ("dark", 0)):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = torch.randint(low, low + 100, (8, 8, 3), generator=draw, dtype=torch.uint8)
            Image.fromarray(pixels.numpy()).save(folder / name / f"{number}.png")
    return folder
