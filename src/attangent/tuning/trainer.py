"""transformers' Trainer with optimiser groups, small checkpoints and a reproducible order of examples."""

import atexit
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Sampler

from attangent._core.errors import AttangentError
from attangent._core.files import refusals, write_whole
from attangent._core.progress import Bars, in_notebook
from attangent._core.random import generator
from attangent.tuning.encoding import token_counts
from attangent.tuning.tasks import NEEDS, is_head

if TYPE_CHECKING:
    from attangent.tuning.prepared import PreparedTask
    from attangent.tuning.request import TrainingSettings

TENSORS = "trained.safetensors"
LOSS = "loss.json"
# Files of a complete checkpoint; the last one is written last.
_CHECKPOINT_FILES = (TENSORS, LOSS, "optimizer.pt", "scheduler.pt", "trainer_state.json")
EVERY_SECONDS = 60.0
# Pause between checkpoints: this many seconds, and this many times the time of writing one.
LEAST_SHARE = 20.0
_GROUPS_SORTED_AT_ONCE = 32
_SECONDS_BETWEEN_LINES = 60.0
StepReport = Callable[[int, int, float], None]
Penalty = Callable[[Any, int], Tensor]


def make_trainer(
    task: "PreparedTask",
    rate: float,
    training: "TrainingSettings",
    folder: Path,
    *,
    rate_scale: Callable[[str], float] = lambda name: 1.0,
    report: StepReport | None = None,
    penalty: Penalty | None = None,
) -> Any:
    """Build a transformers Trainer for the task's model, which is already adapted.

    Args:
        task: The model and its training rows.
        rate: Learning rate of the method.
        training: Length and speed of the training.
        folder: Folder of the checkpoints.
        rate_scale: Learning rate of a parameter, by name, relative to that of its group.
        report: Called after each step with its number, the number of steps and the loss.
        penalty: A term that is added to the loss, as a function of the model and the step.

    Returns:
        The trainer.
    """
    from transformers import PrinterCallback, TrainingArguments

    arguments = TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=training.epochs,
        per_device_train_batch_size=training.batch,
        gradient_accumulation_steps=training.accumulate,
        learning_rate=rate,
        warmup_steps=training.warmup,  # below 1 it is a fraction of all steps
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
        ddp_find_unused_parameters=all(p.requires_grad for p in task.model.parameters()),
    )
    trainer = _trainer_class()(
        model=task.model,
        args=arguments,
        train_dataset=task.train,
        data_collator=task.collate,
        optimizers=(optimiser(task.model, rate, training, rate_scale), None),
        compute_loss_func=_loss_of(task),
    )
    trainer.report = report
    trainer.penalty = penalty
    trainer.remove_callback(PrinterCallback)
    if not training.checkpoint_steps:
        trainer.add_callback(_timed_checkpoints())
    if task.kind != "causal-lm":
        trainer.model_accepts_loss_kwargs = False  # their loss is a mean over the batch
    return trainer


def _loss_of(task: "PreparedTask") -> Callable[..., Tensor] | None:
    """Return the loss, or None if it is the model's own."""
    if NEEDS[task.kind].values:
        return _squared_loss
    return None if task.class_weights is None else _weighted_loss(task.class_weights)


def _squared_loss(outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
    return F.mse_loss(outputs.logits.squeeze(-1).float(), labels.float())


def _weighted_loss(weights: Tensor) -> Callable[..., Tensor]:
    def loss(outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
        logits = outputs.logits
        return F.cross_entropy(logits.float(), labels, weight=weights.to(logits.device))

    return loss


def optimiser(
    model: nn.Module,
    rate: float,
    training: "TrainingSettings",
    scale: Callable[[str], float] = lambda name: 1.0,
) -> torch.optim.Optimizer:
    """Build AdamW with one group per learning rate; a classifier that trains alone has the method's rate."""
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    if all(is_head(name) for name, _ in trained):
        return torch.optim.AdamW([p for _, p in trained], rate, weight_decay=training.weight_decay)
    groups: dict[tuple[bool, float], list[nn.Parameter]] = {}
    for name, parameter in trained:
        base = (training.head_rate or rate) if is_head(name) else rate
        groups.setdefault((is_head(name), base * scale(name)), []).append(parameter)
    ordered = [{"params": groups[key], "lr": key[1]} for key in sorted(groups, key=lambda key: key[0])]
    return torch.optim.AdamW(ordered, weight_decay=training.weight_decay)


# Stands for transformers' Trainer, which is imported when a run begins.
_Trainer: Any = object


class _SmallCheckpoints(_Trainer):
    """A Trainer that sums its loss, saves only trained tensors and orders rows by `SeededOrder`."""

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        # In float64 the sum of float32 losses is exact, so a resumed run gives the same digits.
        self.loss_sum = torch.zeros((), dtype=torch.float64)
        self.loss_to_save = 0.0
        self.report: StepReport | None = None
        self.penalty: Penalty | None = None
        self.orders: list[SeededOrder] = []
        # Without a reference to the trainer: in a cycle it would keep the process group alive at exit.
        self.add_callback(trainer_callback(on_epoch_begin=partial(_set_epoch, self.orders)))

    def training_step(self, model: Any, *arguments: Any, **options: Any) -> Tensor:
        loss = super().training_step(model, *arguments, **options)
        if self.penalty is not None:
            with self.compute_loss_context_manager():
                penalty = self.penalty(model, self.state.global_step)
            self.accelerator.backward(penalty / self.current_gradient_accumulation_steps)
        self.loss_sum += loss.to(self.loss_sum.device)
        if self.report is not None:
            self.report(self.state.global_step + 1, self.state.max_steps, float(loss))
        return loss

    def mean_loss(self) -> float:
        """Return the mean loss over all steps and processes, steps before a resumption included."""
        return self._loss_over_processes() / max(self.state.global_step, 1)

    def _loss_over_processes(self) -> float:
        if self.args.world_size == 1:
            return float(self.loss_sum)
        total: Any = self.accelerator.reduce(self.loss_sum.to(self.args.device), "mean")
        return float(total)

    def _save_checkpoint(self, *arguments: Any, **options: Any) -> None:
        self.loss_to_save = self._loss_over_processes()
        with refusals(Path(str(self.args.output_dir)) / f"checkpoint-{self.state.global_step}"):
            super()._save_checkpoint(*arguments, **options)

    def _save_rng_state(self, output_dir: str) -> None:
        super()._save_rng_state(output_dir)
        # The file that marks a checkpoint as complete comes next: wait until all processes have written.
        self.accelerator.wait_for_everyone()

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        from safetensors.torch import save_file

        if self.args.should_save:
            folder = Path(output_dir or str(self.args.output_dir))
            folder.mkdir(parents=True, exist_ok=True)
            save_file(trained_tensors(self.accelerator.unwrap_model(self.model)), folder / TENSORS)
            write_whole(folder / LOSS, json.dumps(self.loss_to_save))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        from safetensors.torch import load_file

        model = self.accelerator.unwrap_model(self.model if model is None else model)
        put_tensors(model, load_file(Path(resume_from_checkpoint) / TENSORS))
        self.loss_sum.fill_(json.loads((Path(resume_from_checkpoint) / LOSS).read_text()))

    def _get_train_sampler(self, train_dataset: Any = None) -> "SeededOrder":
        rows: Any = self.train_dataset if train_dataset is None else train_dataset
        lengths = token_counts(rows) if self.args.train_sampling_strategy == "group_by_length" else None
        group = self.args.train_batch_size * self.args.world_size * self.args.gradient_accumulation_steps
        self.orders.append(SeededOrder(len(rows), self.args.seed, lengths, group))
        return self.orders[-1]


def _set_epoch(orders: "list[SeededOrder]", args: Any, state: Any, control: Any, **_: Any) -> None:
    """Pass the epoch on: a loader that skips batches in several processes does not tell its sampler."""
    for order in orders:
        order.set_epoch(int(state.epoch or 0))


@cache
def _trainer_class() -> type[Any]:
    from transformers import Trainer

    return type("SmallCheckpointsTrainer", (_SmallCheckpoints, Trainer), {})


def trainer_callback(**events: Callable[..., Any]) -> Any:
    """Build a transformers callback from functions by the name of their event."""
    from transformers import TrainerCallback

    methods = {name: staticmethod(function) for name, function in events.items()}
    return type("Callback", (TrainerCallback,), methods)()


def _timed_checkpoints() -> Any:
    """Write a checkpoint every minute, or less often if writing takes long.

    Several processes write one every tenth of the run instead, as their clocks differ.
    """
    clock = {"last": time.monotonic(), "pause": EVERY_SECONDS, "began": 0.0}

    def on_step_end(args: Any, state: Any, control: Any, **_: Any) -> None:
        clock["began"] = time.monotonic()
        if args.world_size > 1:
            control.should_save = state.global_step % -(-state.max_steps // 10) == 0
        else:
            control.should_save = clock["began"] - clock["last"] > clock["pause"]

    def on_save(args: Any, state: Any, control: Any, **_: Any) -> None:
        clock["last"] = time.monotonic()
        clock["pause"] = max(EVERY_SECONDS, LEAST_SHARE * (clock["last"] - clock["began"]))

    return trainer_callback(on_step_end=on_step_end, on_save=on_save)


def last_complete_checkpoint(folder: Path) -> Path | None:
    """Return the latest complete checkpoint and remove later, incomplete ones."""
    for path in sorted(folder.glob("checkpoint-*"), key=_step, reverse=True):
        if _is_complete(path):
            return path
        shutil.rmtree(path, ignore_errors=True)  # other processes of the run do the same
    return None


def _step(path: Path) -> int:
    number = path.name.removeprefix("checkpoint-")
    return int(number) if number.isdigit() else -1


def _is_complete(path: Path) -> bool:
    try:
        json.loads((path / _CHECKPOINT_FILES[-1]).read_text())
        json.loads((path / LOSS).read_text())
    except (OSError, json.JSONDecodeError, UnicodeDecodeError):
        return False
    return all((path / name).is_file() for name in _CHECKPOINT_FILES)


def trained_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Copy every parameter that trains, and the buffers of the same modules."""
    tensors: dict[str, Tensor] = {}
    for path, module in model.named_modules():
        parameters = dict(module.named_parameters(recurse=False))
        if any(p.requires_grad for p in parameters.values()):
            for name, tensor in {**parameters, **dict(module.named_buffers(recurse=False))}.items():
                tensors[f"{path}.{name}" if path else name] = tensor.detach().cpu().contiguous().clone()
    return tensors


def put_tensors(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Copy tensors back to where `trained_tensors` took them from."""
    targets = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    differing = sorted(set(tensors) ^ set(trained_tensors(model)))
    if differing:
        raise AttangentError(
            f"the checkpoint and the model differ in {', '.join(differing[:4])}; use another folder."
        )
    with torch.no_grad():
        for name, tensor in tensors.items():
            targets[name].copy_(tensor)


class SeededOrder(Sampler[int]):
    """Order of the examples of an epoch, drawn from seed and epoch: equal for any number of processes.

    With `lengths`, examples of similar length form groups of `group`, one optimiser step each.

    Example:
        >>> list(SeededOrder(4, seed=0)) == list(SeededOrder(4, seed=0))
        True
    """

    def __init__(self, count: int, seed: int, lengths: Sequence[int] | None = None, group: int = 1):
        self.count = count
        self.seed = seed
        self.epoch = 0
        self.lengths = lengths
        self.group = group

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch to order."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        draw = generator(self.seed, f"order of epoch {self.epoch}")
        order = torch.randperm(self.count, generator=draw).tolist()
        yield from order if self.lengths is None else self._grouped(order, self.lengths, draw)

    def _grouped(self, order: list[int], lengths: Sequence[int], draw: torch.Generator) -> Iterator[int]:
        # Sorting blocks instead of all examples keeps groups of one length from recurring every epoch.
        block = self.group * _GROUPS_SORTED_AT_ONCE
        blocks = [order[start : start + block] for start in range(0, len(order), block)]
        order = [i for members in blocks for i in sorted(members, key=lengths.__getitem__)]
        groups = len(order) // self.group
        for index in torch.randperm(groups, generator=draw).tolist():
            yield from order[index * self.group : (index + 1) * self.group]
        yield from order[groups * self.group :]


class TrainingProgress:
    """Show the steps of one training after another: a bar, or one line per minute without a terminal."""

    def __init__(self, quiet: bool = False):
        self._bars = Bars(quiet)
        self._lines = not quiet and not sys.stderr.isatty() and not in_notebook()
        self._last = time.monotonic()

    def __enter__(self) -> "TrainingProgress":
        self._bars.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bars.__exit__(*exception)

    def stage(self, name: str) -> None:
        """Report what happens before the first step."""
        self._bars.show(name, 0, 1)
        if self._lines:
            print(name, file=sys.stderr, flush=True)

    def step(self, name: str, done: int, total: int, loss: float) -> None:
        """Report that `done` of `total` steps are done."""
        self._bars.show(name, done, total, note=f"loss {loss:.4f}")
        if self._lines and time.monotonic() - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = time.monotonic()
            print(f"{name}: step {done} of {total}, loss {loss:.4f}", file=sys.stderr, flush=True)


def is_first_process() -> bool:
    """Return whether this is the first of the run's processes, which torchrun and accelerate number."""
    return int(os.environ.get("RANK", "0")) == 0


@cache
def leave_group_at_exit() -> None:
    """End a gloo process group before the interpreter ends.

    Its threads may still hold the last tensor when Python shuts down, and then abort the process
    (pytorch/pytorch#179291); the launcher would kill the processes that are still writing. The group lasts
    until the exit because later runs use it again. Other backends may wait for failed processes.
    """
    atexit.register(_leave_group)


def _leave_group() -> None:
    group = torch.distributed
    if group.is_available() and group.is_initialized() and group.get_backend() == "gloo":
        group.destroy_process_group()
