"""What a training run reports, when it stops, and how its bar shows the gap."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

import torch
from torch import Tensor

from attangent._core.display import brief_fields
from attangent._core.progress import Bars

if TYPE_CHECKING:
    from attangent.papers.p4_in_context.one_layer.attention import OneLayerAttention

Stop = Literal["solved", "target", "steps", "stalled", "diverged"]
Watch = Mapping[str, "Callable[[OneLayerAttention], float]"]


@dataclass(frozen=True, eq=False)
class Training:
    """The course of a run: the gap at `steps`, whatever was watched beside it, and why it ended."""

    method: str
    steps: Tensor
    gaps: Tensor
    stopped: Stop
    watched: dict[str, Tensor] = field(default_factory=dict)

    __repr__ = brief_fields

    @property
    def gap(self) -> float:
        """The gap at the end."""
        return self.gaps[-1].item()

    @property
    def diverged(self) -> bool:
        return self.stopped == "diverged"


class Trainer(Protocol):
    """A way to train: a frozen set of options with `train`."""

    def train(self, model: "OneLayerAttention") -> Training: ...


class Recorder:
    """Collects the course of a run and says when to stop it.

    It stops at the target, or where the gap is no number or a million times the first, or where the best gap
    has not fallen by a thousandth within `patience` steps.
    """

    def __init__(self, method: str, target: float, patience: int | None = None, watch: Watch | None = None):
        self.method, self.target, self.patience = method, target, patience
        self.watch = dict(watch or {})
        self._steps: list[int] = []
        self._gaps: list[float] = []
        self._watched: dict[str, list[float]] = {name: [] for name in self.watch}
        self._best, self._best_step = math.inf, 0
        self.stopped: Stop | None = None

    @property
    def last(self) -> float:
        """The gap that was recorded last."""
        return self._gaps[-1]

    @property
    def last_step(self) -> int:
        return self._steps[-1]

    def note(self, step: int, gap: float, model: "OneLayerAttention | None" = None) -> bool:
        """Record; True where the run is to stop."""
        self._steps.append(step)
        self._gaps.append(gap)
        if model is not None:
            for name, look in self.watch.items():
                self._watched[name].append(look(model))
        self.stopped = self._verdict(step, gap)
        return self.stopped is not None

    def _verdict(self, step: int, gap: float) -> Stop | None:
        if not math.isfinite(gap) or gap > 1e6 * self._gaps[0]:
            return "diverged"
        if gap <= self.target:
            return "target"
        if gap < 0.999 * self._best:
            self._best, self._best_step = gap, step
        if self.patience is not None and step - self._best_step >= self.patience:
            return "stalled"
        return None

    def result(self, otherwise: Stop = "steps") -> Training:
        return Training(
            method=self.method,
            steps=torch.tensor(self._steps),
            gaps=torch.tensor(self._gaps, dtype=torch.float64),
            stopped=self.stopped or otherwise,
            watched={name: torch.tensor(values) for name, values in self._watched.items()},
        )


def show_gap(bars: Bars, name: str, step: int, steps: int, gap: float) -> None:
    """Move the bar of a run on and write its gap beside it."""
    bars.show(name, step, steps, note=f"gap {gap:.1e}")
