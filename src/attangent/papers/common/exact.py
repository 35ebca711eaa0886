"""Exact proofs, step by step; Gaussian means as symbols, and rational bounds of exponentials."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import wraps
from math import factorial
from typing import Any

import sympy

from attangent.audit import Proof, Step


def proof(part: str = "") -> Callable[[Callable[[], Iterator[Step]]], Callable[[], Proof]]:
    """Turn a function that yields steps into one that returns their proof, about this part of the claim."""

    def of_steps(steps: Callable[[], Iterator[Step]]) -> Callable[[], Proof]:
        @wraps(steps, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
        def argument() -> Proof:
            return Proof(tuple(steps()), part)

        return argument

    return of_steps


def gaussian_mean(polynomial: Any, w: Any, slope: Any = 0, sigma: Any = 1) -> Any:
    """E[e^(slope w) p(w)] for w ~ N(0, sigma^2), as a symbolic expression.

    Shifting w by slope sigma^2 turns the mean into e^(slope^2 sigma^2/2) E[p(w + slope sigma^2)].
    """
    slope = sympy.sympify(slope)
    variance = sympy.sympify(sigma) ** 2
    shifted = sympy.Poly(sympy.expand(polynomial.subs(w, w + slope * variance)), w)
    moments = (
        coefficient * variance ** (degree // 2) * sympy.factorial2(degree - 1)
        for (degree,), coefficient in shifted.terms()
        if degree % 2 == 0
    )
    return sympy.exp(slope**2 * variance / 2) * sum(moments, sympy.Integer(0))


def exp_bounds(power: Fraction | int | str) -> tuple[Fraction, Fraction]:
    """Return two fractions around e^power, by its series with a bound on the remainder."""
    q = Fraction(power)
    if q < 0:
        low, high = exp_bounds(-q)
        return 1 / high, 1 / low
    terms = 2 * int(q) + 30
    low = sum((q**k / factorial(k) for k in range(terms)), Fraction(0))
    last = q**terms / factorial(terms)
    return low, low + last / (1 - q / (terms + 1))


def is_zero(expression: Any) -> bool:
    """Return whether a symbolic expression simplifies to zero."""
    return sympy.simplify(expression) == 0
