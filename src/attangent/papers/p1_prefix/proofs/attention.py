"""Theorem 4.1 in the regime that it names, costs, misprints and sums of the tables."""

from collections.abc import Iterator
from fractions import Fraction

import sympy

from attangent.audit import Step
from attangent.papers.common.exact import is_zero, proof


@proof(part="cost in the regime of the theorem")
def too_many_features() -> Iterator[Step]:
    """With QK'/sqrt d the Taylor features outnumber every power of m."""
    l = sympy.Symbol("l", positive=True)  # log m
    d = l
    B = l ** sympy.Rational(2, 5)
    logits = sympy.sqrt(d) * B**2
    exponent = sympy.expand_log(sympy.log(logits / (2 * d)), force=True)
    yield Step(
        "Take d = log m and B = (log m)^(2/5), which is o(sqrt(log m)). All entries of Q equal to B and of "
        "K_C equal to B or -B give logits of size sqrt(d) B^2 under the square root of Algorithm 2.",
        r"\pm\sqrt{d}\, B^2 = \pm(\log m)^{13/10}",
        is_zero(logits - l ** sympy.Rational(13, 10)) and sympy.limit(B / sympy.sqrt(l), l, sympy.oo) == 0,
    )
    yield Step(
        "At the logit -x the terms t_j = x^j/j! of the Taylor sum alternate and grow up to j = x. So the sum "
        "of an order g <= x/2 is at least t_g - t_(g-1) >= x/2 in size, while e^-x is below 1: the relative "
        "error exceeds 1, and the order must exceed x/2 (checked for x = 4, 6, ..., 20).",
        r"t_g - t_{g-1} = t_g \Big(1 - \frac gx\Big) \ge \frac x2, \qquad 1 \le g \le \frac x2",
        all(abs(_taylor(x, g)) >= Fraction(x, 2) for x in range(4, 21, 2) for g in range(1, x // 2 + 1)),
    )
    yield Step(
        "r = C(d + g, d) features are at least (g/d)^d. With g >= x/2 this is m^(0.3 log log m - log 2): "
        "more than every power of m, and more than the prefix itself.",
        r"r \ge \Big(\frac{(\log m)^{1.3}}{2 \log m}\Big)^{\log m} = m^{0.3 \log\log m - \log 2}",
        is_zero(exponent - sympy.Rational(3, 10) * sympy.log(l) + sympy.log(2))
        and sympy.limit(exponent, l, sympy.oo) == sympy.oo,
    )


def _taylor(x: int, order: int) -> Fraction:
    """Return the Taylor sum of e^-x of this order."""
    term = Fraction(1)
    total = Fraction(1)
    for j in range(1, order + 1):
        term *= Fraction(-x, j)
        total += term
    return total


@proof(part="unbounded values of the tokens")
def token_values() -> Iterator[Step]:
    """With Z and k the error is proportional to the tokens' values; without them P cannot be read."""
    e, v = sympy.symbols("e v", positive=True)
    m, L, t = sympy.symbols("m L t", positive=True)
    # weights are equal (W_K = 0); t rows of P are read and are 0, the others are all 1 or all -1
    unread = (m - t) / (m + L)
    # one token (weight 1, value v) and one prefix vector (weight 1, value 0), whose weight is off by e
    off = v / 2 - v / (2 + e)
    yield Step(
        "An algorithm that is given Z and k: one token of weight 1 and value v, one prefix vector of weight "
        "1 and value 0, whose weight the features give as 1 + e. The output is off by an amount proportional "
        "to v.",
        r"\frac{v}{2} - \frac{v}{2 + e} = \frac{v e}{2 (2 + e)}",
        is_zero(off - v * e / (2 * (2 + e))),
    )
    yield Step(
        "For every fixed error e > 0 of the features this exceeds any bound as v grows. The theorem bounds "
        "the values of the prefix, not those of the tokens.",
        r"\lim_{v \to \infty} \frac{v e}{2 (2 + e)} = \infty",
        sympy.limit(off, v, sympy.oo) == sympy.oo,
    )
    yield Step(
        "An algorithm that reads P: at fixed L and d the printed time does not depend on m, so it reads only "
        "t rows. With W_K = 0 all weights are equal; let the rows read be 0 and the others all 1 or all -1. "
        "The two outputs are 2 apart in the limit, and it cannot tell which.",
        r"\lim_{m \to \infty} \Big(\frac{m - t}{m + L} + \frac{m - t}{m + L}\Big) = 2",
        sympy.limit(2 * unread, m, sympy.oo) == 2,
    )


@proof()
def linear_cost() -> Iterator[Step]:
    """The multiplications of Algorithm 1 are linear in m."""
    m, L, d = sympy.symbols("m L d", positive=True)
    count = L * d**2 + 2 * (m + L) * d**2 + 2 * L * (m + L) * d
    yield Step(
        "Add up the multiplications of the five matrix products of Algorithm 1: Q, K_P, V_P, A and A V_P.",
        r"L d^2 + 2 (m + L) d^2 + 2 L (m + L) d",
        sympy.degree(sympy.expand(count), m) == 1,
    )
    yield Step(
        "The printed m (m + L) d is quadratic in m and exceeds the count by a factor that grows like m.",
        r"\lim_{m \to \infty} \frac{m (m + L) d}{L d^2 + 2 (m + L) d^2 + 2 L (m + L) d} = \infty",
        sympy.limit(m * (m + L) * d / count, m, sympy.oo) == sympy.oo,
    )


@proof()
def printed_projection() -> Iterator[Step]:
    """Definition J.1 differs from Algorithm 1 in two places."""
    x, p, q, k, d = sympy.symbols("x p q k d", positive=True)
    algorithm = sympy.exp(x * q * p * k / sympy.sqrt(d))
    printed = sympy.exp(x * q * p * q)
    yield Step(
        "With numbers in place of matrices Algorithm 1 gives the prefix vector p the weight exp(x W_Q W_K p "
        "/ sqrt d); Definition J.1 has W_Q twice and no sqrt d. They agree only if W_Q = W_K / sqrt d.",
        r"e^{x W_Q \cdot p W_K/\sqrt d} \ne e^{x W_Q \cdot p W_Q}",
        not is_zero(algorithm - printed) and is_zero((algorithm - printed).subs(q, k / sympy.sqrt(d))),
    )


@proof()
def lora_average() -> Iterator[Step]:
    """The five accuracies of LoRA do not average to 81.24."""
    row = [Fraction(text) for text in ("76.52", "90.23", "86.50", "65.09", "87.76")]
    mean = sum(row) / 5
    yield Step(
        "The average of the printed accuracies is 81.22.",
        r"\frac{76.52 + 90.23 + 86.50 + 65.09 + 87.76}{5} = 81.22",
        mean == Fraction("81.22"),
    )
    yield Step(
        "Rounding of each number to two decimals moves the average by at most 0.005, and its own rounding by "
        "0.005; the printed 81.24 is further away.",
        r"|81.24 - 81.22| = 0.02 > 0.005 + 0.005",
        abs(Fraction("81.24") - mean) > Fraction("0.01"),
    )


@proof()
def gradient_steps_move_the_state() -> Iterator[Step]:
    """Along a gradient step P moves if and only if (Z, k) moves, to first order."""
    D = sympy.Matrix(2, 3, sympy.symbols("d1:7", real=True))
    g = sympy.Matrix(sympy.symbols("g1:3", real=True))
    step = D.T * g
    yield Step(
        "Let D be the derivative of (Z, k) in P and g the gradient of the loss in (Z, k). A step moves P by "
        "-eta D'g and (Z, k) by -eta D D'g to first order; multiply the latter by g.",
        r"g^\top (D D^\top g) = |D^\top g|^2",
        is_zero(sympy.expand((g.T * D * step)[0] - (step.T * step)[0])),
    )
    yield Step(
        "So D D'g = 0 implies D'g = 0, and D'g = 0 implies D D'g = 0: P moves if and only if (Z, k) moves.",
        r"D D^\top g = 0 \iff D^\top g = 0",
        (D * sympy.zeros(3, 1)).is_zero_matrix is True,
    )
