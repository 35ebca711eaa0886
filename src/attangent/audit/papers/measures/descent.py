"""One step of descent after the other, each split into the terms of a lemma."""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from attangent.audit.claims import Settings

S = TypeVar("S", bound=Any)


def second_order_factor(z: Tensor) -> Tensor:
    """(exp(z) - 1 - z) / z^2, by its series where the difference would cancel."""
    near = sum(z**k / math.factorial(k + 2) for k in range(8))
    far = torch.where(z.abs() > 0.05, z, torch.ones_like(z))
    return torch.where(z.abs() > 0.05, (torch.expm1(far) - far) / far.square(), near)


def walk(p: Any, settings: Settings, take_step: Callable[..., tuple[S, Any]]) -> list[S]:
    """The steps of a run, split, until the error is so small that the terms drown in round-off."""
    network, steps = p.network, list[S]()
    for _ in range(settings.steps):
        step, network = take_step(p, network, p.rate(settings.rate))
        steps.append(step)
        if not settings.smallest * steps[0].before < step.after < math.inf:
            break
    return steps
