"""The map of the theory: all monomials up to an order, so phi(q).phi(k) is the Taylor polynomial of exp."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attangent._core.checks import check_positive, check_size
from attangent._core.errors import AttangentError
from attangent.attention.features.base import FeatureMap
from attangent.attention.shapes import Features, Inputs, Pulled

_LARGEST = 2_000_000
_HIGHEST = 1000
_FARTHEST = 1e4
Indices = Int[Tensor, " monomials"]


class Taylor(FeatureMap):
    """phi(q).phi(k) = sum_{j <= g} (q.k/sqrt d)^j / j!  (P1 Eq. 6, Lemma J.7).

    One feature per monomial x^a of degree |a| <= g, phi_a(x) = x^a d^(-|a|/4) / sqrt(a!), hence
    r = C(d + g, g). Features take both signs. For an even order the polynomial itself is positive
    everywhere, and so is phi(q) k for the masses k of a prefix.

    Args:
        dim: Size d of keys and queries.
        order: Order g of the polynomial.

    Raises:
        AttangentError: If there would be too many features.

    Example:
        >>> Taylor(8, order=2).size
        45
    """

    name = "taylor"
    positive = False

    def __init__(self, dim: int, order: int):
        _check_memory(check_size("dim", dim), check_size("order", order))
        super().__init__(dim, math.comb(dim + order, order))
        self.order = order
        for degree, (parent, last, power) in enumerate(_levels(dim, order), start=1):
            self.register_buffer(f"_parent{degree}", parent, persistent=False)
            self.register_buffer(f"_last{degree}", last, persistent=False)
            self.register_buffer(f"_power{degree}", power, persistent=False)

    @classmethod
    def for_tolerance(cls, dim: int, entry_bound: float, tolerance: float) -> "Taylor":
        """Return the map of the lowest order with a relative error within `tolerance`.

        Args:
            dim: Size d of keys and queries.
            entry_bound: Bound on the absolute entries of q and k.
            tolerance: Relative error of phi(q).phi(k), between 0 and 1.

        Returns:
            The map.

        Raises:
            AttangentError: If the tolerance is out of range or the map would be too large.
        """
        if not isinstance(tolerance, int | float) or not 0 < tolerance < 1:
            raise AttangentError(f"tolerance is {tolerance!r}, expected a number between 0 and 1")
        bound = _largest_logit(check_size("dim", dim), entry_bound)
        _check_memory(dim, max(1, math.floor(min(bound, 2 * _HIGHEST))))  # order_for starts there
        return cls(dim, order_for(bound, tolerance))

    def relative_error(self, entry_bound: float) -> float:
        """Return the largest |phi(q).phi(k) / exp(q.k/sqrt d) - 1| over all q and k in a cube.

        Args:
            entry_bound: Bound on the absolute entries of q and k.

        Returns:
            The relative error.
        """
        return taylor_error(self.order, _largest_logit(self.dim, entry_bound))

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        levels = [torch.ones_like(x[..., :1])]
        for parent, last, factor in self._tables(x):
            levels.append(levels[-1][..., parent] * x[..., last] * factor)
        return torch.cat(levels, dim=-1)

    def pullback(self, x: Inputs, w: Features, grad_w: Features) -> Pulled:
        tables = list(self._tables(x))
        widths = [1] + [len(parent) for parent, _, _ in tables]
        levels = w.split(widths, dim=-1)
        grads = list(grad_w.split(widths, dim=-1))
        grad_x = torch.zeros_like(x)
        # a monomial is its parent times one coordinate: from the top degree down, each passes its gradient on
        for degree in range(self.order, 0, -1):
            parent, last, factor = tables[degree - 1]
            scaled = grads[degree] * factor
            grad_x.index_add_(-1, last, scaled * levels[degree - 1][..., parent])
            grads[degree - 1] = grads[degree - 1].index_add(-1, parent, scaled * x[..., last])
        return grad_x, ()

    def describe(self) -> dict[str, Any]:
        return {"dim": self.dim, "order": self.order}

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, order={self.order}"

    def _tables(self, x: Inputs) -> Iterator[tuple[Indices, Indices, Float[Tensor, " monomials"]]]:
        for degree in range(1, self.order + 1):
            factor = self.get_buffer(f"_power{degree}").to(x.dtype).rsqrt() * self.dim**-0.25
            yield self.get_buffer(f"_parent{degree}"), self.get_buffer(f"_last{degree}"), factor


def _check_memory(dim: int, order: int) -> None:
    """Check the number of features and the order before allocating anything."""
    log_size = math.lgamma(dim + order + 1) - math.lgamma(dim + 1) - math.lgamma(order + 1)
    if order > _HIGHEST or log_size > math.log(_LARGEST):
        known = log_size < math.log(1e15)
        count = f"{math.comb(dim + order, order):,}" if known else f"1e{log_size / math.log(10):.0f}"
        raise AttangentError(
            f"Taylor features of order {order} in {dim} dimensions number {count}, expected at most "
            f"{_LARGEST:,} and an order of at most {_HIGHEST}: choose a lower order, or a map whose size "
            "does not depend on it (PositiveRandom, Anchors)"
        )


def _levels(dim: int, order: int) -> Iterator[tuple[Indices, Indices, Indices]]:
    """Yield per degree: the monomial one degree lower, the coordinate multiplied in, and its power.

    Coordinates are multiplied in ascending order, so that every monomial is built exactly once.
    """
    last = torch.zeros(1, dtype=torch.long)
    power = last
    start = True
    for _ in range(order):
        lowest = torch.zeros_like(last) if start else last
        counts = dim - lowest
        parent = torch.repeat_interleave(torch.arange(len(last)), counts)
        offset = torch.arange(len(parent)) - torch.repeat_interleave(counts.cumsum(0) - counts, counts)
        grown = lowest[parent] + offset
        repeated = (grown == last[parent]) & (not start)
        power = torch.where(repeated, power[parent] + 1, torch.ones_like(grown))
        yield parent, grown, power
        last = grown
        start = False


def _largest_logit(dim: int, entry_bound: float) -> float:
    entry_bound = check_positive("entry_bound", entry_bound)
    if entry_bound > _FARTHEST:
        raise AttangentError(f"entry_bound is {entry_bound!r}, expected at most {_FARTHEST:g}")
    return entry_bound**2 * math.sqrt(dim)


def taylor_error(order: int, bound: float) -> float:
    """Return sup over |s| <= bound of |1 - e^(-s) sum_{j<=g} s^j/j!|, exactly.

    e^(-s) T_g(s) has the derivative -e^(-s) s^g/g!, so the supremum lies at an end of the interval; by the
    integral form of the remainder the two ends are (1/g!) int_0^bound u^g e^(-+u) du, and the one at -bound,
    sum_i bound^(g+1+i) / (g! i! (g+1+i)), is the larger.

    Args:
        order: Order g of the polynomial, at least 0.
        bound: Bound on the absolute logit, above 0.

    Returns:
        The relative error; inf if it overflows.

    Raises:
        AttangentError: If an argument is out of range.

    Example:
        >>> round(taylor_error(1, 1.0), 4)
        1.0
    """
    if check_size("order", order, 0) > _FARTHEST or not 0 < bound <= _FARTHEST:
        raise AttangentError(
            f"order and bound are {order!r} and {bound!r}, expected at most {_FARTHEST:g} and a bound above 0"
        )
    log_first = (order + 1) * math.log(bound) - math.lgamma(order + 1)
    total = 0.0
    i = 0
    while True:
        log_term = log_first + i * math.log(bound) - math.lgamma(i + 1) - math.log(order + 1 + i)
        if log_term > 700:
            return math.inf
        term = math.exp(log_term)
        total += term
        i += 1
        if i > bound and term <= 1e-17 * total:
            return total


def order_for(bound: float, tolerance: float) -> int:
    """Return the lowest order of at least 1 whose `taylor_error` is within a tolerance.

    Args:
        bound: Bound on the absolute logit, above 0.
        tolerance: Relative error, between 0 and 1.

    Returns:
        The order.

    Raises:
        AttangentError: If an argument is out of range.

    Example:
        >>> order_for(1.0, 1e-3)
        6
    """
    if not 0 < tolerance < 1 or not 0 < bound <= _FARTHEST:
        raise AttangentError(
            f"bound and tolerance are {bound!r} and {tolerance!r}, expected a bound of at most "
            f"{_FARTHEST:g} and a tolerance between 0 and 1"
        )
    # the error of an order g below bound - 1 is at least bound^(g+1)/(g+1)!, above 1
    order = max(1, math.floor(bound) - 1)
    while taylor_error(order, bound) > tolerance:
        order += 1
    return order
