"""Run a training with transformers' Trainer, measure its cost, and score its model."""

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from attangent._core.deprecation import moved_names
from attangent._core.errors import AttangentError
from attangent.tuning.encoding import token_counts
from attangent.tuning.tasks import NEEDS, TaskKind, trained_sizes
from attangent.tuning.trainer import last_complete_checkpoint, leave_group_at_exit

_SCORED_AT_ONCE = 32
_RESET = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")


def train(trainer: Any, check_loss: bool = True) -> dict[str, float]:
    """Train from the last checkpoint in the trainer's folder, if there is one, and return the cost.

    Args:
        trainer: As `make_trainer` built it.
        check_loss: Raise if the loss is not finite.

    Returns:
        Mean loss, steps, seconds, peak memory and the numbers of trained parameters.

    Raises:
        AttangentError: If the loss diverged.
    """
    leave_group_at_exit()
    checkpoint = last_complete_checkpoint(Path(trainer.args.output_dir))
    started = time.perf_counter()
    with PeakMemory() as memory:
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    cost = training_cost(trainer, time.perf_counter() - started, memory.bytes)
    if check_loss and not math.isfinite(cost["train_loss"]):
        rate = trainer.args.learning_rate
        raise AttangentError(
            f"the loss became {cost['train_loss']}; use a smaller learning rate than {rate}."
        )
    return cost


def training_cost(trainer: Any, seconds: float, peak: float = 0.0) -> dict[str, float]:
    """Return the loss, the number of steps and parameters, and what the training took."""
    sizes = trained_sizes(trainer.accelerator.unwrap_model(trainer.model))
    return {
        "train_loss": trainer.mean_loss(),
        "steps": float(trainer.state.global_step),
        "seconds": seconds,
        "peak_megabytes": peak / 1e6,
        **{name: float(size) for name, size in sizes.items()},
    }


class PeakMemory:
    """Measure the peak bytes of a block: of the GPU if there is one, else of the process.

    Only Linux can reset the peak of a process; elsewhere `bytes` is not a number.

    Example:
        >>> with PeakMemory() as memory:
        ...     _ = torch.zeros(10)
        >>> memory.bytes > 0 or math.isnan(memory.bytes)
        True
    """

    bytes: float = math.nan

    def __enter__(self) -> "PeakMemory":
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        elif _RESET.exists():
            try:
                _RESET.write_text("5")
            except OSError:
                return self
        return self

    def __exit__(self, *_: object) -> None:
        if torch.cuda.is_available():
            self.bytes = float(torch.cuda.max_memory_allocated())
        elif _STATUS.exists():
            lines = _STATUS.read_text().splitlines()
            peak = next((line.split()[1] for line in lines if line.startswith("VmHWM")), None)
            self.bytes = math.nan if peak is None else float(peak) * 1024


def score(trainer: Any, rows: Any, kind: TaskKind) -> dict[str, float]:
    """Score the trainer's model: mean loss per example or trained token, and the accuracy of a classifier.

    Every process scores its share of the rows, and each row counts once.
    """
    totals = torch.zeros(3, dtype=torch.float64)
    for _, logits, labels in _outputs(trainer, rows):
        totals += _tally(logits, labels, kind).double().cpu()
    count, loss, hits = trainer.accelerator.reduce(totals.to(trainer.args.device), "sum").tolist()
    return {"loss": loss / count} | ({"accuracy": hits / count} if NEEDS[kind].classifier else {})


def outputs_of(trainer: Any, rows: Any) -> Float[Tensor, "rows classes"]:
    """Return the logits of each row, or its predicted number; each process computes its share."""
    outputs = torch.zeros(0)
    for indices, logits, _ in _outputs(trainer, rows):
        if not len(outputs):
            outputs = torch.zeros(len(rows), logits.shape[-1], device=logits.device)
        outputs[indices] = logits
    return trainer.accelerator.reduce(outputs, "sum").cpu()


def _shifted(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Pair the logits at each token with the next token."""
    return logits[:, -labels.shape[1] :][:, :-1], labels[:, 1:]


def _outputs(trainer: Any, rows: Any) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """Yield indices, logits and labels of this process's rows, one batch at a time."""
    accelerator = trainer.accelerator
    model = accelerator.unwrap_model(trainer.model).eval()
    order = list(range(accelerator.process_index, len(rows), accelerator.num_processes))
    order.sort(key=(token_counts(rows) or [0] * len(rows)).__getitem__)
    for start in range(0, len(order), _SCORED_AT_ONCE):
        indices = order[start : start + _SCORED_AT_ONCE]
        batch = trainer.data_collator([rows[i] for i in indices])
        batch = {name: value.to(trainer.args.device) for name, value in batch.items()}
        labels = batch.pop("labels")
        with torch.no_grad(), trainer.compute_loss_context_manager():
            logits = model(**batch).logits.float()
        yield indices, logits, labels


def _tally(logits: Tensor, labels: Tensor, kind: TaskKind) -> Float[Tensor, "3"]:
    """Return the number of labels, the summed loss and the number of hits."""
    if kind == "causal-lm":
        logits, labels = (part.flatten(0, 1) for part in _shifted(logits, labels))
    loss = F.cross_entropy(logits, labels, ignore_index=-100, reduction="sum")
    counted = labels != -100
    hits = (logits.argmax(-1) == labels)[counted].sum()
    return torch.stack([counted.sum(), loss, hits])


__getattr__ = moved_names(__name__, "0.2", {"Training": "attangent.tuning:TrainingSettings"})
