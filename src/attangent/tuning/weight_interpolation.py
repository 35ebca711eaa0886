"""How much of what was learnt to keep: theta(a) = theta_0 + a (theta_1 - theta_0) between start and end.

With few rows training can unlearn what the frozen model knows. The share a is the one with the least loss on
rows that were kept apart; a = 0 is the model with its classifier fitted to the frozen features.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from attangent.tuning.checkpoints import put_tensors

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)

Tensors = dict[str, Tensor]


def blend(model: Any, start: Tensors, end: Tensors, share: float) -> None:
    """Put theta(share) into the model; the ends are exact."""
    if share in (0.0, 1.0):
        put_tensors(model, start if share == 0 else end)
        return
    put_tensors(model, {name: _between(start[name], end[name], share) for name in start})


def _between(first: Tensor, last: Tensor, share: float) -> Tensor:
    return torch.lerp(first, last, share) if first.is_floating_point() else last


def best_share(
    model: Any, start: Tensors, end: Tensors, loss: Callable[[], float], shares: Sequence[float] = SHARES
) -> tuple[float, dict[float, float]]:
    """The share of least loss (the smaller on a tie), which the model is left with, and the loss at each."""
    losses = {}
    for share in shares:
        blend(model, start, end, share)
        losses[share] = loss()
    chosen = min(shares, key=lambda share: (losses[share], share))
    blend(model, start, end, chosen)
    return chosen, losses
