"""The kernel of Definition G.1 against J J'/m, the statements that inherit the difference, and training."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import sympy

from attangent.audit import Step
from attangent.papers.common.exact import exp_bounds, gaussian_mean, is_zero, proof


def _mean(polynomial: Any, w: Any) -> Any:
    """E[e^(2w) p(w)] / E[e^w]^2, the limit of m sum_r S_r^2 p(w_r) for n = d = x = sigma = 1."""
    return sympy.simplify(gaussian_mean(polynomial, w, 2) / gaussian_mean(w**0, w, 1) ** 2)


@proof(part="Gram matrix of the gradients")
def printed_kernel() -> Iterator[Step]:
    """Definition G.1 is not the Gram matrix of the gradients."""
    w = sympy.Symbol("w", real=True)
    x, a = sympy.symbols("x a", real=True)
    output = a * w  # one prefix vector: softmax is 1, so F(x) = a w
    jacobian = sympy.diff(output, w)
    centred = a * w - a * w  # <v_r, S> = beta_r - <beta, S> with S = 1
    printed, exact = _mean(w**2, w), _mean((w + 1) ** 2, w)
    yield Step(
        "One prefix vector (n = d = m = 1): the softmax is 1 and F(x) = a w, so the printed kernel is 0 for "
        "every x, but the derivative of F is a = 1 or -1.",
        r"H = x^2 (\beta - \langle\beta, S\rangle)^2 = 0, \qquad J J^\top / m = a^2 = 1",
        is_zero((x * centred) ** 2) and jacobian == a,
    )
    yield Step(
        "Many prefix vectors (n = d = 1, x = sigma = 1, m to infinity): the printed kernel is the mean over "
        "w ~ N(0, 1) of the part through the softmax alone.",
        r"H \to \frac{E[e^{2w} w^2]}{E[e^{w}]^2} = 5e",
        is_zero(printed - 5 * sympy.E),
    )
    yield Step(
        "The gradient of Claim F.12 has the part of the prefix as value, too. It doubles the kernel.",
        r"\frac{J J^\top}{m} \to \frac{E[e^{2w} (w + 1)^2]}{E[e^{w}]^2} = 10e \ne 5e",
        is_zero(exact - 10 * sympy.E),
    )


@proof(part="C0")
def minor_terms() -> Iterator[Step]:
    """C0 and C12 of Lemma H.3 are as large as the progress."""
    w = sympy.Symbol("w", real=True)
    lam = _mean(w**2, w)
    C12 = 2 * _mean(w, w) / lam
    C0 = 2 * _mean(w + 1, w) / lam
    C3 = _mean((w + 1) ** 2, w) ** 2
    yield Step(
        "Let n = d = 1, x = sigma = 1 and m go to infinity. Then lambda is the printed kernel itself.",
        r"\lambda = \frac{E[e^{2w} w^2]}{E[e^{w}]^2} = 5e",
        is_zero(lam - 5 * sympy.E),
    )
    yield Step(
        "C12 is the change of the exponents by the part of the gradient that treats w as a value.",
        r"\frac{|C_{1,2}|}{m\eta\lambda r^2} = \frac{2 E[e^{2w} w]}{\lambda E[e^w]^2} = \frac45 > 0.1",
        is_zero(C12 - sympy.Rational(4, 5)),
    )
    yield Step(
        "C0 contains the change of the values themselves.",
        r"\frac{|C_0|}{m\eta\lambda r^2} = \frac{2 E[e^{2w} (w + 1)]}{\lambda E[e^w]^2} = \frac65 > 0.1",
        is_zero(C0 - sympy.Rational(6, 5)),
    )
    yield Step(
        "C3 is the squared move of the output.",
        r"\frac{C_3}{(\eta m)^2 r^2} = (10e)^2 > 1",
        is_zero(C3 - (10 * sympy.E) ** 2),
    )


def _limit(exact: bool, rho: Any) -> Any:
    """The limit kernel of three points rho e_i at sigma = 1, from Gaussian moments, with index k 3 + i."""
    X = rho * sympy.eye(3)

    def entry(row: int, column: int) -> Any:
        k, i = divmod(row, 3)
        l, j = divmod(column, 3)
        p = X[i, :] + X[j, :]
        g = (X[i, :] * X[j, :].T)[0]
        same = sympy.Integer(k == l)
        # E[w_k w_l], E[w_k] and E[w_l] after the shift of w by p = x_i + x_j
        mean = g * (same + p[k] * p[l])
        if exact:
            mean += p[k] * X[i, l] + p[l] * X[j, k] + same
        return sympy.exp(g) * mean

    return sympy.Matrix(9, 9, entry)


def _slow_eigenvalues() -> tuple[Any, Any, Any, bool]:
    """Return rho, lambda_H, the eigenvalue of K along the slow targets, and whether both are what we say."""
    rho = sympy.Symbol("rho", positive=True)
    E = sympy.Matrix([[0, 1, -1], [-1, 0, 1], [1, -1, 0]])
    slow = sympy.Matrix([E[i, k] for k in range(3) for i in range(3)])
    H = _limit(False, rho)
    K = _limit(True, rho)
    least = rho**2 * sympy.exp(rho**2)
    slower = sympy.exp(rho**2) * (1 + rho**2) - 1 - 2 * rho**2
    diagonal = H.is_diagonal() and {sympy.simplify(H[i, i] / least) for i in range(9)} == {1, 1 + 4 * rho**2}
    along = all(is_zero(entry) for entry in K * slow - slower * slow)
    return rho, least, slower, bool(diagonal and along)


def _family_steps(rho: Any, least: Any, slower: Any, correct: bool) -> tuple[Step, ...]:
    series = sympy.series(slower, rho, 0, 6).removeO()
    return (
        Step(
            "Take n = d = 3, the points x_i = rho e_i, sigma = 1, m to infinity. The printed kernel is "
            "diagonal with smallest eigenvalue lambda_H; the exact kernel K has the eigenvalue lambda_K "
            "along the antisymmetric targets E with zero row sums.",
            r"\lambda_H = \rho^2 e^{\rho^2}, \qquad K E = \lambda_K E, \quad "
            r"\lambda_K = e^{\rho^2} (1 + \rho^2) - 1 - 2\rho^2",
            correct,
        ),
        Step(
            "For short points lambda_K is smaller by a factor of order rho^2, so no constant relates the "
            "two.",
            r"\lambda_K = \tfrac32 \rho^4 + O(\rho^6), \qquad "
            r"\lim_{\rho \to 0} \frac{\lambda_K}{\lambda_H} = 0",
            is_zero(series - sympy.Rational(3, 2) * rho**4) and sympy.limit(slower / least, rho, 0) == 0,
        ),
    )


@proof()
def too_few_steps() -> Iterator[Step]:
    """No constant in front of the printed T is enough for Theorem 3.2."""
    rho, least, slower, correct = _slow_eigenvalues()
    c, u, epsilon = sympy.symbols("c u epsilon", positive=True)
    # gradient flow is the best case: T = c log(9/eps) / (u lambda_H) with u = m eta
    left = sympy.exp(-2 * u * slower * c * sympy.log(9 / epsilon) / (u * least))
    yield from _family_steps(rho, least, slower, correct)
    yield Step(
        "After T = c log(nd/eps)/(m eta lambda_H) steps at a small rate the part along E has the factor "
        "below, which tends to 1 for every constant c: the loss does not become small.",
        r"(1 - m\eta\lambda_K)^{2T} \to e^{-2c \log(nd/\epsilon) \lambda_K/\lambda_H} "
        r"\xrightarrow{\rho \to 0} 1",
        sympy.limit(left, rho, 0) == 1,
    )


@proof()
def slow_step() -> Iterator[Step]:
    """A step along E makes less progress than Lemma I.4 promises."""
    rho, least, slower, correct = _slow_eigenvalues()
    square = Fraction(42, 100) ** 2
    low, high = exp_bounds(square)
    ratio = (high * (1 + square) - 1 - 2 * square) / (square * low)
    yield from _family_steps(rho, least, slower, correct)
    yield Step(
        "A step along E leaves the factor (1 - m eta lambda_K)^2, at least 1 - 2 m eta lambda_K. The lemma "
        "allows 1 - m eta lambda_H/2, so it fails if 4 lambda_K < lambda_H; rho = 0.42 is enough.",
        r"4 \lambda_K < \lambda_H \quad\text{at } \rho = 0.42",
        4 * ratio < 1,
    )


@proof()
def slope() -> Iterator[Step]:
    """The slope of log loss over compute is not -eta lambda_H/(nd) up to a constant."""
    rho, least, slower, correct = _slow_eigenvalues()
    rate = sympy.Symbol("eta", positive=True)
    yield from _family_steps(rho, least, slower, correct)
    yield Step(
        "A step costs m d n, so per unit of compute the logarithm of the loss along E falls by 2 eta "
        "lambda_K/(nd). In units of the printed slope this tends to 0.",
        r"\frac{2\eta\lambda_K/(nd)}{\eta\lambda_H/(nd)} \to 0",
        sympy.limit(2 * rate * slower / (rate * least), rho, 0) == 0,
    )


@proof(part="2")
def equal_points() -> Iterator[Step]:
    """n equal points attain nd times the bound on an entry, so sqrt(nd) fails for large n."""
    w, R, n = sympy.Symbol("w", real=True), sympy.Symbol("R", positive=True), sympy.Symbol("n", positive=True)
    s, c = sympy.symbols("s c", positive=True)
    before = gaussian_mean(w**2, w, 2, s) / gaussian_mean(w**0, w, 1, s) ** 2
    after = gaussian_mean((w + R) ** 2, w, 2, s) / gaussian_mean(w**0, w, 1, s) ** 2
    change = sympy.exp(s**2) * (R**2 + 4 * s**2 * R)
    largest = Fraction(99, 10_000)
    needed = (8 * exp_bounds(22)[1] / largest) ** 2
    yield Step(
        "Let d = 1 and all n points be 1. All n^2 entries of H(W) - H(W~) are equal, so its Frobenius norm "
        "is n times an entry.",
        r"\|H(W) - H(\tilde W)\|_F = \sqrt{n^2 c^2} = n |c|",
        is_zero(sympy.sqrt(n**2 * c**2) - n * c),
    )
    yield Step(
        "Move every prefix vector by R. The softmax does not change; for m to infinity each entry grows by "
        "at least R^2, for every sigma.",
        r"c = e^{\sigma^2} (R^2 + 4 \sigma^2 R) \ge R^2",
        is_zero(after - before - change) and sympy.expand((R**2 + 4 * s**2 * R) - R**2).is_positive is True,
    )
    yield Step(
        "With sigma = 1/(C sqrt(log(nd/delta))), B = 1 for every n. The printed bound is 8 R sqrt(n) e^22, "
        "and n R^2 exceeds it from n = 10^25 on, at R = 0.0099.",
        r"n R^2 > 8 R \sqrt{n}\, e^{22} \iff n > (8 e^{22}/R)^2, \qquad 10^{25} > (8 e^{22}/0.0099)^2",
        needed < 10**25,
    )


@proof()
def explicit_length() -> Iterator[Step]:
    """m >= 8 n^(3/2) G^2 G' |r_0| / lambda^2 closes the induction of the repaired Theorem 3.2."""
    n, m, lam, G, D, start, eta = sympy.symbols("n m lambda G D r_0 eta", positive=True)
    R = lam / (4 * n * G * D)
    drift = 2 * n * G * D * R
    total = eta * G * sympy.sqrt(n) * start / (m * eta * lam / 2)
    least = 8 * n ** sympy.Rational(3, 2) * G**2 * D * start / lam**2
    omega, R0 = sympy.symbols("omega R_0", positive=True)
    yield Step(
        "Let |<w_r, x_i>| <= b and |w_r| <= omega at the start, and let no vector move by more than R. Then "
        "m S_r <= e^(2(b+R)), and the block of J of one vector and point, m S_r ((a_r w_r - mu) x' + a_r I), "
        "has norm at most G = e^(2(b+R)) (2(omega+R) + 1).",
        r"|a_r w_r - \mu|\,|x| + 1 \le 2(\omega + R) + 1",
        is_zero((omega + R0) + (omega + R0) + 1 - (2 * (omega + R0) + 1)),
    )
    yield Step(
        "A move by R changes log S_r by at most 2R, w_r by R and mu by R + 2R(omega+R), hence the block by "
        "at most G' R with G' = e^(2(b+R)) (6(omega+R) + 4).",
        r"2(2(\omega+R) + 1) + 1 + 1 + 2(\omega+R) = 6(\omega+R) + 4",
        is_zero(2 * (2 * (omega + R0) + 1) + 2 + 2 * (omega + R0) - (6 * (omega + R0) + 4)),
    )
    yield Step(
        "So the kernel along a step is within 2 n G G' R of K = J(0) J(0)'/m, which is lambda_K/2 for R = "
        "lambda_K/(4 n G G').",
        r"2 n G G' R = \frac{\lambda_K}{2}",
        is_zero(drift - lam / 2),
    )
    yield Step(
        "Then |r_t| <= (1 - m eta lambda_K/2)^t |r_0|, a step moves w_r by at most eta G sqrt(n) |r_t|, and "
        "the moves sum to 2 G sqrt(n) |r_0|/(m lambda_K). They stay below R if m is at least the length "
        "below.",
        r"\frac{2 G \sqrt n\, |r_0|}{m \lambda_K} \le R \iff "
        r"m \ge \frac{8 n^{3/2} G^2 G' |r_0|}{\lambda_K^2}",
        is_zero(total - 2 * G * sympy.sqrt(n) * start / (m * lam)) and is_zero(total.subs(m, least) - R),
    )
    yield Step(
        "With pairs of opposite signs |r_0| = |Y| <= sqrt(n), and G' <= 4G: m >= 32 n^2 G^3/lambda_K^2 is "
        "enough. b and omega contain sqrt(log m), so e^(6b) is m^o(1) and long prefixes satisfy it.",
        r"6(\omega + R) + 4 \le 4 (2(\omega + R) + 1), "
        r"\qquad 8 n^{3/2} G^2 \cdot 4G \cdot \sqrt n = 32 n^2 G^3",
        is_zero(4 * (2 * omega + 1) - (6 * omega + 4) - 2 * omega)
        and is_zero(least.subs({D: 4 * G, start: sympy.sqrt(n)}) - 32 * n**2 * G**3 / lam**2),
    )


@proof()
def weights_stay() -> Iterator[Step]:
    """Lemma I.3 follows from its condition on the loss and Eq. (22), with twice the printed sum."""
    x, m, eta, lam = sympy.symbols("x m eta lambda", positive=True)
    yield Step(
        "The condition says that |F - Y|^2 falls by 1 - x per step with x = m eta lambda/2, so that |F - Y| "
        "falls by its root.",
        r"\sqrt{1-x}\le 1-\tfrac x2,\quad (1-\tfrac x2)^2-(1-x)=\tfrac{x^2}{4}\ge 0",
        is_zero((1 - x / 2) ** 2 - (1 - x) - x**2 / 4),
    )
    yield Step(
        "The residuals sum to at most 2/x times the first, twice what the proof prints.",
        r"\eta\sum_t\frac{|F(t)-Y|}{|F(0)-Y|}\le\frac{2\eta}{x}=\frac{4}{m\lambda}",
        is_zero((2 * eta / x).subs(x, m * eta * lam / 2) - 4 / (m * lam)),
    )
    yield Step(
        "By Eq. (22) w_r moves by at most sqrt(nd) e^(11B) times that, which D covers for every B >= 1.",
        r"4e^{11B}\le 2e^{20B}\iff \log 2\le 9B",
        bool(sympy.log(2) < 9),
    )
