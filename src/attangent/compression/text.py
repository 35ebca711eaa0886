"""Text on which a state is fitted and measured: what the model writes behind the prompt, and the prompt."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent.compression.capture import PromptCache, intercepted, whole_prompt

LENGTH = 64
"""Tokens of a sample and of a piece of the prompt."""
SINKS = 4
"""The first tokens of a prompt, which draw attention whatever they say."""
REPEAT = "Repeat the previous context exactly."
"""What is asked before the prompt is repeated, as KVzip asks it."""
_NOT_TITLES = "".join(rf"(?<!\b{title}\.)" for title in ("Mr", "Mrs", "Ms", "Dr", "Prof", "St", "No"))
BY_HALVES = ("{half}?",)
"""How sentences are asked for where it is scored what they need: by their first halves."""
IN_MANY_WAYS = (*BY_HALVES, 'Quote the sentence that begins with "{start}".', "Please go on: {half}")
"""How they are asked for in training, one way after the other, so that no single way is learnt."""
_ASKED_WORDS = 12
_START_WORDS = 3
_PART_WORDS = 36
_REPEATED = 160
_REPEATED_EVERY = 128


class Turn(NamedTuple):
    """Something asked behind the prompt, and what is said to it."""

    asked: Tensor
    answer: Tensor

    @property
    def ids(self) -> Tensor:
        return torch.cat([self.asked, self.answer])


@dataclass(frozen=True)
class Calibration:
    """Sequences `ids` (B, L) to be read behind the prompt; `valid` (B, L) is False on padding at the end."""

    ids: Tensor
    valid: Tensor

    def __post_init__(self) -> None:
        if self.ids.ndim != 2 or self.ids.shape != self.valid.shape or not self.valid.any():
            raise AttangentError(
                f"calibration has ids {tuple(self.ids.shape)} and valid {tuple(self.valid.shape)}, expected "
                "equal shapes (sequences, length) with at least one valid token"
            )

    @classmethod
    def of(cls, sequences: Sequence[Tensor]) -> "Calibration":
        """Sequences of any lengths above 0, padded at the end."""
        kept = [sequence for sequence in sequences if len(sequence)]
        if not kept:
            raise AttangentError("there is no calibration text, expected at least one token")
        ids = torch.nn.utils.rnn.pad_sequence(kept, batch_first=True)
        lengths = torch.tensor([len(sequence) for sequence in kept])
        return cls(ids, torch.arange(ids.shape[1]) < lengths[:, None])

    def __len__(self) -> int:
        return len(self.ids)

    def sequences(self) -> list[Tensor]:
        """The sequences without their padding."""
        return [row[kept] for row, kept in zip(self.ids, self.valid, strict=True)]

    def batch(self, rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Some of the sequences, no longer than the longest of them."""
        valid = self.valid[rows]
        length = int(valid.sum(dim=1).max())
        return self.ids[rows, :length], valid[:, :length]

    @property
    def tokens(self) -> int:
        return int(self.valid.sum())

    def packed(self) -> "PackedText":
        """The same sequences with several short ones in a row, the longest first."""
        sequences = self.sequences()
        rows = sharing_rows([len(sequence) for sequence in sequences], self.ids.shape[1])
        return PackedText.of([[sequences[place] for place in row] for row in rows])


class PackedText(NamedTuple):
    """Rows (B, L) of sequences one after another: tokens, their places in their own sequences, and the
    number of the sequence in its row, -1 for padding at the end."""

    ids: Tensor
    places: Tensor
    number: Tensor

    @classmethod
    def of(cls, rows: Sequence[Sequence[Tensor]]) -> "PackedText":
        places = [torch.cat([torch.arange(len(part)) for part in row]) for row in rows]
        numbers = [torch.cat([torch.full((len(part),), i) for i, part in enumerate(row)]) for row in rows]
        pad = partial(torch.nn.utils.rnn.pad_sequence, batch_first=True)
        return cls(pad([torch.cat(list(row)) for row in rows]), pad(places), pad(numbers, padding_value=-1))

    @property
    def valid(self) -> Tensor:
        return self.number >= 0

    @property
    def seen(self) -> Tensor:
        """(B, 1, L, L): each token sees those of its own sequence up to itself."""
        same = self.number.unsqueeze(2) == self.number.unsqueeze(1)
        return same.tril().unsqueeze(1)


def sharing_rows(lengths: Sequence[int], width: int) -> list[list[int]]:
    """Which sequences of these lengths share a row of at most `width` tokens, the longest first."""
    rows, used = list[list[int]](), list[int]()
    for place in sorted(range(len(lengths)), key=lambda place: lengths[place], reverse=True):
        fitting = (row for row, taken in enumerate(used) if taken + lengths[place] <= width)
        row = next(fitting, len(rows))
        if row == len(rows):
            rows.append([])
            used.append(0)
        rows[row].append(place)
        used[row] += lengths[place]
    return rows


def pieces(ids: Tensor, length: int = LENGTH, at_most: int | None = None, seed: int = 0) -> list[Tensor]:
    """The sequence cut into pieces of `length`; a random choice of `at_most` of them, in order."""
    found = list(ids.split(length))
    if at_most is None or len(found) <= at_most:
        return found
    kept = torch.randperm(len(found), generator=generator(seed, "pieces"))[:at_most]
    return [found[i] for i in sorted(kept.tolist())]


def repetitions(ids: Tensor, asked: Tensor, at_most: int | None = None) -> list[Turn]:
    """The prompt `ids` said again in overlapping pieces, each behind the tokens `asked`.

    Where there are more than `at_most` pieces, as many of them are spread evenly over the prompt.
    """
    last = max(1, len(ids) - (_REPEATED - _REPEATED_EVERY))
    starts: Sequence[int] = range(0, last, _REPEATED_EVERY)
    starts = starts if at_most is None else spread(starts, at_most)
    return [Turn(asked, ids[start : start + _REPEATED]) for start in starts]


def recitations(
    sentences: Sequence[str],
    tokens_of: Callable[[str], Tensor],
    question: Callable[[str], Tensor],
    ways: Sequence[str] = BY_HALVES,
) -> list[Turn]:
    """Turns of a chat: the beginning of a sentence is asked, the answer is the sentence.

    What a model says to them behind the whole prompt is what the prompt says, place by place, in a form in
    which it may be asked for it. Long sentences are asked for in parts, by their first words. `ways` to ask
    have places for the first `half` of the sentence and for its `start`, and take turns.
    """
    found = []
    for place, part in enumerate(part for sentence in sentences for part in _parts(sentence)):
        words = part.split()
        half = " ".join(words[: max(2, min(_ASKED_WORDS, len(words) // 2))])
        way = ways[place % len(ways)].format(half=half, start=" ".join(words[:_START_WORDS]))
        found.append(Turn(question(way), tokens_of(part)[:LENGTH]))
    return found


def _parts(sentence: str) -> list[str]:
    """A sentence in parts of about equal length, none with more than `_PART_WORDS` words."""
    words = sentence.split()
    count = -(-len(words) // _PART_WORDS)
    ends = [len(words) * i // count for i in range(count + 1)]
    return [" ".join(words[a:b]) for a, b in pairwise(ends)] if count > 1 else [sentence]


def spread(items: Sequence[Any], at_most: int) -> list[Any]:
    """At most so many of the items, evenly spread over them."""
    count = min(at_most, len(items))
    return [items[i * len(items) // count] for i in range(count)]


def sentences_of(text: str) -> list[str]:
    """The sentences of a text, as full stops and ends of lines divide it; single words are left out."""
    parts = re.split(rf"(?<=[.!?:;]){_NOT_TITLES}\s+|\n+", text)
    return [part.strip() for part in parts if len(part.split()) > 1]


def sample(
    model: Any,
    cache: PromptCache,
    opening: Tensor,
    counts: Mapping[str, int],
    seed: int,
    *,
    length: int = LENGTH,
    temperature: float = 1.0,
    progress: Callable[[], Any] = lambda: None,
) -> dict[str, Tensor]:
    """Texts (count, length) that the model writes behind the prompt, each beginning with `opening`.

    counts: how many for each stream of random numbers. All of them are written together, and share the
    prompt's keys and values.
    """
    from transformers import DynamicCache

    draws, local = {stream: generator(seed, stream) for stream in counts}, DynamicCache()
    ids = opening.expand(sum(counts.values()), -1)
    logits = cache.logits.expand(len(ids), -1)
    with torch.no_grad(), intercepted(model, whole_prompt(cache)):
        if len(opening):
            logits = _next_logits(model, ids, local, cache.length)
        while ids.shape[1] < length:
            parts = zip((logits / temperature).split(list(counts.values())), draws.values(), strict=True)
            drawn = torch.cat([_drawn(part, draw) for part, draw in parts])
            ids = torch.cat([ids, drawn], dim=1)
            progress()
            if ids.shape[1] < length:
                logits = _next_logits(model, drawn, local, cache.length + ids.shape[1] - 1)
    return dict(zip(counts, ids.split(list(counts.values())), strict=True))


def _drawn(logits: Tensor, draw: torch.Generator) -> Tensor:
    """One token (n, 1) for each row of logits (n, vocabulary), by one random number for each.

    It is the first token up to which the chances add up to more than that number.
    """
    sums = logits.softmax(dim=-1).double().cumsum(dim=-1)
    levels = torch.rand(len(logits), 1, generator=draw, dtype=sums.dtype) * sums[:, -1:]
    return torch.searchsorted(sums, levels, right=True).clamp(max=logits.shape[1] - 1)


def _next_logits(model: Any, ids: Tensor, local: Any, position: int) -> Tensor:
    positions = position + torch.arange(ids.shape[1], device=model.device)[None]
    ids = ids.to(model.device)
    out = model(ids, past_key_values=local, use_cache=True, position_ids=positions, logits_to_keep=1)
    return out.logits[:, -1].float().cpu()
