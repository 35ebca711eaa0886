"""Tolerances for exponents fitted over a few sizes."""

NOISE = 0.0
"""The error allowed for a fitted exponent: none, since the audit tests the stated one with an interval."""


def at_most(exponent: float) -> float:
    """Return the largest fitted exponent that agrees with `exponent` as an upper bound."""
    return exponent + NOISE


def at_least(exponent: float) -> float:
    """Return the smallest fitted exponent that agrees with `exponent` as a lower bound."""
    return exponent - NOISE
