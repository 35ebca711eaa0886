"""Train a GPT-2 from scratch on facts: it learns the type of an answer first, then the right answer."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attangent._core.checks import check_not_negative, check_positive, check_size
from attangent._core.errors import AttangentError
from attangent._core.random import generator
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


@dataclass(frozen=True)
class LanguageTraining:
    """Size of the GPT-2 and its training: AdamW with linear warm-up on the loss of the answer alone.

    Args:
        width: Width of the model.
        layers: Number of layers.
        heads: Number of attention heads; must divide the width.
        rate: The learning rate.
        weight_decay: The weight decay.
        warmup_steps: Steps of the warm-up.
        batch: Examples per step.
        epochs: Number of epochs.
        readings_per_epoch: How often accuracies and losses are measured.
        most_examples: Maximum number of examples per measurement.
        seed: Seed of the initial weights and of the order of examples.
    """

    width: int = 64
    layers: int = 2
    heads: int = 4
    rate: float = 2e-3
    weight_decay: float = 0.01
    warmup_steps: int = 20
    batch: int = 64
    epochs: int = 20
    readings_per_epoch: int = 2
    most_examples: int = 600
    seed: int = 0

    def __post_init__(self) -> None:
        sizes = ("width", "layers", "heads", "rate", "batch", "epochs", "readings_per_epoch", "most_examples")
        for name in sizes:
            check_positive(name, getattr(self, name))
        for name in ("weight_decay", "warmup_steps"):
            check_not_negative(name, getattr(self, name))
        if self.width % self.heads:
            raise AttangentError(f"width {self.width} is not divisible by {self.heads} heads")


@dataclass(frozen=True)
class Checkpoint:
    """The weights at one reading."""

    epoch: float
    reading: Reading
    weights: dict[str, Tensor] = field(repr=False)

    def copied(self) -> "Checkpoint":
        """Return a copy whose weights further training does not change."""
        return replace(self, weights={name: value.clone() for name, value in self.weights.items()})


@dataclass(frozen=True)
class LanguageRun:
    """A trained model, its accuracies and losses along the way (one row per reading), and its checkpoints."""

    model: FactModel
    corpus: FactCorpus
    readings: pd.DataFrame
    checkpoints: dict[str, Checkpoint]

    def restore(self, name: str) -> FactModel:
        """Return the model with the weights of a checkpoint."""
        if name not in self.checkpoints:
            raise AttangentError(f"no checkpoint {name!r}; expected one of {', '.join(self.checkpoints)}")
        self.model.gpt2.load_state_dict(self.checkpoints[name].weights)
        return self.model

    def first(self, column: str, level: float) -> float:
        """Return the first epoch at which `column` is at least `level`; inf if there is none."""
        reached = self.readings.loc[self.readings[column] >= level, "epoch"]
        return float(reached.iloc[0]) if len(reached) else float("inf")


def train_on_facts(
    corpus: FactCorpus,
    training: LanguageTraining,
    syntax_at: float = 0.95,
    on_reading: Callable[[float, Reading], None] | None = None,
) -> LanguageRun:
    """Train a GPT-2 on the corpus and keep two checkpoints.

    Args:
        corpus: The facts.
        training: Size of the model and settings of the training.
        syntax_at: Fraction of answers of the right type at which the checkpoint `syntax` is taken.
        on_reading: Called with epoch and reading whenever accuracies are measured.

    Returns:
        The run with the checkpoint `end` and, if the model got that far, `syntax`.
    """
    vocabulary = Vocabulary.of(corpus)
    examples = vocabulary.encode(corpus.training)
    unseen = vocabulary.encode(corpus.held_out) if corpus.held_out else None
    longest = max(batch.ids.shape[1] for batch in (examples, unseen) if batch is not None)
    model = FactModel.initial(
        vocabulary, longest, training.width, training.layers, training.heads, training.seed
    )
    measured = _some(examples, training)
    unseen = None if unseen is None else _some(unseen, training)
    rows: list[dict[str, float]] = []
    checkpoints: dict[str, Checkpoint] = {}
    for epoch in _epochs(model, examples, training):
        reading = model.read(measured)
        held_out = {} if unseen is None else _columns(model.read(unseen), "held-out ")
        rows.append({"epoch": epoch, **_columns(reading), **held_out})
        checkpoints["end"] = Checkpoint(epoch, reading, model.gpt2.state_dict())
        if reading.syntax >= syntax_at and "syntax" not in checkpoints:
            checkpoints["syntax"] = checkpoints["end"].copied()
        if on_reading is not None:
            on_reading(epoch, reading)
    checkpoints["end"] = checkpoints["end"].copied()
    return LanguageRun(model, corpus, pd.DataFrame(rows), checkpoints)


def _epochs(model: FactModel, examples: FactBatch, training: LanguageTraining) -> Iterator[float]:
    """Train while iterated; yield the epoch, starting at 0, whenever a reading is due."""
    random = generator(training.seed, "order of the facts")
    optimiser = torch.optim.AdamW(
        model.gpt2.parameters(),
        training.rate,
        betas=(0.9, 0.98),
        weight_decay=training.weight_decay,
        fused=True,
    )
    warmup = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min(1.0, (step + 1) / (training.warmup_steps + 1))
    )
    steps = -(-len(examples) // training.batch)
    due = {
        round(number * steps / training.readings_per_epoch)
        for number in range(1, training.readings_per_epoch + 1)
    }
    yield 0.0
    for epoch in range(training.epochs):
        order = torch.randperm(len(examples), generator=random)
        for step, rows in enumerate(order.split(training.batch), 1):
            optimiser.zero_grad()
            model.loss(examples[rows]).backward()
            optimiser.step()
            warmup.step()
            if step in due:
                yield epoch + step / steps


def _some(batch: FactBatch, training: LanguageTraining) -> FactBatch:
    """Return at most `most_examples` of the batch, always the same ones."""
    random = generator(training.seed, "examples to read")
    return batch[torch.randperm(len(batch), generator=random)[: training.most_examples]]


def _columns(reading: Reading, prefix: str = "") -> dict[str, float]:
    return {f"{prefix}{name}": value for name, value in asdict(reading).items()}
