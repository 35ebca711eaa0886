"""Checks of points, targets and memory limits, made before any work starts."""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attangent._core.checks import readable
from attangent._core.errors import AttangentError

DEFAULT_MEMORY_LIMIT = 2 * 2**30
"""Bytes that a kernel may take by default: 2 GiB."""


def as_tensor(name: str, value: Any) -> Tensor:
    """Convert an array-like `value` to a tensor."""
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise AttangentError(
            f"{name} is {type(value).__name__}, expected a tensor or an array of numbers: {error}"
        ) from error


def as_points(name: str, value: Any, columns: int | None, like: Tensor) -> Float[Tensor, "points columns"]:
    """Convert `value` to a finite floating-point matrix with the dtype and device of `like`."""
    tensor = as_tensor(name, value)
    if not tensor.is_floating_point():
        raise AttangentError(
            f"{name} has dtype {tensor.dtype}, expected floating point numbers: convert it with .double()"
        )
    if tensor.ndim != 2 or (columns is not None and tensor.shape[1] != columns):
        expected = f"(points, {columns})" if columns is not None else "(points, columns)"
        raise AttangentError(
            f"{name} has shape {tuple(tensor.shape)}, expected {expected}: one row per point"
        )
    if tensor.shape[0] == 0:
        raise AttangentError(f"{name} is empty, expected at least one row")
    if not torch.isfinite(tensor).all():
        raise AttangentError(f"{name} has NaN or infinite entries: drop or fill those rows first")
    return tensor.to(dtype=like.dtype, device=like.device)


def as_targets(value: Any, points: Tensor, columns: int, like: Tensor) -> Float[Tensor, "points columns"]:
    """Convert `value` to targets, one row per point."""
    targets = as_points("Y", value, columns, like)
    if targets.shape[0] != points.shape[0]:
        raise AttangentError(
            f"Y has {targets.shape[0]} rows but X has {points.shape[0]}: pass one target per point"
        )
    return targets


def check_limit(memory_limit: Any) -> float:
    """Return `memory_limit` as a positive number of bytes; infinity means no limit."""
    valid = isinstance(memory_limit, int | float) and not isinstance(memory_limit, bool)
    if not valid or math.isnan(memory_limit) or memory_limit <= 0:
        raise AttangentError(
            f"memory_limit is {memory_limit!r}, expected a number of bytes above 0, for example 2 * 2**30"
        )
    return float(memory_limit)


def refuse_above(limit: float, needed: float, what: str, remedy: str) -> None:
    """Raise an AttangentError if `needed` bytes exceed `limit`."""
    if needed > limit:
        raise AttangentError(
            f"{what} would take {readable(needed)} but memory_limit is {readable(limit)}: {remedy}"
        )
