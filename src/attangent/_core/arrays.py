"""Arrays of any kind as finite float64 tensors, refused before any work is done."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent._core.kinds import Kind

_CALCULABLE = {
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool),
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
}
"""Types of numbers that torch calculates with; others it only stores."""


def has_numbers(tensor: Tensor) -> bool:
    """Whether a tensor is dense, of a type that can be calculated with, and more than a shape."""
    return not tensor.is_meta and tensor.dtype in _CALCULABLE and tensor.layout is torch.strided


def _as_array(value: Any) -> np.ndarray:
    if value is None or isinstance(value, str | bytes | bool | Mapping):
        raise TypeError
    if isinstance(value, Tensor):
        if not has_numbers(value):
            raise TypeError
        value = value.detach().cpu()
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise TypeError
    return array


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "fiub" and value.ndim > 0


def _as_filled(value: Any) -> np.ndarray:
    array = _as_array(value)
    if array.ndim == 0:
        raise TypeError
    return array


def _as_tensor(value: Any) -> Tensor:
    return torch.as_tensor(_as_array(value))


_TENSORS = frozenset({Tensor, torch.nn.Parameter})
_TENSOR = Kind("a tensor", _TENSORS, lambda value: isinstance(value, Tensor))
_NUMBERS = Kind("a tensor or an array of numbers", _TENSORS, _TENSOR.admits, _as_tensor)
_ARRAY = Kind("an array of numbers", frozenset(), _is_array, _as_filled)
_MODULE = Kind("a torch.nn.Module", frozenset(), lambda value: isinstance(value, torch.nn.Module))
KINDS = {Tensor: (_TENSOR, _NUMBERS), np.ndarray: (_ARRAY, _ARRAY), torch.nn.Module: (_MODULE, _MODULE)}
"""What is asked of a tensor or an array where nothing is converted, and where array-likes are."""


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


def fitted(name: str, tensor: Tensor, like: Tensor, *shape: int | str) -> Tensor:
    """`tensor` in the dtype of `like`, refused where its shape is another; a word stands for any size."""
    check_shape(name, tensor, *shape)
    if tensor.is_complex() or tensor.dtype not in _CALCULABLE:
        raise AttangentError(f"{name} has dtype {tensor.dtype}, expected ordinary numbers")
    return tensor.to(dtype=like.dtype, device=like.device)


def check_shape(name: str, tensor: Tensor, *shape: int | str) -> None:
    """Refuse a tensor of another shape; a word stands for any size, "..." in front for any axes before."""
    wanted = shape[1:] if shape[:1] == ("...",) else shape
    found = tensor.shape[len(tensor.shape) - len(wanted) :] if wanted is not shape else tensor.shape
    fits = len(found) == len(wanted) <= tensor.ndim
    if not fits or any(size != one for one, size in zip(wanted, found, strict=True) if isinstance(one, int)):
        raise AttangentError(
            f"{name} has shape {tuple(tensor.shape)}, expected ({', '.join(map(str, shape))})"
        )
