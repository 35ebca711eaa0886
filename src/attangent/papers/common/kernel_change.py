"""The change of a kernel when every neuron moves by R: P1 Lemma 3.1 and P2 Lemma 5.1."""

import math

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.audit import Conclusion, Figure, Series
from attangent.papers.common.figures import plot

Changes = dict[float, Tensor]
"""H(W + R U) - H(W) per radius R, for one move U."""


def random_move(W: Tensor, seed: int) -> Tensor:
    """Draw a unit vector per neuron."""
    U = torch.randn(W.shape, generator=generator(seed, "perturbation"), dtype=torch.float64)
    return U / U.norm(dim=0)


def largest_over_radius(changes: Changes) -> float:
    """max_R |H(W + R U) - H(W)|_F / R."""
    return max(change.norm().item() / R for R, change in changes.items())


def entry_line(changes: dict[str, Changes], log10_bound: float) -> Conclusion:
    """Return the line of part 1: the largest change of an entry, relative to R."""
    largest = max(
        change.abs().max().item() / R for of_move in changes.values() for R, change in of_move.items()
    )
    name = "largest change of an entry / R"
    return Conclusion(name, "<=", log10_bound, math.log10(largest), log10=True, part="1")


def norm_line(changes: dict[str, Changes], log10_bound: float) -> Conclusion:
    """Return the line of part 2: the largest change of the kernel in the Frobenius norm, relative to R."""
    largest = math.log10(max(map(largest_over_radius, changes.values())))
    return Conclusion("|H(W) - H(W~)|_F / R", "<=", log10_bound, largest, log10=True, part="2")


def change_figure(changes: dict[str, Changes], what_moves: str) -> Figure:
    return plot(
        "Change of the kernel",
        (f"distance R that every {what_moves} moves", "|H(W) - H(W~)|_F"),
        *(
            Series.of(name, list(of_move), [change.norm().item() for change in of_move.values()])
            for name, of_move in changes.items()
        ),
    )
