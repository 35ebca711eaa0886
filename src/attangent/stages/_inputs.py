"""Checks of what a user hands to the two-stage model, made before any work is done."""

import math
from typing import Any

from attangent._errors import AttangentError


def check_size(name: str, value: Any, least: int = 1) -> int:
    """`value` as a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise AttangentError(f"{name} is {value!r}, expected a whole number of at least {least}")
    return value


def check_between(name: str, value: Any, low: float, high: float) -> float:
    """`value` as a finite number from `low` to `high`."""
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not number or not low <= value <= high:
        raise AttangentError(f"{name} is {value!r}, expected a number from {low:g} to {high:g}")
    return float(value)


def check_positive(name: str, value: Any) -> float:
    """`value` as a finite number above zero."""
    if check_between(name, value, 0.0, 1e300) == 0:
        raise AttangentError(f"{name} is {value!r}, expected a number above 0")
    return float(value)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """`value` as one of `choices`."""
    if value not in choices:
        raise AttangentError(f"{name} is {value!r}, expected one of {', '.join(choices)}")
    return value
