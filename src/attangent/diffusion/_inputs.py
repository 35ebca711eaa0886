"""Checks of what a user hands to the room, made before any work is done."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from attangent._errors import AttangentError


def as_double(name: str, value: Any) -> Tensor:
    """`value` as a finite float64 tensor; plain numbers keep all their digits."""
    try:
        tensor = value if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))
    except (TypeError, ValueError, RuntimeError) as error:
        raise AttangentError(f"{name} is {type(value).__name__}, expected numbers: {error}") from error
    if tensor.is_complex() or not torch.isfinite(tensor).all():
        raise AttangentError(f"{name} has complex, NaN or infinite entries: drop or fill those first")
    return tensor.double()


def as_points(name: str, value: Any, columns: int | None = None) -> Tensor:
    """`value` as a finite float64 matrix (points, columns)."""
    tensor = as_double(name, value)
    if tensor.ndim != 2 or 0 in tensor.shape or (columns is not None and tensor.shape[1] != columns):
        wanted = f"(points, {columns})" if columns is not None else "(points, d)"
        raise AttangentError(f"{name} has shape {tuple(tensor.shape)}, expected {wanted}: one row a point")
    return tensor


def as_times(value: Any, points: int) -> Tensor:
    """`value` as float64 diffusion times (points,), a single time being meant for all points."""
    t = as_double("t", value)
    if t.ndim == 0:
        t = t.expand(points)
    if t.shape != (points,):
        raise AttangentError(f"t has shape {tuple(t.shape)}, expected one time, or {points}: one a point")
    if (t < 0).any():
        raise AttangentError(f"t goes down to {t.min():g}: expected times from 0 on")
    return t
