"""Distillation: virtual tokens trained until the model answers behind them as behind the whole prompt."""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attangent._checks import check_size
from attangent._errors import AttangentError
from attangent._files import writing
from attangent._random import generator
from attangent.compression.capture import PromptCache, run, whole_prompt, with_states
from attangent.compression.problem import PromptState
from attangent.compression.text import Calibration
from attangent.compression.virtual import VirtualTokens

_KEPT = 256
"""How many of the teacher's most likely tokens are kept apart; the others count as one."""
_ASKED_AT_ONCE = 4


@dataclass(frozen=True)
class Distillation:
    """How virtual tokens are trained: Adam on their keys, values and log masses, in units of their own size.

    steps: how many; batch: sequences a step; rate: the first step's size, relative to the tensors' standard
    deviations, falling to zero along a cosine; save_every: steps between two checkpoints.
    """

    steps: int
    batch: int = 6
    rate: float = 0.02
    save_every: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "save_every"):
            check_size(name, getattr(self, name))
        if not 0 < self.rate < 10:
            raise AttangentError(f"rate is {self.rate!r}, expected a number above 0 and below 10")


@dataclass(frozen=True)
class Teacher:
    """What the model says behind the whole prompt: likeliest tokens (T, 256), their chances, the rest's."""

    tokens: Tensor
    log_chances: Tensor
    log_rest: Tensor

    @classmethod
    def of(cls, logits: Tensor) -> "Teacher":
        """From logits (T, vocabulary)."""
        log_chances = logits.float().log_softmax(dim=-1)
        top = log_chances.topk(min(_KEPT, logits.shape[-1]), dim=-1)
        return cls(top.indices, top.values, _log_rest(top.values))

    def divergence(self, logits: Tensor) -> Tensor:
        """KL(teacher || student) over the kept tokens and the rest, mean over rows of logits."""
        student = logits.float().log_softmax(dim=-1).gather(-1, self.tokens)
        kept = (self.log_chances.exp() * (self.log_chances - student)).sum(dim=-1)
        rest = self.log_rest.exp() * (self.log_rest - _log_rest(student))
        return (kept + rest).mean()


def _log_rest(log_chances: Tensor) -> Tensor:
    """log(1 - sum of chances), kept finite."""
    return torch.log1p(-log_chances.exp().sum(dim=-1).clamp(max=1 - 1e-6))


def distill_states(
    model: Any,
    cache: PromptCache,
    states: Mapping[str, PromptState],
    calibration: Calibration,
    plan: Distillation,
    checkpoint: Path | None = None,
    progress: Callable[[float], Any] = lambda loss: None,
) -> dict[str, PromptState]:
    """The states after `plan.steps` of Adam on KL(full prompt || state) over the calibration text.

    With a `checkpoint` file a run that was cut off goes on where it stopped, if everything else is the same.
    """
    tokens = nn.ModuleDict({str(i): VirtualTokens(state) for i, state in enumerate(states.values())})
    prefixes = dict(zip(states, tokens.values(), strict=True))
    optimizer = torch.optim.Adam(tokens.parameters(), lr=plan.rate, betas=(0.9, 0.95))
    saved = _Checkpoint(checkpoint, _digest(states, calibration, plan), tokens, optimizer)
    first, teachers = saved.load(), {}
    order = _order(len(calibration), plan)
    for step in range(first, plan.steps):
        for group in optimizer.param_groups:
            group["lr"] = plan.rate * _cosine(step, plan.steps)
        rows = order[step]
        loss = _loss(model, cache, prefixes, calibration, rows, teachers)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        progress(loss.item())
        if (step + 1) % plan.save_every == 0 or step + 1 == plan.steps:
            saved.save(step + 1)
    return {name: prefix.state() for name, prefix in prefixes.items()}  # type: ignore[operator]


def _loss(
    model: Any,
    cache: PromptCache,
    prefixes: Mapping[str, Any],
    calibration: Calibration,
    rows: Tensor,
    teachers: dict[int, Teacher],
) -> Tensor:
    """The mean divergence on these sequences; teachers are asked once and remembered."""
    for block in sorted({row // _ASKED_AT_ONCE for row in rows.tolist() if row not in teachers}):
        teachers |= _ask(model, cache, calibration, block)
    ids, valid = calibration.batch(rows.tolist())
    logits = run(model, ids, cache.length, with_states(prefixes)).logits
    said = zip(rows.tolist(), logits, valid, strict=True)
    return torch.stack([teachers[row].divergence(one[real]) for row, one, real in said]).mean()


def _ask(model: Any, cache: PromptCache, calibration: Calibration, block: int) -> dict[int, Teacher]:
    """The teachers of one block of sequences, the same in whichever step they are asked: digits depend on
    what stands beside a sequence in a batch."""
    first = block * _ASKED_AT_ONCE
    rows = list(range(first, min(first + _ASKED_AT_ONCE, len(calibration))))
    ids, valid = calibration.batch(rows)
    with torch.no_grad():
        logits = run(model, ids, cache.length, whole_prompt(cache)).logits
    answers = zip(rows, logits, valid, strict=True)
    return {row: Teacher.of(said[real]) for row, said, real in answers}


def _order(count: int, plan: Distillation) -> list[Tensor]:
    """The sequences of each step: every one as often as any other, in random order."""
    draw, needed = generator(plan.seed, "distillation"), plan.steps * plan.batch
    rounds = math.ceil(needed / count) + 1
    shuffled = torch.cat([torch.randperm(count, generator=draw) for _ in range(rounds)])
    return [part.unique() for part in shuffled[:needed].split(plan.batch)]


def _cosine(step: int, steps: int) -> float:
    warm = min(1.0, (step + 1) / 5)
    return warm * 0.5 * (1 + math.cos(math.pi * step / steps))


def _digest(states: Mapping[str, PromptState], calibration: Calibration, plan: Distillation) -> str:
    """A digest of all that a distillation depends on."""
    found = hashlib.sha256(json.dumps(asdict(plan)).encode())
    found.update(calibration.ids.cpu().numpy().tobytes())
    for state in states.values():
        for tensor in state.state_dict().values():
            found.update(tensor.cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


class _Checkpoint:
    """Parameters and Adam's moments in one safetensors file, replaced whole; nothing without a path."""

    def __init__(self, path: Path | None, digest: str, tokens: nn.Module, optimizer: torch.optim.Optimizer):
        self.path, self.digest, self.tokens, self.optimizer = path, digest, tokens, optimizer

    def save(self, step: int) -> None:
        if self.path is None:
            return
        from safetensors.torch import save_file

        tensors = {}
        for name, parameter in self.tokens.named_parameters():
            moments = self.optimizer.state[parameter]
            tensors |= {f"{name}/now": parameter.detach()}
            tensors |= {f"{name}/{key}": moments[key] for key in ("exp_avg", "exp_avg_sq")}
        with writing(self.path) as part:
            save_file(tensors, part, metadata={"digest": self.digest, "step": str(step)})

    def load(self) -> int:
        """The step to go on from; 0 where there is no checkpoint of this very distillation."""
        if self.path is None or not self.path.is_file():
            return 0
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.path, framework="pt") as file:
                about = file.metadata() or {}
                if about.get("digest") != self.digest:
                    return 0
                step = int(about["step"])
                for name, parameter in self.tokens.named_parameters():
                    parameter.data.copy_(file.get_tensor(f"{name}/now"))
                    self.optimizer.state[parameter] = {
                        "step": torch.tensor(float(step)),
                        "exp_avg": file.get_tensor(f"{name}/exp_avg"),
                        "exp_avg_sq": file.get_tensor(f"{name}/exp_avg_sq"),
                    }
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            raise AttangentError(f"{self.path} is no checkpoint: {error}; remove it to start anew") from None
        return step
