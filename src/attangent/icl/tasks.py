"""Distributions of the task vector lambda: in-domain, and shifted away from it."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from attangent._core.checks import check_choice, check_not_negative, check_size


@dataclass(frozen=True)
class Tasks:
    """lambda = mean 1_m + std xi with independent entries xi of mean 0 and variance 1.

    Assumption 1 of P4 asks for mean 0 and std 1 and leaves the shape free: `gaussian` or `rademacher`.
    """

    shape: Literal["gaussian", "rademacher"] = "gaussian"
    mean: float = 0.0
    std: float = 1.0

    def __post_init__(self) -> None:
        check_choice("shape", self.shape, ("gaussian", "rademacher"))
        check_not_negative("std", self.std)

    def draw(self, count: int, m: int, rng: torch.Generator) -> Tensor:
        """`count` task vectors, one a row."""
        xi = torch.randn(count, m, generator=rng, dtype=torch.float64)
        return self.mean + self.std * (xi if self.shape == "gaussian" else xi.sign())

    def second_moment(self, m: int) -> Tensor:
        """E[lambda lambda'] = std^2 I + mean^2 1 1'."""
        one = torch.ones(check_size("m", m), dtype=torch.float64)
        return self.std**2 * torch.diag(one) + self.mean**2 * torch.outer(one, one)

    def squared_norm(self, m: int) -> float:
        """E|lambda|^2, which times tau is the variance of a label's noise."""
        return m * (self.std**2 + self.mean**2)


IN_DOMAIN = Tasks()
OUT_OF_DOMAIN = Tasks(mean=1.0, std=2.0)
"""The shifted tasks N(1, 4 I) of the paper's experiments (Section 4)."""
