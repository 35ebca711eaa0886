"""Text on which states are fitted and measured: turns, batches of sequences and packed rows."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent._core.random import generator

# Tokens per sample and per piece of the prompt.
LENGTH = 64
# Number of first tokens that are always kept: they draw attention whatever they say.
SINKS = 4
# The request before the prompt is repeated, as KVzip words it.
REPEAT = "Repeat the previous context exactly."
_TITLES = ("Mr", "Mrs", "Ms", "Dr", "Prof", "St", "No", "e.g", "i.e", "approx")
_NOT_ABBREVIATED = (
    "".join(rf"(?<!\b{re.escape(title)}\.)" for title in _TITLES) + r"(?!(?<=\w\.\w\.)\s+[a-z])"
)
# Words of a passage: fewer do not tell which one is meant, and more are cut.
_FEWEST_WORDS = 7
_MOST_WORDS = 36
_PASSAGE_END = re.compile(rf"(?<=[!?])\s+|(?<=\.){_NOT_ABBREVIATED}\s+|\n+")
_REPEATED = 160
_REPEATED_EVERY = 128


class Turn(NamedTuple):
    """Tokens of a question after the prompt and of the answer to it."""

    asked: Tensor
    answer: Tensor

    @property
    def ids(self) -> Tensor:
        """Return the tokens of both."""
        return torch.cat([self.asked, self.answer])


@dataclass(frozen=True)
class Calibration:
    """A padded batch of sequences to read after the prompt.

    Attributes:
        ids: Tokens (B, L).
        valid: False (B, L) on the padding at the end.
    """

    ids: Int[Tensor, "batch length"]
    valid: Bool[Tensor, "batch length"]

    @classmethod
    def of(cls, sequences: Sequence[Tensor]) -> "Calibration":
        """Pad sequences of any lengths above 0.

        Raises:
            AttangentError: If there is no token.
        """
        nonempty = [sequence for sequence in sequences if len(sequence)]
        if not nonempty:
            raise AttangentError("there is no calibration text; pass at least one token")
        ids = torch.nn.utils.rnn.pad_sequence(nonempty, batch_first=True)
        lengths = torch.tensor([len(sequence) for sequence in nonempty])
        return cls(ids, torch.arange(ids.shape[1]) < lengths[:, None])

    def __len__(self) -> int:
        return len(self.ids)

    def sequences(self) -> list[Tensor]:
        """Return the sequences without padding."""
        return [row[valid] for row, valid in zip(self.ids, self.valid, strict=True)]

    def packed(self) -> "PackedText":
        """Put several short sequences into one row, the longest first."""
        sequences = self.sequences()
        rows = sharing_rows([len(sequence) for sequence in sequences], self.ids.shape[1])
        return PackedText.of([[sequences[index] for index in row] for row in rows])


class PackedText(NamedTuple):
    """Rows (B, L) of several sequences each.

    ids: tokens; positions: position of each token in its sequence; number: the index of the sequence in its
    row, -1 for padding at the end.
    """

    ids: Tensor
    positions: Tensor
    number: Tensor

    @classmethod
    def of(cls, rows: Sequence[Sequence[Tensor]]) -> "PackedText":
        """Concatenate the sequences of each row and pad the rows."""
        positions = [torch.cat([torch.arange(len(part)) for part in row]) for row in rows]
        numbers = [torch.cat([torch.full((len(part),), i) for i, part in enumerate(row)]) for row in rows]
        pad = partial(torch.nn.utils.rnn.pad_sequence, batch_first=True)
        return cls(
            pad([torch.cat(list(row)) for row in rows]), pad(positions), pad(numbers, padding_value=-1)
        )

    @property
    def valid(self) -> Tensor:
        """Return whether each token (B, L) is not padding."""
        return self.number >= 0

    @property
    def seen(self) -> Tensor:
        """Return the mask (B, 1, L, L): each token sees its own sequence up to itself."""
        # Padding sees padding: a row of the mask without any True would make softmax return nan.
        same = self.number.unsqueeze(2) == self.number.unsqueeze(1)
        return same.tril().unsqueeze(1)


def sharing_rows(lengths: Sequence[int], width: int) -> list[list[int]]:
    """Pack sequences of these lengths into rows of at most `width` tokens by first fit, longest first."""
    rows = list[list[int]]()
    used = list[int]()
    for index in sorted(range(len(lengths)), key=lambda index: lengths[index], reverse=True):
        fitting = (row for row, taken in enumerate(used) if taken + lengths[index] <= width)
        row = next(fitting, len(rows))
        if row == len(rows):
            rows.append([])
            used.append(0)
        rows[row].append(index)
        used[row] += lengths[index]
    return rows


def pieces(ids: Tensor, length: int = LENGTH, at_most: int | None = None, seed: int = 0) -> list[Tensor]:
    """Cut a sequence into pieces of `length`; draw `at_most` of them and return these in order."""
    cut = list(ids.split(length))
    if at_most is None or len(cut) <= at_most:
        return cut
    drawn = torch.randperm(len(cut), generator=generator(seed, "pieces"))[:at_most]
    return [cut[i] for i in sorted(drawn.tolist())]


def repetitions(ids: Tensor, asked: Tensor, at_most: int | None = None) -> list[Turn]:
    """Return turns that repeat the prompt `ids` in overlapping pieces, at most this many, evenly spread."""
    # Pieces overlap, so that every token is repeated at least once with some context before it.
    last = max(1, len(ids) - (_REPEATED - _REPEATED_EVERY))
    starts: Sequence[int] = range(0, last, _REPEATED_EVERY)
    starts = starts if at_most is None else spread(starts, at_most)
    return [Turn(asked, ids[start : start + _REPEATED]) for start in starts]


def recitations(
    passages: Sequence[str], tokens_of: Callable[[str], Tensor], question: Callable[[str], Tensor]
) -> list[Turn]:
    """Return chat turns that ask for passages, in turn by their first words and by those in the middle.

    The answer is the passage. Given its first half, the model must look up the end; given the middle, the
    beginning too. If several passages share these words, use the other half; if they share both, skip them.

    Args:
        passages: Passages of the prompt.
        tokens_of: Turns an answer into tokens.
        question: Turns a question into tokens.
    """
    halves = {passage: _halves(passage) for passage in passages}
    often = Counter(half for both in halves.values() for half in set(both))
    turns: list[Turn] = []
    for index, (passage, (first, middle)) in enumerate(halves.items()):
        preferred = [middle, first] if index % 2 else [first, middle]
        asked = next((half for half in preferred if often[half] == 1), None)
        if asked is not None:
            turns.append(Turn(question(f"{asked}?"), tokens_of(passage)[:LENGTH]))
    return turns


def _halves(passage: str) -> tuple[str, str]:
    """Return the first and the middle half of a passage's words, without marks such as those of tables."""
    words = [word for word in passage.split() if any(map(str.isalnum, word))] or [passage]
    half = max(2, (len(words) + 1) // 2)
    halves = (words[:half], words[len(words) // 4 :][:half])
    first, middle = (" ".join(words).rstrip(".:;,?!") for words in halves)
    return first, middle


def passages(text: str) -> list[str]:
    """Cut a text, unchanged, at the ends of sentences and lines; short ones are joined and long ones cut.

    Example:
        >>> passages("Doors open. Ring twice if nobody comes. The keys hang on the hook by the stairs.")
        ['Doors open. Ring twice if nobody comes.', 'The keys hang on the hook by the stairs.']
    """
    ends = {match.start() for match in _PASSAGE_END.finditer(text)}
    starts: list[int] = []
    words = 0
    last = 0
    for word in re.finditer(r"\S+", text):
        if words == 0:
            starts.append(word.start())
        words += 1
        last = word.end()
        if words == _MOST_WORDS or (words >= _FEWEST_WORDS and last in ends):
            words = 0
    # Too few words at the end belong to the passage before them.
    if 0 < words < _FEWEST_WORDS and len(starts) > 1:
        starts.pop()
    return [text[start:end].rstrip() for start, end in pairwise([*starts, last])]


def spread(items: Sequence[Any], at_most: int) -> list[Any]:
    """Return at most this many of the items, evenly spread."""
    count = min(at_most, len(items))
    return [items[i * len(items) // count] for i in range(count)]


def sentences_of(text: str) -> list[str]:
    """Split a text at full stops and line ends; single words are dropped.

    A full stop after initials and before a lower-case letter ends none, as in "7 a.m. to 9 p.m.".
    """
    parts = re.split(rf"(?<=[!?:;])\s+|(?<=\.){_NOT_ABBREVIATED}\s+|\n+", text)
    return [part.strip() for part in parts if len(part.split()) > 1]
