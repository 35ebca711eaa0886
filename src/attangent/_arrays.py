"""Arrays of any kind as finite float64 tensors, refused before any work is done."""

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


def as_matrix(name: str, value: Any, columns: int | None = None) -> Tensor:
    """`value` as a finite float64 matrix with at least one row, with this many columns where given."""
    tensor = as_double(name, value)
    if tensor.ndim != 2 or 0 in tensor.shape or (columns is not None and tensor.shape[1] != columns):
        wanted = f"(rows, {columns})" if columns is not None else "(rows, columns)"
        raise AttangentError(f"{name} has shape {tuple(tensor.shape)}, expected {wanted}, none of them zero")
    return tensor
