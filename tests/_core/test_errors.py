"""Errors of others put into words."""

import pytest

from attangent import AttangentError
from attangent._core.errors import describe_os_error, loading


@pytest.mark.parametrize(
    "error", [Exception("bad\nlines"), TypeError("bad"), OSError("bad"), KeyError("bad")]
)
def test_what_a_reader_of_others_raises_is_put_into_words(error):
    with pytest.raises(AttangentError, match=r"no model in x: '?bad'?$") as caught, loading("no model in x"):
        raise error
    assert caught.value.__cause__ is error


def test_an_error_without_words_is_named():
    with pytest.raises(AttangentError, match="no model in x: MemoryError"), loading("no model in x"):
        raise MemoryError


@pytest.mark.parametrize("error", [AttangentError("ours"), ImportError("peft"), KeyboardInterrupt()])
def test_our_own_errors_and_missing_packages_stay(error):
    with pytest.raises(type(error)) as caught, loading("no model in x"):
        raise error
    assert caught.value is error


def test_what_the_system_refuses_names_the_file():
    assert describe_os_error(OSError(13, "Permission denied", "a/b")).startswith(
        "Permission denied (a/b): choose another"
    )
