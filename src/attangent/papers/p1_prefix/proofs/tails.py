"""The quoted tail bounds of Appendix D, and Lemma K.1 at the theorem's own m."""

from collections.abc import Iterator
from fractions import Fraction
from math import comb

import sympy

from attangent.audit import Step
from attangent.papers.common.exact import exp_bounds, is_zero, proof
from attangent.papers.common.perturbation import AT_THEOREM


def binomial_lower(n: int, p: Fraction, most: int) -> Fraction:
    """P(X <= most) for X ~ Binomial(n, p), exactly."""
    q = 1 - p
    return sum((comb(n, k) * p**k * q ** (n - k) for k in range(most + 1)), Fraction(0))


def urn_lower(urn: int, ones: int, n: int, most: int) -> Fraction:
    """P(X <= most) for n draws without replacement from `urn` numbers, `ones` of them 1, exactly."""
    ways = sum(comb(ones, k) * comb(urn - ones, n - k) for k in range(most + 1))
    return Fraction(ways, comb(urn, n))


@proof(part="upper tail")
def chernoff() -> Iterator[Step]:
    """Both lines of Lemma D.3 fail."""
    tail = binomial_lower(400, Fraction(1, 20), 10)
    yield Step(
        "Upper tail, one coin with p = 1/10 and delta = 9: the probability is 1/10.",
        r"\Pr[X \ge 10 \mu] = \frac1{10} > e^{-9^2 \cdot \frac1{10} / 3} = e^{-2.7}",
        Fraction(1, 10) > exp_bounds(Fraction(-27, 10))[1],
    )
    yield Step(
        "Lower tail, 400 coins with p = 1/20 (mu = 20) and delta = 1/2: the probability, a sum of fractions, "
        "exceeds the bound.",
        r"\Pr[X \le 10] = 0.0093\ldots > e^{-\frac14 \cdot 20} = e^{-5} = 0.0067\ldots",
        tail > exp_bounds(-5)[1] and Fraction(93, 10_000) < tail < Fraction(94, 10_000),
    )


@proof()
def one_sign() -> Iterator[Step]:
    """One sign contradicts Lemma D.6 for every constant."""
    C = sympy.Symbol("C", positive=True)
    yield Step(
        "Take n = 1, z = 1 and t = 1. The sum is 1 or -1, so the probability is 1; the bound is below 1 for "
        "every C > 0.",
        r"\Pr[|\sigma_1| \ge 1] = 1 > e^{-C} \quad \text{for all } C > 0",
        all(abs(sign) >= 1 for sign in (-1, 1))
        and (1 - sympy.exp(-C)).is_positive is not False
        and sympy.simplify(sympy.diff(-sympy.exp(-C), C)).is_positive is True
        and sympy.exp(-C).subs(C, 0) == 1,
    )


@proof()
def one_sub_exponential_sign() -> Iterator[Step]:
    """One sign contradicts Lemma D.9."""
    k = sympy.Symbol("k", integer=True, nonnegative=True)
    ratio = sympy.factorial(2 * k) / (2**k * sympy.factorial(k))
    yield Step(
        "X = 1 or -1 with equal probability is in SE(1, alpha) for every alpha: compare the two series term "
        "by term, (2k)! is at least 2^k k!.",
        r"E[e^{\lambda X}] = \cosh\lambda = \sum_k \frac{\lambda^{2k}}{(2k)!} \le "
        r"\sum_k \frac{\lambda^{2k}}{2^k k!} = e^{\lambda^2/2}",
        ratio.subs(k, 0) == 1 and is_zero(sympy.combsimp(ratio.subs(k, k + 1) / ratio) - (2 * k + 1)),
    )
    yield Step(
        "With alpha = 1 and t = 1 the probability is 1 and the bound e^(-1/2).",
        r"\Pr[|X| \ge 1] = 1 > e^{-1/2}",
        exp_bounds(Fraction(-1, 2))[1] < 1,
    )


@proof(part="second line")
def chi_square() -> Iterator[Step]:
    """Two degrees of freedom contradict the second line of Lemma D.8."""
    y, t = sympy.symbols("y t", positive=True)
    x = 2 + 2 * sympy.sqrt(2 * t)
    tail = sympy.integrate(sympy.exp(-y / 2) / 2, (y, x, sympy.oo))
    yield Step(
        "For k = 2 and sigma = 1 the density of X is e^(-y/2)/2, so the tail is known exactly.",
        r"\Pr[X - 2 \ge 2\sqrt{2t}] = \int_{2 + 2\sqrt{2t}}^\infty \tfrac12 e^{-y/2} dy = e^{-1 - \sqrt{2t}}",
        is_zero(tail - sympy.exp(-1 - sympy.sqrt(2 * t))),
    )
    yield Step(
        "It exceeds e^(-t) if 1 + sqrt(2t) < t; at t = 4 this reads 8 < 9.",
        r"1 + \sqrt{8} < 4 \iff 8 < 9",
        bool(1 + sympy.sqrt(8) < 4),
    )


@proof(part="lower tail")
def matrix_chernoff() -> Iterator[Step]:
    """Numbers, matrices of one row and column, contradict both lines of Lemma D.10."""
    tail = urn_lower(100_000, 5_000, 400, 10)
    yield Step(
        "Numbers are 1 x 1 matrices. Draw one of 20 numbers, of which one is 1 and the others 0 (B = 1, mu = "
        "1/20), and take delta = 19. One of 12 numbers is enough, one of 11 is not.",
        r"\Pr[X \ge 20\mu] = \frac1{20} > e^{-19^2 \cdot \frac1{20}/4} = e^{-361/80}, "
        r"\qquad \frac1{12} > e^{-121/48}, \qquad \frac1{11} < e^{-100/44}",
        Fraction(1, 20) > exp_bounds(Fraction(-361, 80))[1]
        and Fraction(1, 12) > exp_bounds(Fraction(-121, 48))[1]
        and Fraction(1, 11) < exp_bounds(Fraction(-100, 44))[0],
    )
    yield Step(
        "Draw 400 of 100,000 numbers, of which 5,000 are 1 (mu = 20), and take delta = 1/2.",
        r"\Pr[X \le 10] > e^{-\frac14 \cdot 20} = e^{-5}",
        tail > exp_bounds(-5)[1],
    )


@proof(part=AT_THEOREM)
def union_over_prefix() -> Iterator[Step]:
    """B does not depend on m, so part 1 of Lemma K.1 fails for long prefixes, and at the theorem's own m."""
    c, m = sympy.symbols("c m", positive=True)
    B = Fraction(249, 10)  # above 10 sqrt(log 480) = 24.85, which only makes the tail smaller
    # P(|N| > B) >= e^(-B^2/2) / (2 B) for B >= 2, and log m >= 30 B with lambda <= 1
    exponent = 30 * Fraction(248, 10) - B**2 / 2
    yield Step(
        "With |x| = 1 all m products lie in [-B, B] with probability (1 - q)^m, q = P(|N(0, 1)| > B/sigma) > "
        "0. B depends on n, d and delta only, and m = lambda^-2 poly(n, d, e^B) has no upper bound, since "
        "lambda may be as small as one likes: for every C the probability tends to 0.",
        r"\lim_{m \to \infty} (1 - q)^m = \lim_{m \to \infty} e^{-cm} = 0, \quad c = -\log(1 - q) > 0",
        sympy.limit(sympy.exp(-c * m), m, sympy.oo) == 0,
    )
    yield Step(
        "It fails at ordinary sizes, too. For nd/delta = 480, sigma = 1 and C = 10, B lies between 24.8 and "
        "24.9.",
        r"24.8^2 < 100 \log 480 < 24.9^2",
        exp_bounds(Fraction(248**2, 10_000))[1] < 480 < exp_bounds(Fraction(249**2, 10_000))[0],
    )
    yield Step(
        "The theorem's m is at least e^(30B) if lambda <= nd, and P(|N| > B) >= e^(-B^2/2)/(2B). The "
        "expected number of prefix vectors beyond B is at least e^430.",
        r"30 B - \tfrac12 B^2 - \log(2B) \ge 30 \cdot 24.8 - \tfrac12 24.9^2 - \log 49.8 > 430",
        exponent - 430 > 0 and exp_bounds(exponent - 430)[0] > Fraction(498, 10),
    )
