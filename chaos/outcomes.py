"""How a call ended."""

import math
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from attangent import AttangentError

ANSWERED, REFUSED, OWN, FOREIGN = "answered", "refused", "caller's", "foreign"
NAN, HANG, DIED = "nan", "hang", "died"
STARTED = "started"
_DEEP = 4
_LARGE = 2**28


class Outcome(NamedTuple):
    """`kind` is one of the names above; `detail` says which exception, from where."""

    kind: str
    detail: str = ""


def outcome_of(call: Callable[[], Any], finite: bool, own: bool = False) -> Outcome:
    """Make the call; NaN in the answer counts where nothing given was NaN or infinite.

    `own`: a function was given that nobody would give; what it raises is the caller's own.
    """
    try:
        answer = call()
        bad = finite and any(map(_is_nan, _numbers(answer, _DEEP)))
    except AttangentError:
        return Outcome(REFUSED)
    except Exception as error:
        detail = f"{type(error).__name__}: {_place(error)}: {str(error)[:100]}"
        return Outcome(OWN if own else FOREIGN, detail)
    return Outcome(NAN, type(answer).__name__) if bad else Outcome(ANSWERED)


def _numbers(value: Any, depth: int) -> Iterator[Any]:
    if isinstance(value, float | torch.Tensor | np.ndarray):
        yield value
    elif depth and is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _numbers(getattr(value, field.name), depth - 1)
    elif depth and isinstance(value, Mapping):
        for part in value.values():
            yield from _numbers(part, depth - 1)
    elif depth and isinstance(value, list | tuple):
        for part in value[:100]:
            yield from _numbers(part, depth - 1)


def _is_nan(value: Any) -> bool:
    if isinstance(value, torch.Tensor) and value.layout is not torch.strided:
        return False
    if isinstance(value, torch.Tensor | np.ndarray) and value.nbytes > _LARGE:
        return False
    if isinstance(value, torch.Tensor):
        return value.is_floating_point() and not value.is_meta and bool(value.double().isnan().any())
    if isinstance(value, np.ndarray):
        return value.dtype.kind == "f" and bool(np.isnan(value).any())
    return math.isnan(value)


def _place(error: BaseException) -> str:
    """The last line of ours that the exception went through."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if "attangent" in path.parts and "_gate" not in path.stem:
            return f"{'/'.join(path.parts[path.parts.index('attangent') + 1 :])}:{frame.lineno}"
    return "outside"
