"""Values against bounds: along a run, and as decimal logarithms."""

import math

import torch
from torch import Tensor

LOG10_E = math.log10(math.e)


def first_above(values: Tensor, bounds: Tensor) -> int | None:
    """The first index at which a value exceeds its bound."""
    above = (values > bounds).nonzero()
    return int(above[0]) if len(above) else None


def worst_ratio(values: Tensor, bounds: Tensor) -> float:
    """The largest value / bound; infinite where a value is positive and its bound is zero or not finite."""
    ratio = torch.where(bounds > 0, values / bounds, torch.where(values > 0, math.inf, 0.0))
    return math.inf if ratio.isnan().any() else ratio.max().item()
