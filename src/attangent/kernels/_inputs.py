"""Checks of what a user hands to a network, made before any work is done."""

from typing import Any

import torch
from torch import Tensor

from attangent._core.errors import AttangentError


def as_tensor(name: str, value: Any) -> Tensor:
    """`value` as a tensor, whatever array-like it is."""
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise AttangentError(
            f"{name} is {type(value).__name__}, expected a tensor or an array of numbers: {error}"
        ) from error


def as_points(name: str, value: Any, columns: int | None, like: Tensor) -> Tensor:
    """`value` as a finite floating matrix (points, columns) with the dtype and device of `like`."""
    tensor = as_tensor(name, value)
    if not tensor.is_floating_point():
        raise AttangentError(
            f"{name} has dtype {tensor.dtype}, expected floating point numbers: convert it with .double()"
        )
    if tensor.ndim != 2 or (columns is not None and tensor.shape[1] != columns):
        wanted = f"(points, {columns})" if columns is not None else "(points, columns)"
        raise AttangentError(f"{name} has shape {tuple(tensor.shape)}, expected {wanted}: one row a point")
    if tensor.shape[0] == 0:
        raise AttangentError(f"{name} is empty, expected at least one row")
    if not torch.isfinite(tensor).all():
        raise AttangentError(f"{name} has NaN or infinite entries: drop or fill those rows first")
    return tensor.to(dtype=like.dtype, device=like.device)


def as_targets(value: Any, points: Tensor, columns: int, like: Tensor) -> Tensor:
    """`value` as targets of `points`, one row a point."""
    targets = as_points("Y", value, columns, like)
    if targets.shape[0] != points.shape[0]:
        raise AttangentError(f"Y has {targets.shape[0]} rows but X has {points.shape[0]}: one target a point")
    return targets
