"""Jacobians of a module, point by point: rows of J, streamed or kept."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import jacrev

from attangent.kernels.factors import blocks
from attangent.kernels.functional import (
    Functional,
    Points,
    count_points,
    differentiable_attention,
    per_point,
    take,
)


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


def named(function: Functional, theta: Tensor) -> dict[str, Tensor]:
    """A flat vector (P) as the chosen parameters by name."""
    sizes = [value.numel() for value in function.parameters.values()]
    parts = zip(function.parameters.items(), theta.split(sizes), strict=True)
    return {name: part.reshape(value.shape).to(value.dtype) for (name, value), part in parts}


def _at(function: Functional, x: Points) -> tuple[dict[str, Tensor], Tensor]:
    """Jacobians by parameter, (n, O, ...), and outputs."""

    def twice(parameters: dict[str, Tensor], one: Points) -> tuple[Tensor, Tensor]:
        given = function.one(parameters, one)
        return given, given

    return per_point(jacrev(twice, has_aux=True), function.parameters, x)
