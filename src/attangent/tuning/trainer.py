"""transformers' Trainer as runs use it: groups of the optimiser, small checkpoints, the order of examples."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attangent._core.files import refusals, write_whole
from attangent.tuning.checkpoints import LOSS, TENSORS, keeper_class, put_tensors, trained_tensors
from attangent.tuning.encoding import token_counts
from attangent.tuning.methods import is_head
from attangent.tuning.sampler import SeededOrder
from attangent.tuning.tasks import NEEDS

if TYPE_CHECKING:
    from attangent.tuning.training import Job, Training


def make_trainer(job: "Job", training: "Training") -> Any:
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
        optimizers=(optimiser(job.model, job.rate, training, job.rate_scale), None),
        compute_loss_func=_loss_of(job),
    )
    trainer.watch = job.watch
    trainer.remove_callback(PrinterCallback)
    if job.guard is not None:
        trainer.add_callback(job.guard(trainer))
    elif not training.checkpoint_steps:
        trainer.add_callback(keeper_class()())
    if job.kind != "causal-lm":
        trainer.model_accepts_loss_kwargs = False  # their loss is a mean over the batch
    return trainer


def _loss_of(job: "Job") -> Callable[..., Tensor] | None:
    """The loss where it is not the model's own."""
    if NEEDS[job.kind].values:
        return _squared
    return None if job.weights is None else _weighted(job.weights)


def _squared(outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
    return F.mse_loss(outputs.logits.squeeze(-1).float(), labels.float())


def _weighted(weights: Tensor) -> Callable[..., Tensor]:
    """The loss in which each class has a weight."""

    def loss(outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
        logits = outputs.logits
        return F.cross_entropy(logits.float(), labels, weight=weights.to(logits.device))

    return loss


def optimiser(
    model: nn.Module, rate: float, training: "Training", scale: Callable[[str], float] = lambda name: 1.0
) -> torch.optim.Optimizer:
    """AdamW with the classifier in a group of its own; where only that trains, it has the method's rate.

    `scale` is by how much the rate of a parameter differs; there is one group for each rate.
    """
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    if all(is_head(name) for name, _ in trained):
        return torch.optim.AdamW([p for _, p in trained], rate, weight_decay=training.weight_decay)
    groups: dict[tuple[bool, float], list[nn.Parameter]] = {}
    for name, parameter in trained:
        own = (training.head_rate or rate) if is_head(name) else rate
        groups.setdefault((is_head(name), own * scale(name)), []).append(parameter)
    found = [{"params": groups[key], "lr": key[1]} for key in sorted(groups, key=lambda key: key[0])]
    return torch.optim.AdamW(found, weight_decay=training.weight_decay)


_Trainer: Any = object
"""Stands for transformers' Trainer, which is imported only where a run begins."""


class _SummedLoss(_Trainer):
    """A trainer that adds up its loss over all steps, and tells it to `watch` as it comes."""

    def __init__(self, *arguments: Any, **named: Any):
        super().__init__(*arguments, **named)
        self.loss_sum = torch.zeros(())
        self.watch: Callable[[int, int, float], None] | None = None

    def training_step(self, *arguments: Any, **named: Any) -> Tensor:
        loss = super().training_step(*arguments, **named)
        self.loss_sum += loss.to(self.loss_sum.device)
        if self.watch is not None:
            self.watch(self.state.global_step + 1, self.state.max_steps, float(loss))
        return loss

    def mean_loss(self) -> float:
        """The loss over all steps, those before a resumption too, as a mean over processes."""
        return self._loss_over_processes() / max(self.state.global_step, 1)

    def _loss_over_processes(self) -> float:
        total: Any = self.accelerator.reduce(self.loss_sum.to(self.args.device), "mean")
        return float(total)


class _SmallCheckpoints(_SummedLoss):
    """A trainer whose checkpoints hold the trained tensors and the loss alone."""

    loss_to_save = 0.0

    def _save_checkpoint(self, *arguments: Any, **named: Any) -> None:
        self.loss_to_save = self._loss_over_processes()
        with refusals(Path(str(self.args.output_dir)) / f"checkpoint-{self.state.global_step}"):
            super()._save_checkpoint(*arguments, **named)

    def _save_rng_state(self, output_dir: str) -> None:
        """Ends when every process has written its own, for what follows says that all is there."""
        super()._save_rng_state(output_dir)
        self.accelerator.wait_for_everyone()

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        from safetensors.torch import save_file

        if self.args.should_save:
            folder = Path(output_dir or str(self.args.output_dir))
            folder.mkdir(parents=True, exist_ok=True)
            model = self.accelerator.unwrap_model(self.model)
            save_file(trained_tensors(model), folder / TENSORS)
            write_whole(folder / LOSS, json.dumps(self.loss_to_save))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        from safetensors.torch import load_file

        model = self.accelerator.unwrap_model(self.model if model is None else model)
        put_tensors(model, load_file(Path(resume_from_checkpoint) / TENSORS))
        self.loss_sum.fill_(json.loads((Path(resume_from_checkpoint) / LOSS).read_text()))


class _SeededRows(_Trainer):
    """A trainer whose rows come in the order of `SeededOrder`."""

    def __init__(self, *arguments: Any, **named: Any):
        super().__init__(*arguments, **named)
        self.epochs = _order_of_epoch_class()()
        self.add_callback(self.epochs)

    def _get_train_sampler(self, train_dataset: Any = None) -> SeededOrder:
        rows: Any = self.train_dataset if train_dataset is None else train_dataset
        lengths = token_counts(rows) if self.args.train_sampling_strategy == "group_by_length" else None
        group = self.args.train_batch_size * self.args.world_size * self.args.gradient_accumulation_steps
        self.epochs.order = SeededOrder(len(rows), self.args.seed, lengths, group)
        return self.epochs.order


@cache
def _order_of_epoch_class() -> type[Any]:
    from transformers import TrainerCallback

    class OrderOfEpoch(TrainerCallback):
        """Names the epoch to the order itself: a loader that skips batches of several processes does not."""

        order = SeededOrder(0, 0)

        def on_epoch_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            self.order.set_epoch(int(state.epoch or 0))

    return OrderOfEpoch


@cache
def trainer_class() -> type[Any]:
    """Trainer whose checkpoints hold the trained tensors alone, and whose order is that of `SeededOrder`."""
    from transformers import Trainer

    class SmallCheckpointsTrainer(_SmallCheckpoints, _SeededRows, Trainer):
        """transformers' Trainer with what stands above."""

    return SmallCheckpointsTrainer
