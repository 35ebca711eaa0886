"""Exact arguments for the statements of P2 that fail, and for repaired ones."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import sympy

from attangent.audit import Step
from attangent.papers.common.exact import exp_bounds, is_zero, proof
from attangent.papers.common.perturbation import AT_THEOREM


@proof()
def four_terms() -> Iterator[Step]:
    """Claim G.1 lacks a factor of up to 4."""
    star, ball = Fraction(1), Fraction(1, 2)
    a = sympy.symbols("a1:5", real=True)
    slack = 4 * sum(t**2 for t in a) - sum(a) ** 2
    pairs = sum((a[i] - a[j]) ** 2 for i in range(4) for j in range(i))
    yield Step(
        "At step 0 network and predictors are zero. Take F* = 1 and F_H = 1/2: the left side is 1, the four "
        "terms are 0, 0, 1/4 and 1/4.",
        r"|0 - 1|^2 = 1 > \tfrac14 + \tfrac14 = |0 - \tfrac12|^2 + |\tfrac12 - 1|^2",
        star**2 > ball**2 + (ball - star) ** 2,
    )
    yield Step(
        "With a factor 4 it is right: four times the sum of squares exceeds the square of the sum by squares "
        "of differences. The factor is attained if all four are equal.",
        r"4 \sum_i a_i^2 - \Big(\sum_i a_i\Big)^2 = \sum_{i<j} (a_i - a_j)^2 \ge 0",
        is_zero(sympy.expand(slack - pairs)),
    )


@proof()
def kernel_update() -> Iterator[Step]:
    """Eq. (25) is not the gradient of Eq. (24)."""
    gamma, y = sympy.symbols("gamma y", real=True)
    gradient = sympy.diff((2 * gamma - y) ** 2 / 2, gamma)
    yield Step(
        "For one number (n = d = 1) and m H* = 2 the gradient of the loss has the factor m H* in front, "
        "which the printed update lacks.",
        r"\frac{d}{d\gamma}\, \tfrac12 (2\gamma - y)^2 = 2 (2\gamma - y) \ne 2\gamma - y",
        is_zero(gradient - 2 * (2 * gamma - y)) and not is_zero(gradient - (2 * gamma - y)),
    )


@proof()
def zero_features() -> Iterator[Step]:
    """The printed feature map is zero, the kernel is not."""
    a1, a2, s = sympy.symbols("a1 a2 s", real=True)
    S = (s, 1 - s)
    mean = a1 * S[0] + a2 * S[1]
    terms = ((a1 - mean) * S[0], (a2 - mean) * S[1])
    squares = (terms[0] ** 2 + terms[1] ** 2).subs({a1: 1, a2: -1, s: sympy.Rational(1, 2)})
    yield Step(
        "The softmax sums to one, so the printed sum over the neurons cancels (two neurons, with symbols).",
        r"\sum_r \big(a_r - \langle a, S\rangle\big) S_r = \langle a, S\rangle - \langle a, S\rangle = 0",
        is_zero(sum(terms)),
    )
    yield Step(
        "The kernel is a sum of squares over the neurons and is positive, for example for a = (1, -1) and "
        "equal weights.",
        r"\sum_r \big(a_r - \langle a, S\rangle\big)^2 S_r^2 = \tfrac12 > 0",
        squares == sympy.Rational(1, 2),
    )


@proof()
def close_points() -> Iterator[Step]:
    """lambda is not bounded below by a power of nd."""
    h = sympy.Symbol("h", positive=True)
    c = sympy.cos(h)
    kernel = sympy.Matrix([[sympy.E, c * sympy.exp(c)], [c * sympy.exp(c), sympy.E]])
    apart = sympy.Matrix([1, -1])
    lam = sympy.E - c * sympy.exp(c)
    yield Step(
        "Two unit points at the angle h, sigma = 1 and infinite width: labels 1 and -1 are the eigenvector "
        "of the eigenvalue lambda.",
        r"H^* = \begin{pmatrix} e & c e^c \\ c e^c & e \end{pmatrix}, \quad c = \cos h, "
        r"\qquad \lambda = e - c e^c",
        all(is_zero(entry) for entry in kernel * apart - lam * apart),
    )
    yield Step(
        "n = d = 2 are fixed, but lambda, and with it 1/(number of steps), goes to 0 with h.",
        r"\lambda = e h^2 + O(h^4) \xrightarrow{h \to 0} 0",
        is_zero(sympy.series(lam, h, 0, 4).removeO() - sympy.E * h**2),
    )


@proof(part="dropped in G.2")
def growing_logarithm() -> Iterator[Step]:
    """The logarithm that the proof of Theorem G.2 drops is not bounded."""
    n, d, m, lam = sympy.symbols("n d m lambda", positive=True)
    argument = n * d / (lam / (2 * n * d) * m * lam)
    least = argument.subs(m, n**3 * d**3 / lam**2)
    yield Step(
        "The dropped factor is not bounded over the m that the theorem allows.",
        r"\lim_{m \to \infty} \log^2 \frac{nd}{m\lambda} = \infty",
        sympy.limit(sympy.log(n * d / (m * lam)) ** 2, m, sympy.oo) == sympy.oo,
    )
    yield Step(
        "At eps_H = lambda/(2nd) and m >= lambda^-2 n^3 d^3 e^(18B) the argument of the logarithm in Theorem "
        "F.2 is at most 2/(nd e^18), below 1: tau_0 of its proof is negative.",
        r"\frac{nd}{\epsilon_H m \lambda} \le \frac{2}{nd\, e^{18B}} \le 2 e^{-18} < 1",
        is_zero(least - 2 / (n * d)) and 2 * exp_bounds(-18)[1] < 1,
    )


@proof()
def dropped_kernel_norm() -> Iterator[Step]:
    """|K*| of a test point is of order sqrt(n) and cannot be dropped."""
    g = sympy.Symbol("g", positive=True)
    n = sympy.Symbol("n", positive=True)
    entry = g * sympy.exp(g)
    at_half = entry.subs(g, sympy.Rational(1, 2))
    bound = sympy.sqrt(n) * sympy.exp(sympy.Rational(1, 2)) / 2
    yield Step(
        "At infinite width and sigma = 1 an entry of K* is g e^g with g = x.x_i, which grows with g.",
        r"\frac{d}{dg}\, g e^g = (1 + g) e^g > 0 \quad (g > 0)",
        is_zero(sympy.diff(entry, g) - (1 + g) * sympy.exp(g))
        and ((1 + g) * sympy.exp(g)).is_positive is True,
    )
    yield Step(
        "If all n points are distinct and lie within 60 degrees of the test point, every entry is at least "
        "e^(1/2)/2, so |K*| is at least 0.82 sqrt(n).",
        r"|K^*| \ge \sqrt{n}\, \tfrac12 e^{1/2} \to \infty",
        is_zero(at_half - sympy.exp(sympy.Rational(1, 2)) / 2)
        and is_zero(sympy.sqrt(n * at_half**2) - bound)
        and sympy.limit(bound, n, sympy.oo) == sympy.oo,
    )
    yield Step(
        "Over d outputs, with the paper's |r_0| = sqrt(nd) and eps_H = lambda/(2nd), the term sqrt(d) |K*| "
        "|r_0| eps_H/lambda^2 is of order 1/lambda, larger than the printed 1/(lambda sqrt n) by sqrt(n).",
        r"\frac{\sqrt d \cdot 0.82 \sqrt n \cdot \sqrt{nd} \cdot \lambda/(2nd)}{\lambda^2} = "
        r"\frac{0.41}{\lambda}",
        _is_constant_over_lambda(),
    )


def _is_constant_over_lambda() -> bool:
    n, d, lam, k = sympy.symbols("n d lambda k", positive=True)
    term = sympy.sqrt(d) * k * sympy.sqrt(n) * sympy.sqrt(n * d) * (lam / (2 * n * d)) / lam**2
    return is_zero(term - k / (2 * lam))


@proof()
def entire_functions() -> Iterator[Step]:
    """No power of R_H bounds the distance of the kernel's space from a function with a pole."""
    z, s = sympy.symbols("z s", positive=True)
    outer, inner, root = sympy.symbols("rho_1 rho_0 R", positive=True)
    kernel = z**2 * sympy.exp(s**2 * z**2)
    coefficients = sympy.series(z * sympy.exp(s**2 * z), z, 0, 5).removeO()
    power = sympy.log(inner) / sympy.log(outer / inner)
    yield Step(
        "The kernel x.x' e^(s^2 x.x') has the power series below, so every F_H of its space is entire and by "
        "Cauchy-Schwarz |F_H(z)| <= sqrt(R) |z| e^(s^2 |z|^2/2) for complex z (here R = |F_H|^2).",
        r"k(x, x') = \sum_{j \ge 1} \frac{s^{2(j-1)}}{(j-1)!} (x x')^j, \qquad "
        r"k(|z|, |z|) = |z|^2 e^{s^2 |z|^2}",
        is_zero(coefficients - sum(s ** (2 * (j - 1)) / sympy.factorial(j - 1) * z**j for j in range(1, 5)))
        and is_zero(sympy.sqrt(kernel) - z * sympy.exp(s**2 * z**2 / 2)),
    )
    yield Step(
        "On [-1, 1] the polynomial of degree j nearest to F_H is off by at most C sqrt(R) rho_1^-j for every "
        "Bernstein ellipse rho_1; a function F* with a pole on the ellipse rho_0 is at least c rho_0^-j from "
        "every polynomial. Choose j with C sqrt(R) (rho_0/rho_1)^j = c/2: the distance of F_H from F* is at "
        "least (c/2) rho_0^-j.",
        r"\rho_0^{-2j} = \mathrm{const} \cdot R^{-\log\rho_0/\log(\rho_1/\rho_0)}",
        is_zero(
            sympy.expand_log(
                sympy.log(inner ** (-2 * sympy.log(root) / (2 * sympy.log(outer / inner)))),
                force=True,
            )
            + sympy.expand_log(sympy.log(root) * power, force=True)
        ),
    )
    yield Step(
        "rho_1 is free. As it grows the exponent of R goes to 0: the squared error falls more slowly than "
        "every power of R, and A(R)^2 of the theorem is a power, R^-2 log^2 R for d = 1.",
        r"\lim_{\rho_1 \to \infty} \frac{\log\rho_0}{\log(\rho_1/\rho_0)} = 0",
        sympy.limit(power.subs(inner, 2), outer, sympy.oo) == 0,
    )


@proof()
def weaker_induction() -> Iterator[Step]:
    """The induction assumes /2 and concludes /4."""
    x = sympy.Symbol("x", positive=True)
    yield Step(
        "Lemma 5.3 assumes the factor 1 - x/2 per step, x = m eta lambda, and concludes 1 - x/4. The "
        "conclusion is weaker than the assumption at the next step, so the induction does not close as "
        "printed.",
        r"\big(1 - \tfrac x4\big) - \big(1 - \tfrac x2\big) = \tfrac x4 > 0",
        is_zero((1 - x / 4) - (1 - x / 2) - x / 4) and (x / 4).is_positive is True,
    )


@proof(part="intervals as printed")
def two_intervals() -> Iterator[Step]:
    """Eq. (5) over [0, T] and Eq. (6) over [T_0, T] have different minimisers."""
    t, v = sympy.symbols("t v", positive=True)
    square = 1 + (v - 1) * sympy.exp(-t)  # variance of x(t) if x(0) has variance v

    def minimiser(start: int) -> Any:
        return (3 - start) / sympy.integrate(square, (t, start, 3))

    apart = sympy.simplify((minimiser(1) - minimiser(0)).subs(v, sympy.Rational(1, 2)))
    yield Step(
        "Take d = 1, g = 1, x(0) ~ N(0, v) and the estimators -theta x. E[x grad log p_t] = -1 at every t, "
        "so the best theta over [a, T] is the length of the interval over the integral of E x(t)^2.",
        r"\theta_a = \frac{T - a}{\int_a^T \big(1 + (v - 1) e^{-t}\big) dt}",
        is_zero(sympy.integrate(square, (t, 0, 3)) - (3 + (v - 1) * (1 - sympy.exp(-3)))),
    )
    yield Step(
        "At v = 1/2 and T = 3 the minimisers over [0, T] and [1, T] differ.",
        r"\theta_1 \ne \theta_0",
        not is_zero(apart),
    )


@proof()
def wrong_clock() -> Iterator[Step]:
    """The score at t is not the score at T - t."""
    t, T, v, x = sympy.symbols("t T v x", positive=True)

    def score(time: Any) -> Any:
        return -x / (1 + (v - 1) * sympy.exp(-time))

    difference = score(t) - score(T - t)
    yield Step(
        "For Gaussian data of variance v and g = 1 the score is known. At v = 2, T = 3, t = 1 the printed "
        "time gives another drift than Eq. (4), whose score is that at T - t.",
        r"-\frac{x}{1 + (v-1) e^{-t}} \ne -\frac{x}{1 + (v-1) e^{-(T-t)}}",
        not is_zero(difference.subs({v: 2, T: 3, t: 1, x: 1})),
    )


@proof(part=AT_THEOREM)
def union_over_neurons() -> Iterator[Step]:
    """Part 1 of Lemma B.1 fails at the m of Theorem 4.2."""
    c, m = sympy.symbols("c m", positive=True)
    exponent = 18 * Fraction(248, 10) - Fraction(249, 10) ** 2 / 2
    yield Step(
        "With |x| = 1 all m products lie in [-B, B] with probability (1 - q)^m, q = P(|N(0, 1)| > B/sigma) > "
        "0. B does not depend on m, and m >= lambda^-2 has no upper bound in nd: the probability tends to 0.",
        r"\lim_{m \to \infty} (1 - q)^m = \lim_{m \to \infty} e^{-cm} = 0, \quad c = -\log(1 - q) > 0",
        sympy.limit(sympy.exp(-c * m), m, sympy.oo) == 0,
    )
    yield Step(
        "At nd/delta = 480, sigma = 1 and C = 10, B lies between 24.8 and 24.9.",
        r"24.8^2 < 100 \log 480 < 24.9^2",
        exp_bounds(Fraction(248**2, 10_000))[1] < 480 < exp_bounds(Fraction(249**2, 10_000))[0],
    )
    yield Step(
        "Theorem 4.2's m is at least e^(18B) if lambda <= nd, and P(|N| > B) >= e^(-B^2/2)/(2B). The "
        "expected number of neurons beyond B is at least e^130.",
        r"18 B - \tfrac12 B^2 - \log(2B) > 130",
        exponent - 130 > 0 and exp_bounds(exponent - 130)[0] > Fraction(498, 10),
    )
