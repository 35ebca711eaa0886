"""Distillation: virtual tokens trained until the model answers behind them as behind the whole prompt."""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attangent._core.checks import check_size
from attangent._core.errors import AttangentError
from attangent._core.files import writing
from attangent._core.random import generator
from attangent.compression.capture import PromptCache, whole_prompt, with_states
from attangent.compression.distilling.lessons import Lessons
from attangent.compression.distilling.virtual import VirtualTokens
from attangent.compression.problem import PromptState

_KEPT = 256
"""How many of the teacher's most likely tokens are kept apart; the others count as one."""
_ASKED_AT_ONCE = 4
_LARGEST_RATE, _LARGE_LOSS = 0.006, 0.06
_ROUNDS = 2
_FEWEST_STEPS, _MOST_STEPS = 12, 24


@dataclass(frozen=True)
class Distillation:
    """How virtual tokens are trained: Adam on their keys, values and log masses, in units of their own size.

    steps: how many; batch: rows of text in each of them; rate: the first step's size, relative to the
    tensors' standard deviations, falling to zero along a cosine, None for one that fits the first loss;
    save_every: steps between two checkpoints; masses: whether these are trained.
    """

    steps: int
    batch: int = 6
    rate: float | None = None
    save_every: int = 10
    seed: int = 0
    masses: bool = True

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "save_every"):
            check_size(name, getattr(self, name))
        if self.rate is not None and not 0 < self.rate < 10:
            raise AttangentError(f"rate is {self.rate!r}, expected a number above 0 and below 10")


def enough_steps(lessons: Lessons, batch: int = Distillation.batch) -> int:
    """So many steps that all rows are read twice; at least 12, since the rate rises and falls over
    them, and at most 24, which take a minute."""
    return min(_MOST_STEPS, max(_FEWEST_STEPS, math.ceil(_ROUNDS * len(lessons) / batch)))


def fitting_rate(loss: float) -> float:
    """The rate for states with this loss at the start: where little is wrong, large steps do harm."""
    return _LARGEST_RATE * min(1.0, loss / _LARGE_LOSS)


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
    lessons: Lessons,
    plan: Distillation,
    checkpoint: Path | None = None,
    progress: Callable[[float], Any] = lambda loss: None,
) -> dict[str, PromptState]:
    """The states after `plan.steps` of Adam on KL(full prompt || state) over the answers of the lessons.

    With a `checkpoint` file a run that was cut off goes on where it stopped, if everything else is the same.
    """
    tokens = nn.ModuleDict(
        {str(i): VirtualTokens(state, plan.masses) for i, state in enumerate(states.values())}
    )
    prefixes = dict(zip(states, tokens.values(), strict=True))
    trained = [step for step in tokens.parameters() if step.requires_grad]
    optimizer = torch.optim.Adam(trained, betas=(0.9, 0.95))
    saved = _Checkpoint(checkpoint, _digest(states, lessons, plan), tokens, optimizer)
    (first, rate), teachers = saved.load(plan.rate), {}
    order = _order(len(lessons), plan)
    for step in range(first, plan.steps):
        loss = _loss(model, cache, prefixes, lessons, order[step].tolist(), teachers)
        rate = fitting_rate(loss.item()) if rate is None else rate
        for group in optimizer.param_groups:
            group["lr"] = rate * _cosine(step, plan.steps)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        progress(loss.item())
        if (step + 1) % plan.save_every == 0 or step + 1 == plan.steps:
            saved.save(step + 1, rate)
    return {name: prefix.state() for name, prefix in prefixes.items()}  # type: ignore[operator]


def _loss(
    model: Any,
    cache: PromptCache,
    prefixes: Mapping[str, Any],
    lessons: Lessons,
    rows: Sequence[int],
    teachers: dict[int, Teacher],
) -> Tensor:
    """The mean divergence over what counts in these rows; teachers are asked once and remembered."""
    for block in sorted({row // _ASKED_AT_ONCE for row in rows if row not in teachers}):
        teachers |= _ask(model, cache, lessons, block)
    said = lessons.logits(model, rows, cache.length, with_states(prefixes))
    sums = [teachers[row].divergence(own) * len(own) for row, own in zip(rows, said, strict=True)]
    return torch.stack(sums).sum() / sum(len(own) for own in said)


def _ask(model: Any, cache: PromptCache, lessons: Lessons, block: int) -> dict[int, Teacher]:
    """The teachers of one block of rows, the same in whichever step they are asked: digits depend on what
    stands beside a row in a batch."""
    first = block * _ASKED_AT_ONCE
    rows = list(range(first, min(first + _ASKED_AT_ONCE, len(lessons))))
    with torch.no_grad():
        said = lessons.logits(model, rows, cache.length, whole_prompt(cache))
    return {row: Teacher.of(own) for row, own in zip(rows, said, strict=True)}


def _order(count: int, plan: Distillation) -> list[Tensor]:
    """The rows of each step: every one as often as any other, in random order."""
    draw, needed = generator(plan.seed, "distillation"), plan.steps * plan.batch
    rounds = math.ceil(needed / count) + 1
    shuffled = torch.cat([torch.randperm(count, generator=draw) for _ in range(rounds)])
    return [part.unique() for part in shuffled[:needed].split(plan.batch)]


def _cosine(step: int, steps: int) -> float:
    warm = min(1.0, (step + 1) / 5)
    return warm * 0.5 * (1 + math.cos(math.pi * step / steps))


def _digest(states: Mapping[str, PromptState], lessons: Lessons, plan: Distillation) -> str:
    """A digest of all that a distillation depends on."""
    found = hashlib.sha256(json.dumps(asdict(plan)).encode())
    for part in (*lessons.text, lessons.counted):
        found.update(part.cpu().numpy().tobytes())
    for state in states.values():
        for tensor in state.state_dict().values():
            found.update(tensor.cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


class _Checkpoint:
    """Parameters and Adam's moments in one safetensors file, replaced whole; nothing without a path."""

    def __init__(self, path: Path | None, digest: str, tokens: nn.Module, optimizer: torch.optim.Optimizer):
        self.path, self.digest, self.tokens, self.optimizer = path, digest, tokens, optimizer

    def _trained(self) -> list[tuple[str, nn.Parameter]]:
        return [named for named in self.tokens.named_parameters() if named[1].requires_grad]

    def save(self, step: int, rate: float) -> None:
        if self.path is None:
            return
        from safetensors.torch import save_file

        tensors = {}
        for name, parameter in self._trained():
            moments = self.optimizer.state[parameter]
            tensors |= {f"{name}/now": parameter.detach()}
            tensors |= {f"{name}/{key}": moments[key] for key in ("exp_avg", "exp_avg_sq")}
        with writing(self.path) as part:
            save_file(tensors, part, metadata={"digest": self.digest, "step": str(step), "rate": repr(rate)})

    def load(self, rate: float | None) -> tuple[int, float | None]:
        """The step to go on from, and the rate; 0 and `rate` without a checkpoint of this distillation."""
        if self.path is None or not self.path.is_file():
            return 0, rate
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.path, framework="pt") as file:
                about = file.metadata() or {}
                if about.get("digest") != self.digest:
                    return 0, rate
                step, rate = int(about["step"]), float(about["rate"])
                for name, parameter in self._trained():
                    parameter.data.copy_(file.get_tensor(f"{name}/now"))
                    self.optimizer.state[parameter] = {
                        "step": torch.tensor(float(step)),
                        "exp_avg": file.get_tensor(f"{name}/exp_avg"),
                        "exp_avg_sq": file.get_tensor(f"{name}/exp_avg_sq"),
                    }
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            raise AttangentError(f"{self.path} is no checkpoint: {error}; remove it to start anew") from None
        return step, rate
