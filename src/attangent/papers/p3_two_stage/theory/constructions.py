"""Weights written down by hand: the V that reaches the floor, and those of the variants that go below."""

import math

import torch
from torch import Tensor

from attangent._core.checks import check_positive
from attangent.papers.p3_two_stage.theory.attention import Weights
from attangent.papers.p3_two_stage.theory.data import TwoStageData
from attangent.papers.p3_two_stage.theory.floor import best_common_part


def paper_solution(data: TwoStageData, scale: float = 1e4) -> Weights:
    """V = a zz'/u^4 + c zeta zeta'/r^4 with c = `scale`: K2 tends to the upper bound of `q_loss_bounds`."""
    common = best_common_part(data.p, data.L) * torch.outer(data.z, data.z) / data.u**4
    return _weights(data, common + check_positive("scale", scale) * _detector(data))


def bias_solution(data: TwoStageData, scale: float = 1e4) -> Weights:
    """V = c zeta zeta'/r^4 and a bias beta: z is answered by beta, z +- zeta by beta - c n_own / L.

    For large c only contexts without the query's own token mislead; e^beta = p / ((1-p) ((1+p)/2)^(L-1))
    is then the best bias, held below a quarter of c (1-p)/2.
    """
    check_positive("scale", scale)
    log_missed = (data.L - 1) * math.log((1 + data.p) / 2)
    best = math.log(data.p / (1 - data.p)) - log_missed if 0 < data.p < 1 else 0.0
    beta = min(best, scale * (1 - data.p) / 8)
    return _weights(data, scale * _detector(data), beta)


def signed_solution(data: TwoStageData, scale: float = 1e4) -> Weights:
    """V_1 = 3c zeta zeta'/r^4, V_2 = c zeta (z/u^2 + zeta/r^2)'/r^2: right unless the context lacks a token.

    z is answered by c n_+ / L, z + zeta by -c n_+ / L, z - zeta by -3c n_- / L.
    """
    check_positive("scale", scale)
    seen = data.z / data.u**2 + data.zeta / data.r**2  # 1 on z, 2 on z + zeta, 0 on z - zeta
    second = torch.outer(data.zeta, seen) / data.r**2
    return _weights(data, scale * torch.stack((3 * _detector(data), second)))


def easy_solution(data: TwoStageData, scale: float = 1.0) -> Weights:
    """W = c w* w*' of Definition 4, which answers the P parts."""
    W = scale * torch.outer(data.w_star, data.w_star)
    return Weights(W[None], torch.zeros_like(W)[None], torch.zeros((), dtype=torch.float64))


def _detector(data: TwoStageData) -> Tensor:
    """zeta zeta' / r^4: 1 where token and query are the same z +- zeta, at most 0 else."""
    return torch.outer(data.zeta, data.zeta) / data.r**4


def _weights(data: TwoStageData, V: Tensor, bias: float = 0.0) -> Weights:
    V = V if V.ndim == 3 else V[None]
    return Weights(torch.zeros_like(V), V, torch.tensor(bias, dtype=torch.float64))
