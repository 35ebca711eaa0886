"""GPT-2 that answers facts with one token, and the exact split of its loss into type and answer."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attangent._core.checks import check_size
from attangent._core.errors import AttangentError
from attangent.papers.p3_two_stage.facts.corpora import FactCorpus, FactExample

if TYPE_CHECKING:
    from transformers import GPT2LMHeadModel

_WORD = re.compile(r"\w+|[^\w\s]")
PADDING = "<pad>"


@dataclass(frozen=True)
class FactBatch:
    """Prompts as ids, padded on the right; `last` is the position of each prompt's last word."""

    ids: Int[Tensor, "prompts longest"]
    last: Int[Tensor, " prompts"]
    answer: Int[Tensor, " prompts"]
    type: Int[Tensor, " prompts"]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, rows: Tensor | slice) -> "FactBatch":
        last = self.last[rows]
        longest = int(last.max()) + 1
        return FactBatch(self.ids[rows][:, :longest], last, self.answer[rows], self.type[rows])


@dataclass(frozen=True)
class Vocabulary:
    """All words of a corpus and its answers: one token per word of a prompt, one per answer.

    Attributes:
        words: The token of each id.
        type_names: The names of the types.
        is_type: Whether a word is an answer of a type.
    """

    words: tuple[str, ...]
    type_names: tuple[str, ...]
    is_type: Bool[Tensor, "types words"]

    @classmethod
    def of(cls, corpus: FactCorpus) -> "Vocabulary":
        """Return the words of all prompts, held-out ones included, and every answer."""
        examples = (*corpus.training, *corpus.held_out)
        seen = {word for example in examples for word in _WORD.findall(example.prompt)}
        words = (PADDING, *sorted(seen | set(corpus.answers)))
        ids = {word: number for number, word in enumerate(words)}
        is_type = torch.zeros(len(corpus.types), len(words), dtype=torch.bool)
        for row, answers in enumerate(corpus.types.values()):
            is_type[row, [ids[answer] for answer in answers]] = True
        return cls(words, tuple(corpus.types), is_type)

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    def encode(self, examples: Sequence[FactExample]) -> FactBatch:
        """Return the examples as one batch."""
        if not examples:
            raise AttangentError("no examples to encode; pass at least one")
        rows = [[self._id(word) for word in _WORD.findall(example.prompt)] for example in examples]
        ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
        for row, numbers in enumerate(rows):
            ids[row, : len(numbers)] = torch.tensor(numbers)
        return FactBatch(
            ids=ids,
            last=torch.tensor([len(numbers) - 1 for numbers in rows]),
            answer=torch.tensor([self._id(example.answer) for example in examples]),
            type=torch.tensor([self.type_names.index(example.type) for example in examples]),
        )

    def _id(self, word: str) -> int:
        if word not in self._ids:
            raise AttangentError(f"the word {word!r} is not in the vocabulary of this corpus")
        return self._ids[word]


def split_loss(
    log_probabilities: Float[Tensor, "prompts words"],
    answer: Int[Tensor, " prompts"],
    is_type: Bool[Tensor, "prompts words"],
) -> tuple[Float[Tensor, " prompts"], Float[Tensor, " prompts"]]:
    """Return the two terms of -log p(answer) = -log p(type) - log p(answer | type), in float64.

    p(type) is the sum of p over the answers of the type, the right one included.
    """
    logs = log_probabilities.double()
    type_log = logs.masked_fill(~is_type, -torch.inf).logsumexp(-1)
    answer_log = logs.gather(-1, answer[..., None])[..., 0]
    return -type_log, type_log - answer_log


@dataclass(frozen=True)
class Reading:
    """Accuracies of a model on examples, and the two terms of its mean loss.

    Attributes:
        syntax: Fraction of answers of the right type.
        semantics: Fraction of right answers.
        type_loss: Mean of -log p(type).
        answer_loss: Mean of -log p(answer | type).
    """

    syntax: float
    semantics: float
    type_loss: float
    answer_loss: float

    @property
    def loss(self) -> float:
        return self.type_loss + self.answer_loss


class FactModel:
    """A GPT-2 over the words of a corpus: the token after the last word of a prompt is its answer."""

    def __init__(self, gpt2: "GPT2LMHeadModel", vocabulary: Vocabulary):
        self.gpt2 = gpt2
        self.vocabulary = vocabulary

    @classmethod
    def initial(
        cls, vocabulary: Vocabulary, longest: int, width: int, layers: int, heads: int, seed: int
    ) -> "FactModel":
        """Return a GPT-2 of this size, initialised as transformers does, without dropout."""
        from transformers import GPT2Config, GPT2LMHeadModel

        for name, size in (("longest", longest), ("width", width), ("layers", layers), ("heads", heads)):
            check_size(name, size)
        config = GPT2Config(
            vocab_size=len(vocabulary),
            n_positions=longest,
            n_embd=width,
            n_layer=layers,
            n_head=heads,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=0,
            eos_token_id=0,
            use_cache=False,
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return cls(GPT2LMHeadModel(config), vocabulary)

    def log_probabilities(self, batch: FactBatch) -> Float[Tensor, "prompts words"]:
        """Return log p(token | prompt)."""
        # padding follows the last word, so the causal mask hides it
        hidden = self.gpt2.transformer(batch.ids).last_hidden_state
        last = hidden[torch.arange(len(batch)), batch.last]
        return self.gpt2.lm_head(last).log_softmax(-1)

    def loss(self, batch: FactBatch) -> Float[Tensor, ""]:
        """Return the mean of -log p(answer)."""
        return -self.log_probabilities(batch).gather(1, batch.answer[:, None]).mean()

    def read(self, batch: FactBatch, chunk: int = 512) -> Reading:
        """Return accuracies and the split loss on these examples."""
        chunks = [self._read(batch[start : start + chunk]) for start in range(0, len(batch), chunk)]
        return Reading(*(torch.cat(values).mean().item() for values in zip(*chunks, strict=True)))

    @torch.no_grad()
    def _read(self, batch: FactBatch) -> tuple[Tensor, ...]:
        logs = self.log_probabilities(batch)
        is_type = self.vocabulary.is_type[batch.type]
        right = _judged(logs, batch.answer, is_type)
        return *(values.double() for values in right), *split_loss(logs, batch.answer, is_type)

    @torch.no_grad()
    def judge(self, batch: FactBatch) -> tuple[Bool[Tensor, " prompts"], Bool[Tensor, " prompts"]]:
        """Return which answers are of the right type, and which are right."""
        return _judged(self.log_probabilities(batch), batch.answer, self.vocabulary.is_type[batch.type])


def _judged(log_probabilities: Tensor, answer: Tensor, is_type: Tensor) -> tuple[Tensor, Tensor]:
    predicted = log_probabilities.argmax(-1)
    return is_type.gather(-1, predicted[..., None])[..., 0], predicted == answer
