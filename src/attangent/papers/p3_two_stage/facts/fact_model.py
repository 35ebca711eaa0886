"""GPT-2 that answers facts with one token, and the exact split of its loss into type and answer."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from attangent._core.checks import check_size
from attangent._core.memory import check_memory
from attangent.papers.p3_two_stage.facts.tokens import Batch, Vocabulary

if TYPE_CHECKING:
    from transformers import GPT2LMHeadModel


def split_loss(log_probabilities: Tensor, answer: Tensor, is_type: Tensor) -> tuple[Tensor, Tensor]:
    """The two parts of -log p(answer) = -log p(type) - log p(answer | type), in float64.

    p(type) is the sum of p over the answers of the type, the right one among them; for prompts n and
    words v the arguments are (n, v), (n) and (n, v).
    """
    logs = log_probabilities.double()
    type_log = logs.masked_fill(~is_type, -torch.inf).logsumexp(-1)
    answer_log = logs.gather(-1, answer[..., None])[..., 0]
    return -type_log, type_log - answer_log


@dataclass(frozen=True)
class Reading:
    """How a model does on examples: accuracies and the two parts of its mean loss."""

    syntax: float
    """Share of answers of the right type."""
    semantics: float
    """Share of right answers."""
    type_loss: float
    """Mean of -log p(type)."""
    answer_loss: float
    """Mean of -log p(answer | type)."""

    @property
    def loss(self) -> float:
        return self.type_loss + self.answer_loss


class FactModel:
    """A GPT-2 over the words of a corpus: the token after the last word of a prompt is its answer."""

    def __init__(self, gpt2: "GPT2LMHeadModel", vocabulary: Vocabulary):
        self.gpt2, self.vocabulary = gpt2, vocabulary

    @classmethod
    def initial(
        cls, vocabulary: Vocabulary, longest: int, width: int, layers: int, heads: int, seed: int
    ) -> "FactModel":
        """GPT-2 of this size, initialised as transformers does, without dropout."""
        from transformers import GPT2Config, GPT2LMHeadModel

        for name, size in (("longest", longest), ("width", width), ("layers", layers), ("heads", heads)):
            check_size(name, size)
        check_memory("the layers", 4, layers=layers, width=width, weights_for_each=12 * width)
        check_memory("the embeddings", 4, words=len(vocabulary) + longest, width=width)
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

    def log_probabilities(self, batch: Batch) -> Tensor:
        """log p(token | prompt), (prompts, words). Padding follows the last word, so causality hides it."""
        hidden = self.gpt2.transformer(batch.ids).last_hidden_state
        last = hidden[torch.arange(len(batch)), batch.last]
        return self.gpt2.lm_head(last).log_softmax(-1)

    def loss(self, batch: Batch) -> Tensor:
        """Mean of -log p(answer)."""
        return -self.log_probabilities(batch).gather(1, batch.answer[:, None]).mean()

    def read(self, batch: Batch, chunk: int = 512) -> Reading:
        """Accuracies and the split loss on these examples."""
        parts = [self._read(batch[at : at + chunk]) for at in range(0, len(batch), chunk)]
        return Reading(*(torch.cat(part).mean().item() for part in zip(*parts, strict=True)))

    @torch.no_grad()
    def _read(self, batch: Batch) -> tuple[Tensor, ...]:
        logs, is_type = self.log_probabilities(batch), self.vocabulary.is_type[batch.type]
        right = _judged(logs, batch.answer, is_type)
        return *(part.double() for part in right), *split_loss(logs, batch.answer, is_type)

    @torch.no_grad()
    def judge(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Which answers are of the right type, and which are right, (prompts) each."""
        return _judged(self.log_probabilities(batch), batch.answer, self.vocabulary.is_type[batch.type])

    @torch.no_grad()
    def answers(self, batch: Batch) -> list[str]:
        """The most likely token after each prompt."""
        return [self.vocabulary.words[place] for place in self.log_probabilities(batch).argmax(-1).tolist()]


def _judged(log_probabilities: Tensor, answer: Tensor, is_type: Tensor) -> tuple[Tensor, Tensor]:
    predicted = log_probabilities.argmax(-1)
    return is_type.gather(-1, predicted[..., None])[..., 0], predicted == answer
