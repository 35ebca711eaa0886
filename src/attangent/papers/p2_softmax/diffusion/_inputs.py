"""Checks of what a user hands to the room, made before any work is done."""

from typing import Any

from torch import Tensor

from attangent._core.arrays import as_double, as_matrix
from attangent._core.errors import AttangentError

__all__ = ["as_double", "as_points", "as_times"]

as_points = as_matrix


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
