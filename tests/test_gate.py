"""The gate before public entries."""

import pickle
from dataclasses import dataclass
from typing import Self

import numpy as np
import pytest
import torch
from torch import Tensor

import attangent.kernels
from attangent import AttangentError, attention
from attangent._gate import checked, guard, guard_arrays


def scaled(x: Tensor, by: float = 2.0, *, name: str | None = None) -> Tensor:
    return x * by


@dataclass(frozen=True)
class Pair:
    left: int
    right: int = 0

    def joined(self, other: Self | None) -> int:
        return self.left + (other.left if other else 0)

    @classmethod
    def of(cls, text: str) -> "Pair":
        return cls(len(text))


def test_what_fits_goes_through_unchanged():
    x = torch.ones(2)
    assert torch.equal(checked(scaled)(x, 3, name=None), 3 * x)
    assert torch.equal(checked(scaled)(x=x), 2 * x)


@pytest.mark.parametrize(
    ("args", "named", "message"),
    [
        (([1.0],), {}, "x is list, expected a tensor"),
        ((None,), {}, "x is None, expected a tensor"),
        ((torch.ones(2), "3"), {}, "by is '3', expected a number"),
        ((torch.ones(2),), {"name": 3}, "name is 3, expected a text or None"),
        ((torch.ones(2), 10**400), {}, "by is a whole number of 1329 bits"),
    ],
)
def test_other_kinds_are_refused_with_what_was_expected(args, named, message):
    with pytest.raises(AttangentError, match=message):
        checked(scaled)(*args, **named)


def test_array_likes_are_converted_only_where_the_room_says_so():
    assert torch.equal(
        checked(scaled, arrays=True)([1.0, 2.0]), torch.tensor([2.0, 4.0], dtype=torch.float64)
    )
    assert torch.equal(checked(scaled, arrays=True)(x=np.ones(2)), torch.full((2,), 2.0, dtype=torch.float64))
    with pytest.raises(AttangentError, match="x is 'abc', expected a tensor or an array of numbers"):
        checked(scaled, arrays=True)("abc")


UNUSABLE = [
    torch.ones(2).to(torch.float8_e4m3fn),
    torch.eye(2).to_sparse(),
    torch.ones(2, dtype=torch.complex64),
]


@pytest.mark.parametrize("x", UNUSABLE)
def test_tensors_without_usable_numbers_are_named(x):
    def product(x: Tensor) -> Tensor:
        return torch.linalg.cholesky(x + torch.full((2, 2), object()))  # pyright: ignore

    with pytest.raises(AttangentError, match="expected a dense tensor with numbers in it"):
        checked(product)(x)


def test_sizes_that_no_memory_holds_are_refused():
    def zeros(n: int) -> Tensor:
        return torch.zeros(n, dtype=torch.float64)

    with pytest.raises(AttangentError, match="zeros needs more memory than there is"):
        checked(zeros)(2**55)


def test_what_the_system_refuses_is_said_in_words():
    def read(path: str) -> str:
        with open(path) as file:
            return file.read()

    with pytest.raises(AttangentError, match=r"No such file or directory \(no/such\)"):
        checked(read)("no/such")


@pytest.mark.parametrize(
    ("slip", "kind"),
    [
        (lambda: 1 / 0, ZeroDivisionError),
        (lambda: torch.ones(2, 3) @ torch.ones(2, 3), RuntimeError),
        (lambda: torch.ones(2)[5], IndexError),
        (lambda: np.ones(2).reshape(3), ValueError),
    ],
)
def test_errors_of_our_own_making_stay_what_they_are(slip, kind):
    """Also about shapes: a slip of ours must not look like the caller's."""

    def wrong(x: Tensor) -> object:
        return slip()

    with pytest.raises(kind) as raised:
        checked(wrong)(torch.ones(1))
    assert not isinstance(raised.value, AttangentError)


def test_a_guarded_room_covers_functions_constructors_and_methods():
    room = {"__all__": ["Pair", "scaled"], "Pair": Pair, "scaled": scaled}
    guard(room)
    assert Pair(1).joined(Pair(2)) == 3
    assert Pair.of("abc") == Pair(3)
    for call in (lambda: Pair("1"), lambda: Pair(1).joined(3), lambda: Pair.of(3), lambda: room["scaled"](3)):
        with pytest.raises(AttangentError, match="expected"):
            call()
    guard_arrays(room)
    with pytest.raises(AttangentError):
        room["scaled"]([1.0])  # what is guarded already stays as it is


def test_guarded_functions_and_classes_can_be_sent_to_workers():
    for thing in (attangent.kernels.unit_data, attangent.kernels.SoftmaxNetwork, attention.ntk_attention):
        assert pickle.loads(pickle.dumps(thing)) is thing


def test_torch_compile_goes_past_the_gate():
    compiled = torch.compile(checked(scaled), backend="eager", fullgraph=True)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
