"""Jacobians of a module, point by point: rows of J, streamed or kept."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import jacrev, vmap

from attangent.kernels.factors import blocks
from attangent.kernels.functional import Functional, Points, count_points, differentiable_attention, take


@dataclass(frozen=True)
class JacobianRows:
    """Some points: which, their outputs F (n, O), and J (n, O, P), parameters flattened in their order."""

    points: slice
    outputs: Tensor
    jacobian: Tensor


def jacobian_rows(function: Functional, x: Points, batch: int = 16) -> Iterator[JacobianRows]:
    """F and J at all points, `batch` of them at a time."""
    for points in blocks(count_points("x", x), batch):
        with differentiable_attention():
            by_name, outputs = _at(function, take(x, points))
        flat = [by_name[name].flatten(2) for name in function.parameters]
        yield JacobianRows(points, outputs.detach(), torch.cat(flat, dim=2).detach())


def flattened(function: Functional) -> Tensor:
    """The chosen parameters as one vector (P)."""
    return torch.cat([value.detach().flatten() for value in function.parameters.values()])


def _at(function: Functional, x: Points) -> tuple[dict[str, Tensor], Tensor]:
    """Jacobians by parameter, (n, O, ...), and outputs; one point at a time where vmap cannot follow."""

    def twice(parameters: dict[str, Tensor], one: Points) -> tuple[Tensor, Tensor]:
        given = function.one(parameters, one)
        return given, given

    jacobian = jacrev(twice, has_aux=True)
    try:
        return vmap(jacobian, in_dims=(None, 0))(function.parameters, x)
    except RuntimeError as error:
        if "vmap" not in str(error):
            raise
    alone = [jacobian(function.parameters, take(x, i)) for i in range(count_points("x", x))]
    names = function.parameters
    return {name: torch.stack([one[name] for one, _ in alone]) for name in names}, torch.stack(
        [given for _, given in alone]
    )
