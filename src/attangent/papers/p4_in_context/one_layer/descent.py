"""Gradient descent on the population loss with two rates (Eq. 10)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from attangent._core.checks import check_not_negative, check_positive, check_steps
from attangent._core.errors import AttangentError
from attangent._core.progress import Bars
from attangent.papers.p4_in_context.one_layer.heads import gradient, logit_scale, mixture, softmax_vectors
from attangent.papers.p4_in_context.one_layer.training import Recorder, Training, show_gap

if TYPE_CHECKING:
    from attangent.papers.p4_in_context.one_layer.attention import OneLayerAttention


@dataclass(frozen=True)
class GradientDescent:
    """Q -= rate_Q dL/dQ and w -= rate_w dL/dw.

    Rates not given are practical ones (`practical_rates`). For the theory's take them from the certificate:
    `fit("gd", rate_Q=c.rate_Q, rate_w=c.rate_w)`.
    """

    steps: int = 1000
    rate_Q: float | None = None
    rate_w: float | None = None
    target: float = 0.0
    patience: int | None = None
    quiet: bool = False

    def __post_init__(self) -> None:
        check_steps("steps", self.steps, least=1)
        check_not_negative("target", self.target)
        for name in ("rate_Q", "rate_w"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        if (self.rate_Q is None) != (self.rate_w is None):
            raise AttangentError(
                f"rate_Q is {self.rate_Q} and rate_w is {self.rate_w}: give both or, for practical ones, none"
            )

    def train(self, model: "OneLayerAttention") -> Training:
        rate_Q, rate_w = self._rates(model)
        dictionary, A, M = model.dictionary, model.limit.A, model.dictionary.M
        recorder = Recorder("gd", self.target, self.patience)
        with Bars(self.quiet) as bars:
            for step in range(self.steps + 1):
                S = softmax_vectors(dictionary, model.Q)
                D = mixture(S, model.w) - A
                G = M @ D
                gap = (D * G).sum().item() / (2 * dictionary.K)
                if recorder.note(step, gap) or step == self.steps:
                    break
                dQ, dw = gradient(dictionary, S, model.w, G)
                model.Q, model.w = model.Q - rate_Q * dQ, model.w - rate_w * dw
                show_gap(bars, "gd", step + 1, self.steps, gap)
        return recorder.result()

    def _rates(self, model: "OneLayerAttention") -> tuple[float, float]:
        if self.rate_Q is None or self.rate_w is None:
            return practical_rates(model)
        return self.rate_Q, self.rate_w


def practical_rates(model: "OneLayerAttention") -> tuple[float, float]:
    """rate_w at half of `weight_rate_limit`; rate_Q the same for tokens of norm one.

    The curvature in Q grows with |v_n|^2 |v_k|^2, the square of the logits' scale, so rate_Q falls with it.
    """
    rate_w = weight_rate_limit(model) / 2
    return rate_w / logit_scale(model.dictionary) ** 2, rate_w


def weight_rate_limit(model: "OneLayerAttention") -> float:
    """2K / max_k |B_k|^2: above it descent in w alone diverges, for any Q held fixed."""
    B = model.dictionary.Z_bar @ model.attention().permute(2, 1, 0)
    return 2 * model.dictionary.K / torch.linalg.matrix_norm(B, 2).square().max().item()
