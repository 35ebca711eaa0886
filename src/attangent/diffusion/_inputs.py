"""Checks of what a user hands to the room, made before any work is done."""

from typing import Any

import torch
from torch import Tensor

from attangent._errors import AttangentError
from attangent.kernels._inputs import as_tensor


def as_points(name: str, value: Any, columns: int | None = None) -> Tensor:
    """`value` as a finite float64 matrix (points, columns)."""
    tensor = as_tensor(name, value)
    if tensor.ndim != 2 or 0 in tensor.shape or (columns is not None and tensor.shape[1] != columns):
        wanted = f"(points, {columns})" if columns is not None else "(points, d)"
        raise AttangentError(f"{name} has shape {tuple(tensor.shape)}, expected {wanted}: one row a point")
    if tensor.is_complex() or not torch.isfinite(tensor).all():
        raise AttangentError(f"{name} has complex, NaN or infinite entries: drop or fill those rows first")
    return tensor.double()


def as_times(value: Any, points: int) -> Tensor:
    """`value` as float64 diffusion times (points,), a single time being meant for all points."""
    t = as_tensor("t", value).double()
    if t.ndim == 0:
        t = t.expand(points)
    if t.shape != (points,):
        raise AttangentError(
            f"t has shape {tuple(t.shape)}, expected one time or {points}: one for each point"
        )
    if not torch.isfinite(t).all() or (t < 0).any():
        raise AttangentError("t has negative, NaN or infinite entries: expected times from 0 on")
    return t
