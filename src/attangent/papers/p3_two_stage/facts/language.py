"""Training of a GPT-2 from scratch on facts: it learns the type of an answer first, then the right answer."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace

import pandas as pd
import torch
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent.papers.p3_two_stage.facts.corpora import FactCorpus
from attangent.papers.p3_two_stage.facts.fact_model import FactBatch, FactModel, Reading, Vocabulary


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
            if not getattr(self, name) > 0:
                raise AttangentError(f"{name} is {getattr(self, name)}; expected more than 0")
        for name in ("weight_decay", "warmup_steps"):
            if getattr(self, name) < 0:
                raise AttangentError(f"{name} is {getattr(self, name)}; expected 0 or more")
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
