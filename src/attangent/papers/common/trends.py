"""Exponents that a statement names, against those that a few sizes give."""

NOISE = 0.1
"""How far an exponent fitted over a few sizes may be off because the sizes are few."""


def at_most(exponent: float) -> float:
    """The largest fitted exponent that does not contradict `exponent` as an upper bound."""
    return exponent + NOISE


def at_least(exponent: float) -> float:
    """The smallest fitted exponent that does not contradict `exponent` as a lower bound."""
    return exponent - NOISE
