"""The gradients through the heads; record a training run, decide when it stops, and show its gap."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

import torch
from torch import Tensor

from attangent._core.display import brief_fields
from attangent._core.progress import Bars
from attangent.icl.dictionary import Dictionary


def logit_scale(dictionary: Dictionary) -> float:
    """Return the standard deviation of a logit v_n'Q v_k if the entries of Q have variance 1."""
    squares = dictionary.tokens.square().sum(dim=1)
    return math.sqrt(squares[: dictionary.N].mean().item() * squares.mean().item())


def softmax_vectors(dictionary: Dictionary, Q: Tensor) -> Tensor:
    """S (H, N, K) = softmax over n of V'Q_h X."""
    tokens = dictionary.tokens
    return torch.softmax(tokens[: dictionary.N] @ Q @ tokens.T, dim=1)


def mixture(S: Tensor, w: Tensor) -> Tensor:
    """(N, K): sum over h of w_hk s^h_k."""
    return (S * w[:, None, :]).sum(dim=0)


def logit_gradient(S: Tensor, w: Tensor, G: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients in the logits (H, N, K) and in w (H, K); G / K is the gradient in Ahat.

    dw_hk = <s^h_k, G_k> / K and dlogits = S (G - <S, G>) w / K (from Lemma 1).
    """
    K = S.shape[2]
    SG = S * G
    inner = SG.sum(dim=1)
    logits = (SG - S * inner[:, None, :]).mul_(w[:, None, :] / K)
    return logits, inner / K


def gradient(dictionary: Dictionary, S: Tensor, w: Tensor, G: Tensor) -> tuple[Tensor, Tensor]:
    """dQ_h = V dlogits_h X' and dw."""
    logits, dw = logit_gradient(S, w, G)
    tokens = dictionary.tokens
    return tokens[: dictionary.N].T @ (logits @ tokens), dw


if TYPE_CHECKING:
    from attangent.papers.p4_in_context.one_layer.attention import OneLayerAttention

Stop = Literal["solved", "target", "steps", "stalled", "diverged"]
Watch = Mapping[str, "Callable[[OneLayerAttention], float]"]


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """The history of a run.

    Attributes:
        method: Name of the trainer.
        steps: Steps at which the gap was recorded.
        gaps: The gap L - inf L at those steps.
        stopped: Why the run ended.
        watched: Other quantities recorded at the same steps, by name.
    """

    method: str
    steps: Tensor
    gaps: Tensor
    stopped: Stop
    watched: dict[str, Tensor] = field(default_factory=dict)

    __repr__ = brief_fields

    @property
    def gap(self) -> float:
        """The last gap."""
        return self.gaps[-1].item()

    @property
    def diverged(self) -> bool:
        return self.stopped == "diverged"


class OneLayerTrainer(Protocol):
    """A frozen set of options with a `train` method."""

    def train(self, model: "OneLayerAttention") -> TrainingRun: ...


class Recorder:
    """Collect the history of a run and decide when to stop it.

    A run stops when the gap reaches the target, is not finite, exceeds a million times the first gap, or has
    not improved by a thousandth within `patience` steps.
    """

    def __init__(self, method: str, target: float, patience: int | None = None, watch: Watch | None = None):
        self.method = method
        self.target = target
        self.patience = patience
        self.watch = dict(watch or {})
        self._steps: list[int] = []
        self._gaps: list[float] = []
        self._watched: dict[str, list[float]] = {name: [] for name in self.watch}
        self._best = math.inf
        self._best_step = 0
        self.stopped: Stop | None = None

    @property
    def last(self) -> float:
        """The most recent gap."""
        return self._gaps[-1]

    @property
    def last_step(self) -> int:
        return self._steps[-1]

    def note(self, step: int, gap: float, model: "OneLayerAttention | None" = None) -> bool:
        """Record a gap and return whether the run should stop."""
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
            self._best = gap
            self._best_step = step
        if self.patience is not None and step - self._best_step >= self.patience:
            return "stalled"
        return None

    def result(self, otherwise: Stop = "steps") -> TrainingRun:
        return TrainingRun(
            method=self.method,
            steps=torch.tensor(self._steps),
            gaps=torch.tensor(self._gaps, dtype=torch.float64),
            stopped=self.stopped or otherwise,
            watched={name: torch.tensor(values) for name, values in self._watched.items()},
        )


def show_gap(bars: Bars, name: str, step: int, steps: int, gap: float) -> None:
    """Advance the progress bar of a run and show its gap."""
    bars.show(name, step, steps, note=f"gap {gap:.1e}")
