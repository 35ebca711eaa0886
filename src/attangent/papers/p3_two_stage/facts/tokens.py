"""Words as numbers: one token a word of a prompt, one token a whole answer."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent.papers.p3_two_stage.facts.corpus import Example, FactCorpus

_WORD = re.compile(r"\w+|[^\w\s]")
PADDING = "<pad>"


@dataclass(frozen=True)
class Batch:
    """Prompts as ids (n, longest), padded on the right; `last` (n) is the place of each one's last word."""

    ids: Tensor
    last: Tensor
    answer: Tensor
    type: Tensor

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, rows: Tensor | slice) -> "Batch":
        last = self.last[rows]
        longest = int(last.max()) + 1
        return Batch(self.ids[rows][:, :longest], last, self.answer[rows], self.type[rows])


@dataclass(frozen=True)
class Vocabulary:
    """All words of a corpus, its answers, and which answers are of which type."""

    words: tuple[str, ...]
    type_names: tuple[str, ...]
    is_type: Tensor
    """(types, words): whether the word is an answer of the type."""

    @classmethod
    def of(cls, corpus: FactCorpus) -> "Vocabulary":
        """Words of all prompts, held-out ones too, and every answer."""
        examples = (*corpus.training, *corpus.held_out)
        found = {word for example in examples for word in _WORD.findall(example.prompt)}
        words = (PADDING, *sorted(found | set(corpus.answers)))
        place = {word: number for number, word in enumerate(words)}
        is_type = torch.zeros(len(corpus.types), len(words), dtype=torch.bool)
        for row, answers in enumerate(corpus.types.values()):
            is_type[row, [place[answer] for answer in answers]] = True
        return cls(words, tuple(corpus.types), is_type)

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def _place(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    @cached_property
    def _type_place(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.type_names)}

    def encode(self, examples: Sequence[Example]) -> Batch:
        """The examples as one batch."""
        if not examples:
            raise AttangentError("no examples to encode, expected at least one")
        rows = [[self._id(word) for word in _WORD.findall(example.prompt)] for example in examples]
        ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
        for row, numbers in enumerate(rows):
            ids[row, : len(numbers)] = torch.tensor(numbers)
        return Batch(
            ids=ids,
            last=torch.tensor([len(numbers) - 1 for numbers in rows]),
            answer=torch.tensor([self._id(example.answer) for example in examples]),
            type=torch.tensor([self._type_place[example.type] for example in examples]),
        )

    def _id(self, word: str) -> int:
        if word not in self._place:
            raise AttangentError(f"the word {word!r} is not in the vocabulary of this corpus")
        return self._place[word]
