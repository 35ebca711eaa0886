"""The examples of the check find errors of either pass."""

import ctypes

import pytest

from attangent.attention.backends.cpu.check import is_right
from attangent.attention.backends.cpu.library import CallFields, load

pytestmark = pytest.mark.skipif(load() is None, reason="there was no C compiler at installation")


def test_the_code_here_is_right():
    assert is_right(load())


@pytest.mark.parametrize("broken", ["forward", "backward"])
@pytest.mark.parametrize("kind", range(4))
def test_an_error_in_one_pass_of_one_kind_is_seen(broken, kind):
    right = load()

    def wrong(address, parallel):
        call = CallFields.from_address(address)
        if call.kind == kind:
            call.gain *= 1.01
        return getattr(right, broken)(ctypes.addressof(call), parallel)

    assert not is_right(right._replace(**{broken: wrong}))
