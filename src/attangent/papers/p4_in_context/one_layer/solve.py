"""H >= N: the loss is quadratic in w, and random heads span R^N, so w is one linear system a token."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent.papers.p4_in_context.one_layer.training import Recorder, Training

if TYPE_CHECKING:
    from attangent.papers.p4_in_context.one_layer.attention import OneLayerAttention


@dataclass(frozen=True)
class Solve:
    """w_k of least norm with C_k w_k = A_k, for every k at once; Q stays as it is."""

    def train(self, model: "OneLayerAttention") -> Training:
        N = model.dictionary.N
        if model.heads < N:
            raise AttangentError(
                f"method 'solve' needs at least N={N} heads, this model has {model.heads}: "
                "take more heads, or method='varpro'"
            )
        recorder = Recorder("solve", target=0.0)
        recorder.note(0, model.gap())
        model.w = least_norm_weights(model.attention(), model.limit.A)
        recorder.note(1, model.gap())
        return recorder.result("solved")


def least_norm_weights(S: Tensor, A: Tensor) -> Tensor:
    """w (H, K) of least norm with sum_h w_hk s^h_k = A_k: from C_k' = O R follows w_k = O R'^-1 A_k."""
    O, R = torch.linalg.qr(S.permute(2, 0, 1))  # C_k' (H, N), k the batch
    solution = torch.linalg.solve_triangular(R.mT, A.T[:, :, None], upper=False)
    return (O @ solution)[:, :, 0].T.contiguous()
