"""Checks of what a user hands to the room, made before any work is done."""

from typing import Any

from torch import Tensor

from attangent._core.arrays import as_double as as_tensor
from attangent._core.arrays import as_matrix
from attangent._core.errors import AttangentError

__all__ = ["as_labels", "as_matrix", "as_tensor"]


def as_labels(value: Any, N: int) -> Tensor:
    """`value` as float64 labels whose last axis runs over the N tokens of a prompt."""
    tensor = as_tensor("labels", value)
    if tensor.ndim == 0 or tensor.shape[-1] != N:
        raise AttangentError(
            f"labels has shape {tuple(tensor.shape)}, expected (..., {N}): one label for each of the first "
            f"N={N} tokens; cut longer ones with labels[..., :{N}]"
        )
    return tensor
