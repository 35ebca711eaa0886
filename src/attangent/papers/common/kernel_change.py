"""How much a kernel changes when every neuron moves by R: P1 Lemma 3.1 and P2 Lemma 5.1."""

import math

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.audit.finding import Conclusion, Figure, Series
from attangent.papers.common.trends import at_least

Changes = dict[float, Tensor]
"""H(W + R U) - H(W) by radius R, for one move U."""


def random_move(W: Tensor, seed: int) -> Tensor:
    """A direction of length 1 for each neuron."""
    U = torch.randn(W.shape, generator=generator(seed, "perturbation"), dtype=torch.float64)
    return U / U.norm(dim=0)


def largest_over_radius(changes: Changes) -> float:
    """The largest |H(W + R U) - H(W)|_F / R."""
    return max(change.norm().item() / R for R, change in changes.items())


def entry_lines(changes: dict[str, Changes], log10_bound: float) -> tuple[Conclusion, ...]:
    """Part 1: the largest change of an entry by any of the moves, over R and as a power of R."""
    radii = list(next(iter(changes.values())))
    largest = [max(of_move[R].abs().max().item() for of_move in changes.values()) for R in radii]
    over_radius = math.log10(max(entry / R for entry, R in zip(largest, radii, strict=True)))
    return (
        Conclusion("largest change of an entry / R", "<=", log10_bound, over_radius, log10=True, part="1"),
        Conclusion.of_trend(
            "largest change of an entry, over R", ">=", at_least(1.0), radii, largest, part="1"
        ),
    )


def norm_line(changes: dict[str, Changes], log10_bound: float) -> Conclusion:
    """Part 2: the change of the whole kernel by any of the moves, over R."""
    largest = math.log10(max(map(largest_over_radius, changes.values())))
    return Conclusion("|H(W) - H(W~)|_F / R", "<=", log10_bound, largest, log10=True, part="2")


def change_figure(changes: dict[str, Changes], what_moves: str) -> Figure:
    return Figure(
        "Change of the kernel",
        f"move R of every {what_moves}",
        "|H(W) - H(W~)|_F",
        tuple(
            Series.of(name, list(of_move), [change.norm().item() for change in of_move.values()])
            for name, of_move in changes.items()
        ),
        log_x=True,
        log_y=True,
    )
