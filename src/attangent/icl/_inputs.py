"""Checks of what a user hands to the room, made before any work is done."""

import math
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


def check_size(name: str, value: Any) -> int:
    """`value` as a whole number of at least one."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise AttangentError(f"{name} is {value!r}, expected a whole number of at least 1")
    return value


def check_positive(name: str, value: Any) -> float:
    """`value` as a finite number above zero."""
    if not _is_number(value) or value <= 0:
        raise AttangentError(f"{name} is {value!r}, expected a finite number above 0")
    return float(value)


def check_not_negative(name: str, value: Any) -> float:
    """`value` as a finite number of at least zero."""
    if not _is_number(value) or value < 0:
        raise AttangentError(f"{name} is {value!r}, expected a finite number of at least 0")
    return float(value)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """`value` as one of `choices`."""
    if value not in choices:
        raise AttangentError(f"{name} is {value!r}, expected one of {', '.join(choices)}")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
