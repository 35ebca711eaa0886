"""A small GPT-2 on plain text, its loss split by kind of word and by whether the word was there before.

    -log p(word) = -log p(kind) - log p(word | kind)

Kinds are punctuation, function words, numbers, names (words with a capital) and other words.
"""

import gzip
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.papers.p3_two_stage.facts.language import split_loss

PASSAGES = "superglue/BoolQ/val.jsonl.gz"
KINDS = ("punctuation", "function", "number", "name", "word")
OTHER = "<other>"
_WORD = re.compile(r"\w+|[^\w\s]")
_FUNCTION = frozenset(
    """the a an this that these those some any no each every all both of in to for on by with at from as into
    about after before between during under over through against within without upon until since than and or
    but nor so if while although because when where who whom whose which what how it its he his him she her
    they their them we our us you your i my me one be is are was were been being am has have had having do
    does did will would can could may might shall should must not also there then only such other more most
    s up out off down""".split()  # noqa: SIM905
)


def kind_of(word: str) -> str:
    """The kind of a word, by its letters alone."""
    if not word[0].isalnum():
        return "punctuation"
    if word.lower() in _FUNCTION:
        return "function"
    if word[0].isdigit():
        return "number"
    return "name" if word[0].isupper() else "word"


def passages() -> list[str]:
    """The passages of BoolQ's validation part below ATTANGENT_DATA, each once."""
    lines = gzip.decompress(Path(os.environ["ATTANGENT_DATA"], PASSAGES).read_bytes()).decode().splitlines()
    return list(dict.fromkeys(json.loads(line)["passage"] for line in lines))


@dataclass(frozen=True)
class Prose:
    """Texts as numbers of words: windows to train on and windows to read on, of texts of their own."""

    training: Tensor
    held_out: Tensor
    kinds: Tensor
    """(words): the number of each word's kind, -1 for `OTHER`."""

    @classmethod
    def of(cls, texts: list[str], words: int, window: int, held_out: int) -> "Prose":
        """The most frequent words are kept, all others are one; the last `held_out` texts are read on."""
        split = [_WORD.findall(text) for text in texts]
        counts = Counter(word for text in split[:-held_out] for word in text)
        kept = [word for word, _ in counts.most_common(words - 1)]
        place = {word: number for number, word in enumerate(kept, 1)}
        ids = [torch.tensor([place.get(word, 0) for word in text]) for text in split]
        kinds = torch.tensor([-1, *(KINDS.index(kind_of(word)) for word in kept)])
        return cls(_windows(ids[:-held_out], window), _windows(ids[-held_out:], window), kinds)


def _windows(texts: list[Tensor], size: int) -> Tensor:
    """(windows, size): pieces of single texts, without overlap; what is left at the end goes."""
    return torch.cat([text[: len(text) // size * size].view(-1, size) for text in texts])


def groups(logits: Tensor, windows: Tensor, kinds: Tensor) -> dict[str, float]:
    """Mean losses on windows (n, size), whose logits (n, size - 1, words) are of the word that follows."""
    target = windows[:, 1:]
    known = target > 0
    of_kind = kinds == kinds[target[known]][:, None]
    kind_loss, word_loss = split_loss(logits[known].log_softmax(-1), target[known], of_kind)
    kind = kinds[target[known]]
    content, before = kind >= KINDS.index("number"), _seen(windows)[known]
    return {
        "kind": kind_loss.mean().item(),
        "function words": word_loss[~content].mean().item(),
        "content words, new": word_loss[content & ~before].mean().item(),
        "content words, repeated": word_loss[content & before].mean().item(),
    }


def _seen(windows: Tensor) -> Tensor:
    """(n, size - 1): whether the word that follows stands earlier in its window."""
    same = windows[:, 1:, None] == windows[:, None, :]
    places = torch.arange(windows.shape[1])
    return (same & (places[None, :] <= places[:-1, None])).any(-1)


def train(
    prose: Prose,
    sizes: Mapping[str, int],
    rate: float,
    seed: int,
    on_reading: Callable[[int, dict[str, float]], None],
) -> None:
    """Train a GPT-2 (width, layers, heads, batch, steps) and read every so many steps (every, read)."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=len(prose.kinds),
        n_positions=prose.training.shape[1],
        n_embd=sizes["width"],
        n_layer=sizes["layers"],
        n_head=sizes["heads"],
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
    )
    torch.manual_seed(seed)
    model, random = GPT2LMHeadModel(config), generator(seed, "windows of the prose")
    optimiser = torch.optim.AdamW(model.parameters(), rate, betas=(0.9, 0.98), weight_decay=0.01)
    held = prose.held_out[: sizes["read"]]
    for step in range(sizes["steps"] + 1):
        if step % sizes["every"] == 0:
            with torch.no_grad():
                on_reading(step, groups(model(held[:, :-1]).logits, held, prose.kinds))
        rows = torch.randint(len(prose.training), (sizes["batch"],), generator=random)
        batch = prose.training[rows]
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 50)
        logits = model(batch[:, :-1]).logits
        target = batch[:, 1:].masked_fill(batch[:, 1:] == 0, -100)
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten()).backward()
        optimiser.step()
        optimiser.zero_grad()
