"""Annotations as kinds."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from attangent._core.kinds import describe, kind_of


class Walker(Protocol):
    def walk(self) -> None: ...


class Dog:
    def walk(self) -> None: ...


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        (int, [0, -3, np.int64(4)], [1.0, "1", None, True, 2**63, 10**400, [1]]),
        (float, [0.5, 1, np.float32(2), float("nan")], ["1", None, 10**30, Fraction(1, 3), 1j]),
        (bool, [True, 0, np.bool_(True)], ["no", None, 0.5]),
        (str, ["x", ""], [b"x", 1, None]),
        (Path, [Path("c")], ["a/b", None, 3, Path("a\0b")]),
        (str | PathLike[str], ["a/b", Path("c")], [None, 3, "a\0b"]),
        (int | None, [None, 2], ["x", 0.5]),
        (Literal["a", "b"], ["a"], ["c", None, ["a"], {}]),
        (Sequence[str], [["a"], ("a", "b"), []], ["ab", [1], {"a"}, None]),
        (tuple[int, int], [(1, 2), [1, 2]], [(1,), (1, 2, 3), (1, "x")]),
        (tuple[float, ...], [(), (1.0, 2)], ["12", (None,)]),
        (
            Iterable[int],
            [[1], {1, 2}, {1: "a"}, range(3), iter([1]), np.arange(3)],
            ["12", [None], {"a": 1}, 5, torch.ones(2), np.array(5), np.array(["a"])],
        ),
        (Iterable[str], ["qk", ["q"]], [3, [3]]),
        (Mapping[str, float], [{}, {"a": 1.0}], [{1: 1.0}, {"a": "x"}, [("a", 1.0)]]),
        (Callable[[int], int], [len, Dog], [None, 3, "len"]),
        (Tensor, [torch.ones(2), torch.nn.Parameter(torch.ones(2))], [[1.0], np.ones(2), None]),
        (Walker, [Dog()], [Dog, object(), None, 3]),
        (Dog, [Dog()], [Dog, None, "Dog"]),
    ],
)
def test_what_a_kind_admits(annotation, good, bad):
    kind = kind_of(annotation, arrays=False)
    assert kind is not None
    assert [value for value in good if type(value) not in kind.exact and not kind.admits(value)] == []
    assert [value for value in bad if type(value) in kind.exact or kind.admits(value)] == []


@pytest.mark.parametrize("annotation", [Any, object, int | Any, "unknown"])
def test_an_annotation_that_says_nothing_admits_all(annotation):
    assert kind_of(annotation, arrays=False) is None


@pytest.mark.parametrize("value", [[1.0, 2.0], (1, 2), np.arange(3), np.float64(2), 3.5])
def test_rooms_with_arrays_convert_whatever_holds_numbers(value):
    kind = kind_of(Tensor, arrays=True)
    assert kind is not None
    assert kind.convert is not None
    assert torch.equal(kind.convert(value), torch.as_tensor(np.asarray(value)))


@pytest.mark.parametrize("value", ["12", None, {"a": 1}, [None], ["a"], b"1", [[1], [2, 3]]])
def test_what_holds_no_numbers_is_not_converted(value):
    kind = kind_of(Tensor, arrays=True)
    assert kind is not None
    assert kind.convert is not None
    with pytest.raises((TypeError, ValueError)):
        kind.convert(value)


def test_arrays_are_lists_where_lists_are_declared():
    kind = kind_of(Sequence[float], arrays=False)
    assert kind is not None
    assert kind.convert is not None
    assert kind.convert(np.array([0.5, 1.0])) == [0.5, 1.0]
    with pytest.raises(TypeError):
        kind.convert(np.array(["a"]))


@pytest.mark.parametrize(
    ("annotation", "value", "wanted"),
    [
        (float, Fraction(1, 4), 0.25),
        (float, -(10**30), -1e30),
        (float | None, Fraction(1, 4), 0.25),
        (Sequence[float], [1, Fraction(1, 4)], [1, 0.25]),
        (tuple[str, Path], ("a", "b"), ["a", Path("b")]),
        (Path, "a/b", Path("a/b")),
        (Path | None, "a/b", Path("a/b")),
    ],
)
def test_what_is_near_a_kind_becomes_it(annotation, value, wanted):
    kind = kind_of(annotation, arrays=False)
    assert kind is not None
    assert kind.convert is not None
    found = kind.convert(value)
    assert found == wanted
    assert type(found) is type(wanted)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(float, "1"), (Path, "a\0b"), (Sequence[float], [1, "a"]), (Sequence[int], [True])],
)
def test_what_is_not_near_a_kind_is_not_converted(annotation, value):
    kind = kind_of(annotation, arrays=False)
    assert kind is not None
    assert kind.convert is not None
    with pytest.raises(TypeError):
        kind.convert(value)


def test_values_are_described_shortly():
    assert describe(torch.ones(2, 3)) == "float32 (2, 3) on cpu"
    assert describe("x") == "'x'"
    assert describe(10**400) == "a whole number of 1329 bits"
    assert len(describe("x" * 5000)) < 80
    assert describe([1]) == "list"


def test_a_text_beside_a_path_may_not_hold_a_zero_byte():
    kind = kind_of(str | Path, arrays=False)
    assert kind.admits("a/b")
    assert kind.admits(Path("a"))
    assert not kind.admits("a\0b")
    assert "a text or a path" in kind.words


def test_an_array_is_one_without_torch_too(monkeypatch):
    """The first parameter of an array's annotation is its shape, not the kind of its entries."""
    monkeypatch.setattr("attangent._core.kinds._array_kinds", dict)
    kind = kind_of(NDArray[np.float64], arrays=False)
    assert kind is not None
    assert kind.admits(np.zeros(3))
    assert not kind.admits([0.0])
