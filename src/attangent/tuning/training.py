"""One training run on transformers' Trainer: checkpoints, resumption, many processes, its numbers."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attangent._core.checks import check_not_negative, check_positive, check_size
from attangent._core.errors import AttangentError
from attangent.tuning.checkpoints import last_whole_checkpoint
from attangent.tuning.encoding import token_counts
from attangent.tuning.memory import PeakMemory
from attangent.tuning.methods import trained_sizes
from attangent.tuning.processes import part_at_exit
from attangent.tuning.tasks import NEEDS, TaskKind
from attangent.tuning.trainer import make_trainer

_SCORED_AT_ONCE = 32

Rows = Sequence[dict[str, Any]]
Collate = Callable[[Rows], dict[str, Tensor]]


@dataclass(frozen=True)
class Training:
    """How long and how fast, the same for every method but the learning rate.

    batch: examples a step and process; the optimiser steps after `accumulate` of them.
    head_rate: learning rate of a classifier beside the method's own; None is the method's. One that starts
        in closed form has a fifth of it.
    by_length: examples of like length share a batch, which saves padding where lengths differ.
    checkpoint_steps: write a checkpoint every so many steps, to resume from; 0 is about every minute, or
        ten times in a run of several processes.
    """

    epochs: float = 4.0
    batch: int = 16
    accumulate: int = 1
    head_rate: float | None = 5e-3
    weight_decay: float = 0.0
    warmup: float = 0.1
    bf16: bool = False
    by_length: bool = False
    checkpoint_steps: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        check_size("batch", self.batch)
        check_size("accumulate", self.accumulate)
        check_size("checkpoint_steps", self.checkpoint_steps, least=0)
        check_positive("epochs", self.epochs)
        if self.head_rate is not None:
            check_positive("head_rate", self.head_rate)
        check_not_negative("weight_decay", self.weight_decay)
        if not 0 <= self.warmup < 1:
            raise AttangentError(f"warmup is {self.warmup}, expected a share of at least 0 and below 1")


@dataclass(frozen=True)
class Job:
    """A model ready to train, its data, and where checkpoints go.

    weights: one for each class in the loss; None is one for all.
    watch: called after each step with its number, the number of steps and the loss.
    rate_scale: the rate of a parameter relative to `rate`, or to the classifier's own, by its name.
    guard: makes a callback of transformers' for the trainer, which may end the run early.
    """

    model: Any
    kind: TaskKind
    rate: float
    rows: Any
    collate: Collate
    folder: Path
    weights: Tensor | None = None
    watch: Callable[[int, int, float], None] | None = None
    rate_scale: Callable[[str], float] = lambda name: 1.0
    guard: Callable[[Any], Any] | None = None


def train(job: Job, training: Training) -> tuple[Any, dict[str, float]]:
    """Train, from the last checkpoint in the folder if there is one; the trainer and what it took."""
    trainer, numbers = run_trainer(job, training)
    check_finite(numbers["train_loss"], job.rate)
    return trainer, numbers


def check_finite(loss: float, rate: float) -> None:
    if not math.isfinite(loss):
        raise AttangentError(f"the loss became {loss}; give a smaller learning rate than {rate}")


def run_trainer(job: Job, training: Training) -> tuple[Any, dict[str, float]]:
    """`train` without a look at the loss, which may have been lost."""
    trainer = make_trainer(job, training)
    part_at_exit()
    last = last_whole_checkpoint(job.folder)
    started = time.perf_counter()
    with PeakMemory() as memory:
        trainer.train(resume_from_checkpoint=None if last is None else str(last))
    return trainer, _numbers(trainer, time.perf_counter() - started, memory.bytes)


def _numbers(trainer: Any, seconds: float, peak: float) -> dict[str, float]:
    sizes = trained_sizes(trainer.accelerator.unwrap_model(trainer.model))
    return {
        "train_loss": trainer.mean_loss(),
        "steps": float(trainer.state.global_step),
        "seconds": seconds,
        "peak_megabytes": peak / 1e6,
        **{name: float(size) for name, size in sizes.items()},
    }


def untrained(job: Job, training: Training) -> tuple[Any, dict[str, float]]:
    """The trainer of a job that needs no training, and its numbers."""
    trainer = make_trainer(job, training)
    return trainer, _numbers(trainer, 0.0, 0.0)


def score(trainer: Any, rows: Any, kind: TaskKind) -> dict[str, float]:
    """Mean loss over examples, or over tokens that are learnt; accuracy of labels, R^2 of values.

    Every process takes its share of the rows, and each row counts once.
    """
    tally = _tally_values if NEEDS[kind].values else _tally
    totals = torch.zeros(4, dtype=torch.float64)
    for _, logits, labels in _answers(trainer, rows):
        totals += tally(logits, labels, kind).double().cpu()
    count, loss, *rest = trainer.accelerator.reduce(totals.to(trainer.args.device), "sum").tolist()
    found = {"loss": loss / count}
    if NEEDS[kind].values:
        return {**found, "r2": _explained(count, loss, *rest)}
    return {**found, "accuracy": rest[0] / count} if NEEDS[kind].classifier else found


def row_errors(trainer: Any, rows: Any, kind: TaskKind) -> list[float]:
    """How wrong each row is: 1 - p(label), the share of wrong answers to be expected; of numbers (y - f)^2.

    For texts that go on, p is the geometric mean of the probabilities of the tokens that are learnt.
    """
    found = torch.zeros(len(rows), dtype=torch.float64)
    for places, logits, labels in _answers(trainer, rows):
        found[places] = _wrongness(logits.double(), labels, kind).cpu()
    return trainer.accelerator.reduce(found.to(trainer.args.device), "sum").tolist()


def _wrongness(logits: Tensor, labels: Tensor, kind: TaskKind) -> Tensor:
    if NEEDS[kind].values:
        return (logits.squeeze(-1) - labels.double()).square()
    if NEEDS[kind].classifier:
        return 1 - logits.softmax(-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    logits, labels = _following(logits, labels)
    losses = F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=-100, reduction="none")
    counted = (labels != -100).sum(-1).clamp(min=1)
    return 1 - torch.exp(-losses.sum(-1) / counted)


def _following(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The logits at each token with the token that follows it."""
    return logits[:, -labels.shape[1] :][:, :-1], labels[:, 1:]


def _answers(trainer: Any, rows: Any) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """The places of this process's rows, the model's logits there and the labels, a batch at a time."""
    accelerator = trainer.accelerator
    model = accelerator.unwrap_model(trainer.model).eval()
    own = list(range(accelerator.process_index, len(rows), accelerator.num_processes))
    own.sort(key=(token_counts(rows) or [0] * len(rows)).__getitem__)
    for start in range(0, len(own), _SCORED_AT_ONCE):
        places = own[start : start + _SCORED_AT_ONCE]
        batch = trainer.data_collator([rows[i] for i in places])
        batch = {name: value.to(trainer.args.device) for name, value in batch.items()}
        labels = batch.pop("labels")
        with torch.no_grad(), trainer.compute_loss_context_manager():
            logits = model(**batch).logits.float()
        yield places, logits, labels


def _explained(count: float, squares: float, values: float, squared_values: float) -> float:
    """R^2 = 1 - sum (y - f)^2 / sum (y - mean y)^2; not a number where all y are the same."""
    spread = squared_values - values**2 / count
    return 1 - squares / spread if spread > 0 else math.nan


def _tally_values(logits: Tensor, labels: Tensor, kind: TaskKind) -> Tensor:
    """How many were counted, summed squared errors, summed values and their squares."""
    values = labels.double()
    errors = (logits.squeeze(-1).double() - values).square().sum()
    return torch.stack([values.new_tensor(len(values)), errors, values.sum(), values.square().sum()])


def _tally(logits: Tensor, labels: Tensor, kind: TaskKind) -> Tensor:
    """How many were counted, summed loss, hits, nothing."""
    if kind == "causal-lm":
        logits, labels = (part.flatten(0, 1) for part in _following(logits, labels))
    loss = F.cross_entropy(logits, labels, ignore_index=-100, reduction="sum")
    counted = labels != -100
    hits = (logits.argmax(-1) == labels)[counted].sum()
    return torch.stack([counted.sum(), loss, hits, torch.zeros_like(loss)])
