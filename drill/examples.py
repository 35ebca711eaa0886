"""A call of every entry that should be answered: what the fuzzer starts from.

Arguments with a default keep it, unless a table below knows better. What no table names is made from its
annotation, so that an entry is called from the day it is public.
"""

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np
import pandas as pd
import torch

from drill.instances import INSTANCES
from drill.public import Entry
from drill.tables import ARGUMENTS, NAMED

_PLAIN: dict[Any, Callable[[], Any]] = {
    int: lambda: 3,
    float: lambda: 0.5,
    bool: lambda: False,
    str: lambda: "x",
    Path: lambda: Path("place"),
    torch.Tensor: lambda: torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(3, 4),
    torch.dtype: lambda: torch.float64,
    torch.Generator: lambda: torch.Generator().manual_seed(0),
    torch.nn.Module: lambda: torch.nn.Linear(4, 2).double(),
    np.ndarray: lambda: np.sin(np.arange(60.0)),
    pd.DataFrame: lambda: pd.DataFrame({"a": np.sin(np.arange(60.0))}),
    slice: lambda: slice(0, 2),
    Callable: lambda: lambda *given, **named: given[0],
}


def example(entry: Entry) -> tuple[Any, dict[str, Any]]:
    """The instance a method is called on (None for others) and the arguments of a call, all made anew."""
    owner = make(entry.owner) if entry.owner else None
    given = dict(ARGUMENTS.get(entry.name, dict)())
    for name, annotation, default in parameters(entry):
        if name in given:
            continue
        by_name = NAMED.get((entry.name.partition(".")[0], name))
        if by_name is not None:
            given[name] = by_name()
        elif default is inspect.Parameter.empty:
            given[name] = make(annotation)
    return owner, given


@cache
def parameters(entry: Entry) -> tuple[tuple[str, Any, Any], ...]:
    """Name, annotation and default of every argument that a caller may name."""
    function = entry.function
    try:
        hints = typing.get_type_hints(function.__init__ if inspect.isclass(function) else function)
    except NameError:
        hints = {}
    found = inspect.signature(function).parameters.values()
    plain = [p for p in found if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    plain = plain[1:] if entry.owner else plain
    return tuple((p.name, hints.get(p.name, p.annotation), p.default) for p in plain)


def make(annotation: Any) -> Any:
    """A value of the annotated kind."""
    name = getattr(annotation, "__name__", annotation)
    if name in INSTANCES:
        return INSTANCES[name]()
    origin = get_origin(annotation) or annotation
    if origin in (Union, types.UnionType):
        return make(get_args(annotation)[0])
    if origin is Literal:
        return get_args(annotation)[0]
    if origin in _PLAIN:
        return _PLAIN[origin]()
    return _container(origin, get_args(annotation))


def _container(origin: Any, parts: tuple[Any, ...]) -> Any:
    if origin is tuple:
        wanted = [part for part in parts if part is not ...] * (2 if ... in parts else 1)
        return tuple(make(part) for part in wanted)
    if origin in (dict, Mapping):
        return {make(parts[0]): make(parts[1])} if parts else {}
    if origin in (list, Sequence, Iterable, set):
        return [make(parts[0])] if parts else []
    if getattr(origin, "__module__", "").startswith("attangent"):
        _, given = example(Entry("", origin))
        return origin(**given)
    return torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(3, 4)
