"""Regression data under the assumptions of P1 and P2: |x| <= 1 and |y| <= 1."""

import torch
from torch import Tensor

from attangent._core.checks import check_size
from attangent._core.memory import check_memory
from attangent._core.random import generator


def unit_data(n: int, d_in: int, d_out: int, seed: int) -> tuple[Tensor, Tensor]:
    """n points X (n, d_in) uniform on the unit sphere, targets Y (n, d_out) uniform in the unit ball.

    >>> X, Y = unit_data(n=8, d_in=4, d_out=2, seed=0)
    >>> X.shape, Y.shape, bool((X.norm(dim=1) - 1).abs().max() < 1e-12)
    (torch.Size([8, 4]), torch.Size([8, 2]), True)
    """
    for name, size in (("n", n), ("d_in", d_in), ("d_out", d_out)):
        check_size(name, size)
    check_memory("points and targets", n=n, columns=d_in + d_out)
    rng = generator(seed, "unit_data")
    X = _directions(n, d_in, rng)
    radius = torch.rand(n, 1, generator=rng, dtype=torch.float64) ** (1 / d_out)
    return X, radius * _directions(n, d_out, rng)


def _directions(n: int, d: int, rng: torch.Generator) -> Tensor:
    drawn = torch.randn(n, d, generator=rng, dtype=torch.float64)
    return drawn / drawn.norm(dim=1, keepdim=True)
