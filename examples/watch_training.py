"""Watch a transformers training: which part of the task is learnt when, and how far the kernel moves.

A small network learns an easy rule and a hard one. Two callbacks watch: one finds the stages in the loss of
each rule, the other measures how far the tangent kernel is from that of the start. Where it moved far, a
prediction made from the kernel at the start cannot be trusted. Give both callbacks to a Trainer of your own.
"""

from pathlib import Path

import torch
from torch import nn
from transformers import Trainer, TrainingArguments

from attangent.kernels import KernelDrift, drift_callback
from attangent.stages import StageDetector, stage_callback


class Rules(nn.Module):
    """Two outputs: the first input (easy), and the parity of two signs (hard)."""

    def __init__(self, width: int = 32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 2))

    def forward(self, x, labels=None):
        logits = self.body(x)
        return logits if labels is None else {"loss": (logits - labels).square().mean(), "logits": logits}


def rows(count: int, seed: int):
    signs = torch.randint(0, 2, (count, 4), generator=torch.Generator().manual_seed(seed)) * 2.0 - 1
    return signs, torch.stack([signs[:, 0], signs[:, 1] * signs[:, 2]], dim=1)


def main(out: Path, steps: int) -> None:
    """Train for so many steps; the pictures stages.png and drift.png go to `out`."""
    torch.manual_seed(0)
    inputs, labels = rows(256, seed=0)
    held_out, answers = rows(64, seed=1)
    detector, drift = StageDetector(["easy", "hard"]), KernelDrift(held_out[:16])

    def losses(model):
        easy, hard = (model(held_out) - answers).square().mean(dim=0).tolist()
        return {"easy": easy, "hard": hard}

    settings = TrainingArguments(
        output_dir=str(out / "run"),
        max_steps=steps,
        per_device_train_batch_size=32,
        learning_rate=0.05,
        optim="sgd",
        lr_scheduler_type="constant",
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        dataloader_pin_memory=False,
    )
    watching = [
        stage_callback(detector, losses, every=10, plot=out / "stages.png"),
        drift_callback(drift, every=50, plot=out / "drift.png"),
    ]
    data = [{"x": x, "labels": y} for x, y in zip(inputs, labels, strict=True)]
    Trainer(model=Rules(), args=settings, train_dataset=data, callbacks=watching).train()


if __name__ == "__main__":
    main(Path(), steps=400)
