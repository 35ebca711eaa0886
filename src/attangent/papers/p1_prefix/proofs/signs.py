"""Sums over the prefix with independent signs: Lemmas I.6, H.9, H.10, and what they do to Appendix H."""

from collections.abc import Iterator
from typing import Any

import sympy

from attangent.audit import Step
from attangent.papers.common.exact import exp_bounds, gaussian_mean, is_zero, proof


def _symbols() -> tuple[Any, Any]:
    return sympy.Symbol("w", real=True), sympy.Symbol("s", positive=True)


@proof()
def first_loss() -> Iterator[Step]:
    """|F(0)| grows like sqrt(m)."""
    w, s = _symbols()
    m = sympy.Symbol("m", positive=True)
    a, b, u, v = sympy.symbols("a b u v", real=True)
    square = sympy.expand((a * u + b * v) ** 2)
    mean = sum(square.subs({a: p, b: q}) for p in (-1, 1) for q in (-1, 1)) / 4
    limit = gaussian_mean(w**2, w, 2, s) / gaussian_mean(w**0, w, 1, s) ** 2
    yield Step(
        "Given W the signs are independent with mean 0, so mixed terms vanish: the mean of the square of a "
        "signed sum is the sum of the squares (shown for two terms).",
        r"E_a\Big(\sum_r a_r S_r w_r\Big)^2 = \sum_r S_r^2 w_r^2",
        is_zero(mean - u**2 - v**2),
    )
    yield Step(
        "For n = d = 1 and x = 1 the law of large numbers gives the mean of |F(0)|^2 = (m sum_r a_r w_r "
        "S_r)^2 for large m.",
        r"\frac{E|F(0)|^2}{m} \to \frac{E[e^{2w} w^2]}{E[e^w]^2} = e^{\sigma^2} \sigma^2 (1 + 4\sigma^2) > 0",
        is_zero(limit - sympy.exp(s**2) * s**2 * (1 + 4 * s**2)),
    )
    yield Step(
        "So |F(0)|_F is of order sqrt(m), and no multiple of sqrt(nd) bounds it.",
        r"\lim_{m \to \infty} \sqrt{m\, e^{\sigma^2} \sigma^2 (1 + 4\sigma^2)} = \infty",
        sympy.limit(sympy.sqrt(m * limit), m, sympy.oo) == sympy.oo,
    )


@proof()
def conditions() -> Iterator[Step]:
    """With the first loss of order sqrt(m), D < R needs m of order lambda^-4."""
    lam, P, Q, c, k = sympy.symbols("lambda P Q c k", positive=True)
    m = P / lam**2
    D = 2 * c * k * sympy.sqrt(m) / (lam * m)
    R = lam / Q
    yield Step(
        "By Lemma H.8, and by the proof that Lemma I.6 fails, the first loss is c sqrt(m), c > 0. Condition "
        "4 at m = P/lambda^2 (Condition 7) gives a D without lambda; k stands for exp(20B) sqrt(nd).",
        r"D = \frac{2k}{\lambda m}\,c\sqrt m = \frac{2ck}{\sqrt P}",
        is_zero(D - 2 * c * k / sympy.sqrt(P)),
    )
    yield Step(
        "Condition 6 wants D < R = lambda/Q. Whatever the polynomials P and Q in n, d and exp(B), this fails "
        "for small lambda, and lambda can be as small as one likes at fixed n and d.",
        r"\lim_{\lambda \to 0} \frac{D}{R} = \lim_{\lambda \to 0} \frac{2ckQ}{\lambda\sqrt P} = \infty",
        sympy.limit(D / R, lam, 0, "+") == sympy.oo,
    )
    yield Step(
        "With m = P/lambda^4 the ratio has no lambda left, and a large P makes it small.",
        r"\frac DR\Big|_{m = P/\lambda^4} = \frac{2ckQ}{\sqrt P}",
        is_zero((D / R).subs(P, P / lam**2) - 2 * c * k * Q / sympy.sqrt(P)),
    )


@proof(part="1")
def step_sum() -> Iterator[Step]:
    """The sum of a step over the prefix is m <a, S> <R, x>, of order sqrt(m)."""
    w, s = _symbols()
    x, R = sympy.symbols("x R", real=True)
    m = 2
    W = sympy.symbols(f"w1:{m + 1}", real=True)
    A = sympy.symbols(f"a1:{m + 1}", real=True)
    masses = [sympy.exp(weight * x) for weight in W]
    S = [mass / sum(masses) for mass in masses]
    output = m * sum(sign * weight * share for sign, weight, share in zip(A, W, S, strict=True))
    total = sum(R * sympy.diff(output, weight) * x for weight in W)
    stated = m * sum(sign * share for sign, share in zip(A, S, strict=True)) * R * x
    spread = gaussian_mean(w**0, w, 2, s) / gaussian_mean(w**0, w, 1, s) ** 2
    yield Step(
        "For one point (n = d = 1) the part of the gradient through the softmax sums to zero over the "
        "prefix; only the part of the values is left (shown for m = 2, with symbols).",
        r"\sum_r \langle \Delta w_r, x\rangle = m \langle a, S\rangle R x",
        is_zero(total - stated),
    )
    yield Step(
        "The signs are independent, so <a, S> has the mean square sum_r S_r^2.",
        r"m\, E\langle a, S\rangle^2 \to \frac{E[e^{2w}]}{E[e^w]^2} = e^{\sigma^2}",
        is_zero(spread - sympy.exp(s**2)),
    )
    yield Step(
        "The sum is therefore sqrt(m) e^(sigma^2/2) |R| in the root mean square; the print has e^(8B) |R|/m. "
        "With B = 1 it is exceeded from m = e^(16/3), m = 208, on.",
        r"\sqrt{m} > \frac{e^{8}}{m} \iff m^3 > e^{16}; \qquad 208^3 > e^{16}",
        exp_bounds(16)[1] < 208**3,
    )


@proof(part="1")
def normaliser() -> Iterator[Step]:
    """A step changes alpha by order sqrt(m), not 1/m, to first order in eta."""
    w, s = _symbols()
    m, eta = sympy.symbols("m eta", positive=True)
    first = gaussian_mean(w**0, w, 1, s)
    c = gaussian_mean(w**0, w, 2, s) / first
    square = (
        gaussian_mean((w + 1) ** 2, w, 4, s)
        - 2 * c * gaussian_mean(w * (w + 1), w, 3, s)
        + c**2 * gaussian_mean(w**2, w, 2, s)
    )
    stated = (
        sympy.exp(7 * s**2) * (s**2 + (4 * s**2 + 1) ** 2)
        - 2 * sympy.exp(5 * s**2) * s**2 * (4 + 9 * s**2)
        + sympy.exp(4 * s**2) * s**2 * (1 + 4 * s**2)
    )
    printed = 1 / m + eta * m ** sympy.Rational(3, 2)  # up to factors that do not depend on m and eta
    yield Step(
        "For n = d = 1 and x = 1, to first order in eta alpha changes by -eta R times a sum with one sign "
        "per term (shown for m = 2, with symbols).",
        r"m \sum_r e^{w_r} S_r \big(a_r (w_r + 1) - \langle a \circ w, S\rangle\big) = "
        r"m \sum_r a_r S_r \big(e^{w_r} (w_r + 1) - w_r \langle e^w, S\rangle\big)",
        _normaliser_terms(),
    )
    yield Step(
        "The signs are independent and <e^w, S> tends to c = E[e^(2w)]/E[e^w] = e^(3 sigma^2/2), which gives "
        "the mean square for large m.",
        r"\frac{E(\alpha(1) - \alpha(0))^2}{\eta^2 R^2 m} \to "
        r"\frac{E\big[(e^{2w} (w + 1) - c\, w e^w)^2\big]}{E[e^w]^2} = e^{7\sigma^2} \big(\sigma^2 + "
        r"(4\sigma^2 + 1)^2\big) - 2 e^{5\sigma^2} \sigma^2 (4 + 9\sigma^2) + e^{4\sigma^2} \sigma^2 "
        r"(1 + 4\sigma^2) > 0",
        is_zero(square / first**2 - stated) and is_zero(c - sympy.exp(sympy.Rational(3, 2) * s**2)),
    )
    yield Step(
        "The change is eta sqrt(m) |R| times a positive number. The lemma has no condition on eta; as eta "
        "goes to 0 its second term, of order eta^2, vanishes beside the first, which falls like 1/m.",
        r"\lim_{m \to \infty} \lim_{\eta \to 0} \frac{m^{-1} e^{9B} + \eta\, m^{1.5} e^{21B}}{\sqrt m} = 0",
        sympy.limit(sympy.limit(printed, eta, 0) / sympy.sqrt(m), m, sympy.oo) == 0,
    )


def _normaliser_terms() -> bool:
    """Whether sum_r e^(w_r) dF/dw_r, for two terms and x = 1, is a sum with one sign per term."""
    W = sympy.symbols("w1:3", real=True)
    A = sympy.symbols("a1:3", real=True)
    masses = [sympy.exp(weight) for weight in W]
    S = [mass / sum(masses) for mass in masses]
    output = 2 * sum(a * w * share for a, w, share in zip(A, W, S, strict=True))
    change = sum(mass * sympy.diff(output, w) for mass, w in zip(masses, W, strict=True))
    mean = sum(mass * share for mass, share in zip(masses, S, strict=True))
    terms = zip(A, W, S, masses, strict=True)
    stated = 2 * sum(a * share * (mass * (w + 1) - w * mean) for a, w, share, mass in terms)
    return is_zero(change - stated)


@proof()
def lost_sign() -> Iterator[Step]:
    """1/b - 1/a has the opposite sign of b - a."""
    a, b = sympy.symbols("a b", positive=True)
    yield Step(
        "The difference of the inverses is minus the printed product.",
        r"\frac1b - \frac1a = -\frac{b - a}{ab}",
        is_zero(1 / b - 1 / a + (b - a) / (a * b)),
    )
    yield Step(
        "With alpha = 2 before and 1 after the step the left side is 1/2, the printed right side -1/2. An "
        "upper bound on alpha(t+1) - alpha(t) bounds the left side from below only.",
        r"\frac11 - \frac12 = \frac12 \ne -\frac12 = \frac{1 - 2}{1 \cdot 2}",
        sympy.Rational(1, 1) - sympy.Rational(1, 2) != sympy.Rational(1 - 2, 2),
    )


@proof()
def dependent_signs() -> Iterator[Step]:
    """After one step the weights depend on the signs."""
    w, s = _symbols()
    mean = gaussian_mean(w + 1, w, 1, s) / gaussian_mean(w**0, w, 1, s)
    yield Step(
        "Let n = d = 1 and x = 1. By Claim F.12 the first step moves w_r by -eta m R S_r (beta_r + a_r - "
        "<beta, S>); multiplied by a_r, with a_r^2 = 1, its mean over the prefix for large m is below.",
        r"E[a_r (w_r(1) - w_r(0))] \to -\eta R\, \frac{E[e^w (w + 1)]}{E[e^w]} = -\eta R (1 + \sigma^2)",
        is_zero(mean - (1 + s**2)),
    )
    yield Step(
        "This is not 0, so a_r and W(1) are dependent: given W(tau), tau > 0, the signs are not independent "
        "with mean 0, which Hoeffding's inequality (Lemma D.4) requires.",
        r"1 + \sigma^2 > 0",
        (1 + s**2).is_positive is True,
    )


@proof()
def without_signs() -> Iterator[Step]:
    """Without the signs a the first output is of order m."""
    w, s = _symbols()
    x, m = sympy.symbols("x m", positive=True)
    mean = gaussian_mean(w, w, x, s) / gaussian_mean(w**0, w, x, s)
    yield Step(
        "Without a the output is m times the softmax mean of the prefix; for d = 1 and large m:",
        r"\frac{F(0)}{m} \to \frac{E[w\, e^{wx}]}{E[e^{wx}]} = \sigma^2 x",
        is_zero(mean - s**2 * x),
    )
    yield Step(
        "So |F(0) - Y| grows like m, not like sqrt(m) or a constant, and D of Definition I.1, which is |F(0) "
        "- Y|/m up to factors, does not become small: the induction of Appendix I cannot start.",
        r"\lim_{m \to \infty} \frac{m \sigma^2 |x|}{\sqrt m} = \infty, \qquad "
        r"\lim_{m \to \infty} \frac{|F(0)|}{m} = \sigma^2 |x| > 0",
        sympy.limit(m * 1 / sympy.sqrt(m), m, sympy.oo) == sympy.oo and (s**2 * x).is_positive is True,
    )


@proof()
def steps_without_log_m() -> Iterator[Step]:
    """T of Theorem 3.2 needs log m, because the first loss is of order m."""
    w, _ = _symbols()
    m, c, epsilon = sympy.symbols("m c epsilon", positive=True)
    first = gaussian_mean(w**2, w, 2) / gaussian_mean(w**0, w, 1) ** 2
    exact = gaussian_mean((w + 1) ** 2, w, 2) / gaussian_mean(w**0, w, 1) ** 2
    left = m * first * epsilon ** (2 * c * exact / first)
    yield Step(
        "Let n = d = 1, x = sigma = 1. The first loss |F(0) - Y|^2 is 5e m for large m, lambda = 5e, and the "
        "exact kernel is 10e.",
        r"\frac{E|F(0)|^2}{m} \to 5e, \qquad \lambda = 5e, \qquad K = 10e",
        is_zero(first - 5 * sympy.E) and is_zero(exact - 10 * sympy.E),
    )
    yield Step(
        "T = c log(1/eps)/(m eta lambda) steps at a small rate multiply |F - Y|^2 by e^(-2 m eta K T) = "
        "eps^(4c).",
        r"e^{-2 m \eta K T} = \epsilon^{2cK/\lambda} = \epsilon^{4c}",
        is_zero(sympy.simplify(2 * c * exact / first - 4 * c)),
    )
    yield Step(
        "What is left, 5e m eps^(4c), grows with m and exceeds eps for every constant c. T needs log m.",
        r"\lim_{m \to \infty} 5e\, m\, \epsilon^{4c} = \infty",
        sympy.limit(left, m, sympy.oo) == sympy.oo,
    )


@proof()
def geometric_sum() -> Iterator[Step]:
    """The sum of Eq. (18) is 2/(m lambda)."""
    m, eta, lam, x = sympy.symbols("m eta lambda x", positive=True)
    total = eta / (m * eta * lam / 2)
    yield Step(
        "A geometric series sums to the inverse of 1 minus its ratio.",
        r"\eta \sum_i \Big(1 - \frac{m\eta\lambda}{2}\Big)^i = "
        r"\frac{\eta}{m\eta\lambda/2} = \frac{2}{m\lambda}",
        is_zero(total - 2 / (m * lam)) and is_zero((1 - (1 - x)) * (1 / x) - 1),
    )
    yield Step(
        "The printed bound is smaller than the sum if eta < 1/2.",
        r"\frac{4\eta}{m\lambda} < \frac{2}{m\lambda} \iff \eta < \frac12",
        is_zero(sympy.simplify((4 * eta / (m * lam)) / total - 2 * eta)),
    )
