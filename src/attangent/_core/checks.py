"""Checks of single values that every room makes before any work is done."""

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

from attangent._core.errors import AttangentError

_UNCOUNTABLE = 1 << 62
_MOST_STEPS = 10**9


def check_size(name: str, value: Any, least: int = 1) -> int:
    """`value` as a whole number of at least `least` that a machine can count to."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise AttangentError(f"{name} is {value!r}, expected a whole number of at least {least}")
    if int(value) >= _UNCOUNTABLE:
        raise AttangentError(
            f"{name} is larger than anything can be, expected a number below {_UNCOUNTABLE:,}"
        )
    return int(value)


def check_steps(name: str, value: Any, least: int = 0) -> int:
    """`value` as a number of steps, from `least` to what a machine can make in a lifetime."""
    if check_size(name, value, least) > _MOST_STEPS:
        raise AttangentError(f"{name} is {value:,}, expected at most {_MOST_STEPS:,}: these would never end")
    return int(value)


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


def check_between(name: str, value: Any, low: float, high: float) -> float:
    """`value` as a finite number from `low` to `high`."""
    if not _is_number(value) or not low <= value <= high:
        raise AttangentError(f"{name} is {value!r}, expected a number from {low:g} to {high:g}")
    return float(value)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """`value` as one of `choices`."""
    if value not in choices:
        raise AttangentError(f"{name} is {value!r}, expected one of {', '.join(choices)}")
    return value


def check_names(given: Iterable[str], known: Iterable[str], what: str) -> None:
    """Refuse settings of names that `what` does not have."""
    known = sorted(known)
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise AttangentError(
            f"unknown settings {', '.join(unknown)} of {what}, expected some of {', '.join(known)}"
        )


def has_words(value: Any) -> bool:
    """Whether a value is a text with something in it, all of which can be written down as UTF-8."""
    return isinstance(value, str) and bool(value.strip()) and is_whole(value)


def is_whole(text: str) -> bool:
    """Whether a text can be written down as UTF-8: it holds no half of a letter (a lone surrogate)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False
