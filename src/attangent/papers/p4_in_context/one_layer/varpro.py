"""Variable projection: w is solved exactly for every Q, and L-BFGS moves Q on what is left."""

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from attangent._core.checks import check_not_negative, check_size, check_steps
from attangent._core.progress import Bars
from attangent.icl.dictionary import Dictionary
from attangent.papers.p4_in_context.one_layer.heads import logit_gradient, mixture
from attangent.papers.p4_in_context.one_layer.training import Recorder, TrainingRun, show_gap

if TYPE_CHECKING:
    from attangent.papers.p4_in_context.one_layer.attention import OneLayerAttention


class _Enough(Exception):
    """Ends the search from within."""


@dataclass(frozen=True)
class VariableProjection:
    """Minimises g(Q) = min over w of the gap; by the envelope theorem its gradient is dL/dQ at that w.

    It works for any number of heads and is meant for H < N, where `solve` cannot reach the limit.
    """

    steps: int = 1000
    target: float = 0.0
    patience: int | None = None
    memory: int = 50
    quiet: bool = False

    def __post_init__(self) -> None:
        check_steps("steps", self.steps, least=1)
        check_size("memory", self.memory)
        check_not_negative("target", self.target)

    def train(self, model: "OneLayerAttention") -> TrainingRun:
        projected = Projected(model, Coordinates(model.dictionary))
        recorder = Recorder("varpro", self.target, self.patience)
        with Bars(self.quiet) as bars, suppress(_Enough):
            if not recorder.note(0, model.gap()):
                self._search(projected, recorder, bars)
        projected.install(model)
        return recorder.result("stalled" if recorder.last_step < self.steps else "steps")

    def _search(self, projected: "Projected", recorder: Recorder, bars: Bars) -> None:
        P = projected.best.clone()
        optimizer = torch.optim.LBFGS(
            [P],
            max_iter=self.steps,
            max_eval=self.steps,
            history_size=self.memory,
            tolerance_grad=0.0,
            tolerance_change=0.0,
            line_search_fn="strong_wolfe",
        )

        def evaluate() -> float:
            gap, P.grad = projected.value_and_gradient(P)
            projected.accept(P, gap)
            show_gap(bars, "varpro", recorder.last_step + 1, self.steps, gap)
            if recorder.note(recorder.last_step + 1, projected.best_gap) or recorder.last_step >= self.steps:
                raise _Enough
            return gap

        optimizer.step(evaluate)


class Coordinates:
    """Q enters only through V'Q. With V = U s W' the coordinates are P = diag(s) U'Q (H, r, d), so that the
    logits are W P X and a step in P is a step in V'Q.
    """

    def __init__(self, dictionary: Dictionary):
        V = dictionary.tokens[: dictionary.N].T
        U, s, Wh = torch.linalg.svd(V, full_matrices=False)
        kept = s > s[0] * max(V.shape) * torch.finfo(s.dtype).eps
        self.U = U[:, kept]
        self.s = s[kept]
        self.W = Wh[kept].T
        self.dictionary = dictionary

    def of(self, Q: Tensor) -> Tensor:
        return self.s[:, None] * (self.U.T @ Q)

    def back(self, P: Tensor, Q: Tensor) -> Tensor:
        """The Q nearest to the one given whose coordinates are P."""
        return Q + (self.U / self.s) @ (P - self.of(Q))

    def attention(self, P: Tensor) -> Tensor:
        return torch.softmax(self.W @ P @ self.dictionary.tokens.T, dim=1)

    def pull(self, logits: Tensor) -> Tensor:
        """The gradient in P from the gradient in the logits."""
        return self.W.T @ logits @ self.dictionary.tokens


class Projected:
    """The gap as a function of P alone, with the best w at every P."""

    def __init__(self, model: "OneLayerAttention", coordinates: Coordinates):
        dictionary = model.dictionary
        self.coordinates = coordinates
        self.K = dictionary.K
        self.Z_bar = dictionary.Z_bar
        self.A = model.limit.A
        self.wanted = (self.Z_bar @ self.A).T[:, :, None]  # (K, N, 1)
        self.best = coordinates.of(model.Q)
        self.best_gap = model.gap()

    def weights(self, S: Tensor) -> Tensor:
        """w (H, K) of least |B_k w_k - Zbar A_k| for each k."""
        B = self.Z_bar @ S.permute(2, 1, 0)  # (K, N, H)
        return least_squares(B, self.wanted)[:, :, 0].T.contiguous()

    def value_and_gradient(self, P: Tensor) -> tuple[float, Tensor]:
        S = self.coordinates.attention(P)
        w = self.weights(S)
        D = self.Z_bar @ (mixture(S, w) - self.A)
        logits, _ = logit_gradient(S, w, self.Z_bar @ D)
        return (D.square().sum() / (2 * self.K)).item(), self.coordinates.pull(logits)

    def accept(self, P: Tensor, gap: float) -> None:
        """Keep the best point seen."""
        if gap < self.best_gap:
            self.best = P.clone()
            self.best_gap = gap

    def install(self, model: "OneLayerAttention") -> None:
        """Give the model the best point and its w."""
        model.Q = self.coordinates.back(self.best, model.Q)
        model.w = self.weights(self.coordinates.attention(self.best))


def least_squares(B: Tensor, wanted: Tensor) -> Tensor:
    """argmin |B x - wanted|, least norm for wide B, by QR of the taller side."""
    if B.shape[-2] >= B.shape[-1]:
        O, R = torch.linalg.qr(B)
        return torch.linalg.solve_triangular(R, O.mT @ wanted, upper=True)
    O, R = torch.linalg.qr(B.mT)
    return O @ torch.linalg.solve_triangular(R.mT, wanted, upper=False)
