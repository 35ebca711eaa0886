"""Checks and conversions of arrays at the border of public functions."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from attangent._core.errors import AttangentError


def as_double(name: str, value: Any) -> Tensor:
    """Return numbers of any kind as a finite float64 tensor; Python floats keep all their digits."""
    try:
        tensor = value if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))
    except (TypeError, ValueError, RuntimeError) as error:
        raise AttangentError(f"{name} is {type(value).__name__}, expected numbers: {error}") from error
    if tensor.is_complex() or not torch.isfinite(tensor).all():
        raise AttangentError(f"{name} has complex, NaN or infinite entries: drop or fill these first")
    return tensor.double()


def as_matrix(name: str, value: Any, columns: int | None = None) -> Tensor:
    """Return numbers as a finite, non-empty float64 matrix, with `columns` columns if given."""
    tensor = as_double(name, value)
    if tensor.ndim != 2 or 0 in tensor.shape or (columns is not None and tensor.shape[1] != columns):
        wanted = f"(rows, {columns})" if columns is not None else "(rows, columns)"
        raise AttangentError(f"{name} has shape {tuple(tensor.shape)}, expected {wanted}, none of them zero")
    return tensor


def fitted(name: str, tensor: Tensor, like: Tensor, *shape: int | str) -> Tensor:
    """Return a tensor of this shape in the dtype and on the device of `like`; a name stands for any size."""
    check_shape(name, tensor, *shape)
    if tensor.is_complex():
        raise AttangentError(f"{name} has dtype {tensor.dtype}, expected real numbers")
    return tensor.to(dtype=like.dtype, device=like.device)


def check_shape(name: str, tensor: Tensor, *shape: int | str) -> None:
    """Check a shape; a name stands for any size, and "..." at the start for any leading axes."""
    wanted = shape[1:] if shape[:1] == ("...",) else shape
    axes = tensor.shape[len(tensor.shape) - len(wanted) :] if wanted is not shape else tensor.shape
    fits = len(axes) == len(wanted) <= tensor.ndim
    if not fits or any(
        size != axis for size, axis in zip(wanted, axes, strict=True) if isinstance(size, int)
    ):
        raise AttangentError(
            f"{name} has shape {tuple(tensor.shape)}, expected ({', '.join(map(str, shape))})"
        )
