"""Checks of what a user hands to the room, made before any work is done."""

from typing import Any

import torch
from torch import Tensor

from attangent._errors import AttangentError


def as_matrix(name: str, value: Any, columns: int | None = None) -> Tensor:
    """`value` as a finite float64 matrix, with this many columns where given."""
    tensor = as_tensor(name, value)
    if tensor.ndim != 2 or 0 in tensor.shape or (columns is not None and tensor.shape[1] != columns):
        wanted = f"(rows, {columns})" if columns is not None else "(rows, columns)"
        raise AttangentError(f"{name} has shape {tuple(tensor.shape)}, expected {wanted}, none of them zero")
    return tensor


def as_labels(value: Any, N: int) -> Tensor:
    """`value` as float64 labels whose last axis runs over the N tokens of a prompt."""
    tensor = as_tensor("labels", value)
    if tensor.ndim == 0 or tensor.shape[-1] != N:
        raise AttangentError(
            f"labels has shape {tuple(tensor.shape)}, expected (..., {N}): one label for each of the first "
            f"N={N} tokens; cut longer ones with labels[..., :{N}]"
        )
    return tensor


def as_tensor(name: str, value: Any) -> Tensor:
    """`value` as a finite float64 tensor, whatever array-like it is."""
    try:
        tensor = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise AttangentError(f"{name} is {type(value).__name__}, expected numbers: {error}") from error
    if tensor.is_complex() or not torch.isfinite(tensor).all():
        raise AttangentError(f"{name} has complex, NaN or infinite entries: expected finite real numbers")
    return tensor.to(torch.float64)
