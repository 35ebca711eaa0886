"""Values that no entry expects: made anew for every call, so that none can be spoilt by an earlier one."""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import torch


def _nested(depth: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(depth):
        inner = [inner]
    return inner


def _endless() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


NUMBERS: dict[str, Callable[[], Any]] = {
    **{str(n): (lambda n=n: n) for n in (-1, 0, 1, 2, 7)},
    **{f"2^{n}": (lambda n=n: 2**n) for n in (31, 44, 62, 63)},
    "10^400": lambda: 10**400,
    "-10^30": lambda: -(10**30),
    **{f"{x!r}": (lambda x=x: x) for x in (1e-300, 1e300, -1e300, 1e4, -0.5, 0.5, -0.0, 1e-12)},
    **{x: (lambda x=x: float(x)) for x in ("nan", "inf", "-inf")},
    "complex": lambda: 1j,
    "Fraction": lambda: Fraction(1, 3),
    "Decimal": lambda: Decimal("0.1"),
    "np.int64": lambda: np.int64(3),
    "np.float32": lambda: np.float32(0.5),
    "True": lambda: True,
}
TENSORS: dict[str, Callable[[], Any]] = {
    "no entries": lambda: torch.zeros(0),
    "no dimension": lambda: torch.tensor(2.0),
    "vector": lambda: torch.arange(5.0),
    "matrix": lambda: torch.ones(3, 4, dtype=torch.float64),
    "no rows": lambda: torch.zeros(0, 4),
    "five dimensions": lambda: torch.ones(1, 2, 3, 2, 2),
    "meta": lambda: torch.zeros(3, 4, device="meta"),
    "float8": lambda: torch.zeros(3, 4).to(torch.float8_e4m3fn),
    "whole numbers": lambda: torch.ones(3, 4, dtype=torch.int64),
    "truth values": lambda: torch.ones(3, 4, dtype=torch.bool),
    "complex numbers": lambda: torch.ones(3, 4, dtype=torch.complex64),
    "bfloat16": lambda: torch.ones(3, 4, dtype=torch.bfloat16),
    "NaN": lambda: torch.full((3, 4), float("nan")),
    "infinite": lambda: torch.full((3, 4), float("inf")),
    "1e30": lambda: torch.full((3, 4), 1e30, dtype=torch.float64),
    "a terabyte": lambda: torch.zeros(1).expand(2**38),
    "sparse": lambda: torch.eye(3).to_sparse(),
    "strided": lambda: torch.ones(8, 8)[::2, ::3],
    "with gradient": lambda: torch.ones(3, 4, requires_grad=True),
    "numpy": lambda: np.ones((3, 4)),
    "numpy NaN": lambda: np.array([[np.nan, 1.0]]),
    "numpy text": lambda: np.array(["a", "b"]),
    "numpy objects": lambda: np.array([None, {}], dtype=object),
    "numpy dates": lambda: np.array(["2020-01-01"], dtype="datetime64[D]"),
}
OBJECTS: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "object": object,
    "empty list": list,
    "list": lambda: [1, 2],
    "texts": lambda: ["a", "b"],
    "mixed": lambda: [1, "a", None],
    "tensors": lambda: [torch.zeros(2), torch.zeros(3)],
    "unhashable": lambda: [{}, []],
    "deep": lambda: _nested(3000),
    "endless": _endless,
    "empty dict": dict,
    "dict": lambda: {"a": 1},
    "dict of numbers": lambda: {1: None},
    "set": lambda: {1, 2},
    "frozen": lambda: frozenset({"a"}),
    "range": lambda: range(3),
    "generator": lambda: (n for n in range(3)),
    "function": lambda: lambda *given: None,
    "failing function": lambda: lambda *given: 1 / 0,
    "class": lambda: int,
    "slice": lambda: slice(None),
    "bytes": lambda: b"ab",
    "empty text": lambda: "",
    "text": lambda: "x",
    "other text": lambda: "\udcff\u202e<script>",
    "long text": lambda: "x" * 5000,
    "zero byte": lambda: "a\0b",
    "pattern": lambda: "(a+)+$",
    "parent": lambda: "../../outside",
    "root": lambda: "/outside",
    "no such path": lambda: Path("no/such/file"),
    "device": lambda: "/dev/full",
    "frame": lambda: pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}),
    "empty frame": pd.DataFrame,
    "module": lambda: torch.nn.Linear(2, 2),
    "generator of numbers": torch.Generator,
    "dtype": lambda: torch.int32,
}
ALL = {
    f"{kind}: {name}": make
    for kind, group in (("number", NUMBERS), ("array", TENSORS), ("object", OBJECTS))
    for name, make in group.items()
}
_NOT_FINITE = ("nan", "inf", "NaN", "infinite")


def draw(rng: Random) -> tuple[str, Any]:
    """The name of a hostile value, and the value."""
    name = rng.choice(list(ALL))
    return name, ALL[name]()


def is_finite(name: str) -> bool:
    """Whether a value holds no NaN and nothing infinite, so that NaN in the answer is ours."""
    return not any(word in name for word in _NOT_FINITE)
