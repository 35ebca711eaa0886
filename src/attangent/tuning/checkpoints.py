"""Checkpoints of what is trained: which are whole, what they hold, and taking them back."""

import json
import shutil
import time
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attangent._core.errors import AttangentError

TENSORS, LOSS = "trained.safetensors", "loss.json"
_PARTS = (TENSORS, LOSS, "optimizer.pt", "scheduler.pt", "trainer_state.json")
"""What a whole checkpoint holds; the last is written last."""
EVERY_SECONDS, LEAST_SHARE = 60.0, 20.0
"""The pause between checkpoints: so long, and so many times as long as the last one took to write."""


def last_whole_checkpoint(folder: Path) -> Path | None:
    """The latest checkpoint that was written to its end; later ones that were cut off are removed."""
    found = sorted(folder.glob("checkpoint-*"), key=_step, reverse=True)
    for path in found:
        if _is_whole(path):
            return path
        shutil.rmtree(path, ignore_errors=True)  # other processes of the run do the same
    return None


def _step(path: Path) -> int:
    number = path.name.removeprefix("checkpoint-")
    return int(number) if number.isdigit() else -1


def _is_whole(path: Path) -> bool:
    try:
        json.loads((path / _PARTS[-1]).read_text())
        json.loads((path / LOSS).read_text())
    except (OSError, json.JSONDecodeError, UnicodeDecodeError):
        return False
    return all((path / name).is_file() for name in _PARTS)


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
    for path in (found for name in ("checkpoint-*", "trying-*", "rate-*") for found in folder.glob(name)):
        shutil.rmtree(path)


@cache
def keeper_class() -> type[Any]:
    """A callback that has a checkpoint written now and then, where the settings name no steps for it."""
    from transformers import TrainerCallback

    class Keeper(TrainerCallback):
        """Every minute, and less often where writing takes long; tenths of a run that has several processes,
        whose clocks do not agree."""

        def __init__(self) -> None:
            self.last = time.monotonic()
            self.pause = EVERY_SECONDS

        def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> Any:
            if args.world_size > 1:
                control.should_save = state.global_step % -(-state.max_steps // 10) == 0
            else:
                control.should_save = time.monotonic() - self.last > self.pause
            self.began = time.monotonic()
            return control

        def on_save(self, args: Any, state: Any, control: Any, **given: Any) -> Any:
            self.last = time.monotonic()
            self.pause = max(EVERY_SECONDS, LEAST_SHARE * (self.last - self.began))
            return control

    return Keeper
