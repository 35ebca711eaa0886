import numpy as np
import pytest

from attangent import AttangentError
from attangent._core.checks import (
    check_between,
    check_choice,
    check_not_negative,
    check_positive,
    check_size,
    check_steps,
    has_words,
    is_whole,
)


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "3", None])
def test_sizes_are_whole_and_positive(value):
    with pytest.raises(AttangentError, match=r"m is .*, expected a whole number of at least 1"):
        check_size("m", value)


def test_a_size_may_have_another_least_value_and_come_from_numpy():
    assert check_size("d", np.int64(2), least=2) == 2
    assert type(check_size("d", np.int64(2))) is int
    with pytest.raises(AttangentError, match="d is 1, expected a whole number of at least 2"):
        check_size("d", 1, least=2)


@pytest.mark.parametrize("value", [0, -0.5, float("inf"), float("nan"), True, "1", None])
def test_rates_are_positive_numbers(value):
    with pytest.raises(AttangentError, match=r"rate is .*, expected a finite number above 0"):
        check_positive("rate", value)


def test_zero_is_allowed_where_it_makes_sense():
    assert check_not_negative("tau", 0) == 0.0
    assert check_positive("rate", np.float32(0.5)) == 0.5
    with pytest.raises(AttangentError, match="tau is -1, expected a finite number of at least 0"):
        check_not_negative("tau", -1)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), True, "a"])
def test_numbers_between(value):
    assert check_between("share", 1, 0.0, 1.0) == 1.0
    with pytest.raises(AttangentError, match=r"share is .*, expected a number from 0 to 1"):
        check_between("share", value, 0.0, 1.0)


def test_one_of_a_few():
    assert check_choice("tokens", "unit", ("unit", "gaussian")) == "unit"
    with pytest.raises(AttangentError, match="tokens is 'one', expected one of unit, gaussian"):
        check_choice("tokens", "one", ("unit", "gaussian"))


def test_numbers_that_no_machine_holds_are_refused():
    with pytest.raises(AttangentError, match="size is too large"):
        check_size("size", 10**400)
    for check in (check_positive, check_not_negative):
        with pytest.raises(AttangentError, match="expected a finite number"):
            check("x", 10**400)


def test_step_counts_end_where_no_machine_gets():
    assert check_steps("steps", 0) == 0
    assert check_steps("steps", 10**9) == 10**9
    for bad in (-1, 10**9 + 1, 1.5, "3", True):
        with pytest.raises(AttangentError, match="steps is"):
            check_steps("steps", bad)


@pytest.mark.parametrize(("value", "found"), [("a b", True), ("", False), (" \n", False), ("\udcff", False)])
def test_texts_with_words(value, found):
    assert has_words(value) is found
    assert not has_words(value.encode(errors="replace"))


@pytest.mark.parametrize(
    ("text", "found"), [("a", True), ("", True), ("\U0001f600", True), ("\ud800", False)]
)
def test_texts_in_whole_letters(text, found):
    assert is_whole(text) is found
