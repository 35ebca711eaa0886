"""One training run on transformers' Trainer: checkpoints, resumption, many processes, its numbers."""

import math
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attangent._checks import check_size
from attangent._errors import AttangentError
from attangent.tuning.kinds import TaskKind
from attangent.tuning.memory import PeakMemory
from attangent.tuning.methods import is_head, trained_sizes
from attangent.tuning.order import SeededOrder
from attangent.tuning.processes import part_at_exit

_SCORED_AT_ONCE = 32

Rows = Sequence[dict[str, Any]]
Collate = Callable[[Rows], dict[str, Tensor]]


@dataclass(frozen=True)
class Training:
    """How long and how fast, the same for every method but the learning rate.

    batch: examples a step and process; the optimiser steps after `accumulate` of them.
    head_rate: learning rate of a classifier beside the method's own; None is the method's.
    by_length: examples of like length share a batch, which saves padding where lengths differ.
    checkpoint_steps: write a checkpoint every so many steps, to resume from; 0 is never.
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
        if not self.epochs > 0:
            raise AttangentError(f"epochs is {self.epochs}, expected a number above 0")
        if self.head_rate is not None and not self.head_rate > 0:
            raise AttangentError(f"head_rate is {self.head_rate}, expected a number above 0")
        if self.weight_decay < 0 or not 0 <= self.warmup < 1:
            raise AttangentError(
                f"weight_decay is {self.weight_decay} and warmup {self.warmup}, "
                "expected at least 0 and a share in [0, 1)"
            )
        if self.checkpoint_steps < 0:
            raise AttangentError(f"checkpoint_steps is {self.checkpoint_steps}, expected 0 or more")


@dataclass(frozen=True)
class Job:
    """A model ready to train, its data, and where checkpoints go."""

    model: Any
    kind: TaskKind
    rate: float
    rows: Any
    collate: Collate
    folder: Path


def train(job: Job, training: Training) -> tuple[Any, dict[str, float]]:
    """Train, from the last checkpoint in the folder if there is one; the trainer and what it took."""
    from transformers.trainer_utils import get_last_checkpoint

    trainer = make_trainer(job, training)
    part_at_exit()
    last = get_last_checkpoint(str(job.folder)) if job.folder.is_dir() else None
    started = time.perf_counter()
    with PeakMemory() as memory:
        trained = trainer.train(resume_from_checkpoint=last)
    own = torch.tensor(trained.training_loss, device=trainer.args.device)
    numbers = {
        "train_loss": float(trainer.accelerator.reduce(own, "mean")),
        "steps": float(trained.global_step),
        "seconds": time.perf_counter() - started,
        "peak_megabytes": memory.bytes / 1e6,
        **{name: float(size) for name, size in trained_sizes(job.model).items()},
    }
    if not math.isfinite(numbers["train_loss"]):
        raise AttangentError(
            f"the loss became {numbers['train_loss']}; give a smaller learning rate than {job.rate}"
        )
    return trainer, numbers


def score(trainer: Any, rows: Any, kind: TaskKind) -> dict[str, float]:
    """Mean loss over examples, or over tokens that are learnt, and accuracy where there are labels to hit.

    Every process takes its share of the rows, and each row counts once.
    """
    accelerator = trainer.accelerator
    model = accelerator.unwrap_model(trainer.model).eval()
    own = list(range(accelerator.process_index, len(rows), accelerator.num_processes))
    own.sort(key=(token_counts(rows) or [0] * len(rows)).__getitem__)
    totals = torch.zeros(3, dtype=torch.float64)
    for start in range(0, len(own), _SCORED_AT_ONCE):
        batch = trainer.data_collator([rows[i] for i in own[start : start + _SCORED_AT_ONCE]])
        batch = {name: value.to(trainer.args.device) for name, value in batch.items()}
        labels = batch.pop("labels")
        with torch.no_grad(), trainer.compute_loss_context_manager():
            logits = model(**batch).logits.float()
        totals += _tally(logits, labels, kind).double().cpu()
    loss, hits, count = accelerator.reduce(totals.to(trainer.args.device), "sum").tolist()
    found = {"loss": loss / count}
    return found if kind == "causal-lm" else {**found, "accuracy": hits / count}


def _tally(logits: Tensor, labels: Tensor, kind: TaskKind) -> Tensor:
    """Summed loss, hits and how many were counted."""
    if kind == "causal-lm":
        logits, labels = logits[:, -labels.shape[1] :][:, :-1].flatten(0, 1), labels[:, 1:].flatten()
    loss = F.cross_entropy(logits, labels, ignore_index=-100, reduction="sum")
    counted = labels != -100
    return torch.stack([loss, (logits.argmax(-1) == labels)[counted].sum(), counted.sum()])


def make_trainer(job: Job, training: Training) -> Any:
    """transformers' Trainer with our optimiser groups and checkpoints of what is trained only."""
    from transformers import PrinterCallback, TrainingArguments

    arguments = TrainingArguments(
        output_dir=str(job.folder),
        num_train_epochs=training.epochs,
        per_device_train_batch_size=training.batch,
        gradient_accumulation_steps=training.accumulate,
        learning_rate=job.rate,
        warmup_steps=training.warmup,  # below 1 it is a share of all steps
        bf16=training.bf16,
        use_cpu=not torch.accelerator.is_available(),
        seed=training.seed,
        data_seed=training.seed,
        save_strategy="steps" if training.checkpoint_steps else "no",
        save_steps=training.checkpoint_steps or 500,
        save_total_limit=2,
        train_sampling_strategy="group_by_length" if training.by_length else "random",
        logging_strategy="no",
        logging_nan_inf_filter=False,
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
        label_names=["labels"],
        dataloader_pin_memory=torch.cuda.is_available(),
        ddp_find_unused_parameters=all(p.requires_grad for p in job.model.parameters()),
    )
    trainer = trainer_class()(
        model=job.model,
        args=arguments,
        train_dataset=job.rows,
        data_collator=job.collate,
        optimizers=(optimiser(job.model, job.rate, training), None),
    )
    trainer.remove_callback(PrinterCallback)
    if job.kind != "causal-lm":
        trainer.model_accepts_loss_kwargs = False  # their loss is a mean over the batch
    return trainer


def optimiser(model: nn.Module, rate: float, training: Training) -> torch.optim.Optimizer:
    """AdamW with the classifier in a group of its own; where only that trains, it has the method's rate."""
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    head = [p for name, p in trained if is_head(name)]
    others = [p for name, p in trained if not is_head(name)]
    groups = [
        {"params": others, "lr": rate},
        {"params": head, "lr": (training.head_rate or rate) if others else rate},
    ]
    return torch.optim.AdamW([g for g in groups if g["params"]], weight_decay=training.weight_decay)


@cache
def trainer_class() -> type[Any]:
    """Trainer whose checkpoints hold the trained tensors alone, and whose order is that of `SeededOrder`."""
    from safetensors.torch import load_file, save_file
    from transformers import Trainer

    class SmallCheckpoints(Trainer):
        def _get_train_sampler(self, train_dataset: Any = None) -> SeededOrder:
            rows: Any = self.train_dataset if train_dataset is None else train_dataset
            lengths = token_counts(rows) if self.args.train_sampling_strategy == "group_by_length" else None
            group = self.args.train_batch_size * self.args.world_size * self.args.gradient_accumulation_steps
            return SeededOrder(len(rows), self.args.seed, lengths, group)

        def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
            if self.args.should_save:
                folder = Path(output_dir or str(self.args.output_dir))
                folder.mkdir(parents=True, exist_ok=True)
                model = self.accelerator.unwrap_model(self.model)
                save_file(trained_tensors(model), folder / "trained.safetensors")

        def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
            model = self.accelerator.unwrap_model(self.model if model is None else model)
            put_tensors(model, load_file(Path(resume_from_checkpoint) / "trained.safetensors"))

    return SmallCheckpoints


def token_counts(rows: Any) -> list[int] | None:
    """How many tokens each row has; None for images, which all have the same."""
    if not len(rows) or "attention_mask" not in rows[0]:
        return None
    return [len(rows[i]["attention_mask"]) for i in range(len(rows))]


def trained_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter that trains, and the buffers that stand beside one."""
    found: dict[str, Tensor] = {}
    for path, module in model.named_modules():
        if any(p.requires_grad for p in module.parameters(recurse=False)):
            own = {
                **dict(module.named_parameters(recurse=False)),
                **dict(module.named_buffers(recurse=False)),
            }
            found |= {
                f"{path}.{name}" if path else name: t.detach().cpu().contiguous().clone()
                for name, t in own.items()
            }
    return found


def put_tensors(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Copy tensors back to where `trained_tensors` took them from."""
    places = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    expected = set(trained_tensors(model))
    if set(tensors) != expected:
        odd = sorted(set(tensors) ^ expected)
        raise AttangentError(
            f"the checkpoint and the model differ in {', '.join(odd[:4])}; start in another folder"
        )
    with torch.no_grad():
        for name, tensor in tensors.items():
            places[name].copy_(tensor)


def drop_checkpoints(folder: Path) -> None:
    """Remove what only a cut-off run needs."""
    for path in folder.glob("checkpoint-*"):
        shutil.rmtree(path)
