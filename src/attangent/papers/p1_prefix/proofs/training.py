"""The repaired Theorem 3.2: a prefix length that keeps the exact kernel in place."""

from attangent.audit import Proof, Step
from attangent.papers.common.exact import is_zero


def explicit_length() -> Proof:
    """m >= 8 n^(3/2) G^2 G' |r_0| / lambda^2 closes the induction of the repaired Theorem 3.2."""
    import sympy

    n, m, lam, G, D, start, eta = sympy.symbols("n m lambda G D r_0 eta", positive=True)
    R = lam / (4 * n * G * D)
    drift = 2 * n * G * D * R
    total = eta * G * sympy.sqrt(n) * start / (m * eta * lam / 2)
    least = 8 * n ** sympy.Rational(3, 2) * G**2 * D * start / lam**2
    omega, R0 = sympy.symbols("omega R_0", positive=True)
    return Proof(
        (
            Step(
                "Let |<w_r, x_i>| <= b and |w_r| <= omega at the start, and let no vector move by more "
                "than R. Then m S_r <= e^(2(b+R)), and the block of J of one vector and point, m S_r "
                "((a_r w_r - mu) x' + a_r I), has norm at most G = e^(2(b+R)) (2(omega+R) + 1).",
                r"|a_r w_r - \mu|\,|x| + 1 \le 2(\omega + R) + 1",
                is_zero((omega + R0) + (omega + R0) + 1 - (2 * (omega + R0) + 1)),
            ),
            Step(
                "A move by R changes log S_r by at most 2R, w_r by R and mu by R + 2R(omega+R), hence the "
                "block by at most G' R with G' = e^(2(b+R)) (6(omega+R) + 4).",
                r"2(2(\omega+R) + 1) + 1 + 1 + 2(\omega+R) = 6(\omega+R) + 4",
                is_zero(2 * (2 * (omega + R0) + 1) + 2 + 2 * (omega + R0) - (6 * (omega + R0) + 4)),
            ),
            Step(
                "So the kernel along a step is within 2 n G G' R of K = J(0) J(0)'/m, which is lambda_K/2 "
                "for R = lambda_K/(4 n G G').",
                r"2 n G G' R = \frac{\lambda_K}{2}",
                is_zero(drift - lam / 2),
            ),
            Step(
                "Then |r_t| <= (1 - m eta lambda_K/2)^t |r_0|, a step moves w_r by at most eta G sqrt(n) "
                "|r_t|, and the moves sum to 2 G sqrt(n) |r_0|/(m lambda_K). They stay below R if m is at "
                "least the length below.",
                r"\frac{2 G \sqrt n\, |r_0|}{m \lambda_K} \le R \iff "
                r"m \ge \frac{8 n^{3/2} G^2 G' |r_0|}{\lambda_K^2}",
                is_zero(total - 2 * G * sympy.sqrt(n) * start / (m * lam))
                and is_zero(total.subs(m, least) - R),
            ),
            Step(
                "With pairs of opposite signs |r_0| = |Y| <= sqrt(n), and G' <= 4G: m >= 32 n^2 "
                "G^3/lambda_K^2 is enough. b and omega contain sqrt(log m), so e^(6b) is m^o(1) and long "
                "prefixes satisfy it.",
                r"6(\omega + R) + 4 \le 4 (2(\omega + R) + 1), "
                r"\qquad 8 n^{3/2} G^2 \cdot 4G \cdot \sqrt n = 32 n^2 G^3",
                is_zero(4 * (2 * omega + 1) - (6 * omega + 4) - 2 * omega)
                and is_zero(least.subs({D: 4 * G, start: sympy.sqrt(n)}) - 32 * n**2 * G**3 / lam**2),
            ),
        )
    )


def weights_stay() -> Proof:
    """Lemma I.3 follows from its condition on the loss and Eq. (22), with twice the printed sum."""
    import sympy

    x, m, eta, lam = sympy.symbols("x m eta lambda", positive=True)
    return Proof(
        (
            Step(
                "The condition says that |F - Y|^2 falls by 1 - x per step with x = m eta lambda/2, "
                "so that |F - Y| falls by its root.",
                r"\sqrt{1-x}\le 1-\tfrac x2,\quad (1-\tfrac x2)^2-(1-x)=\tfrac{x^2}{4}\ge 0",
                is_zero((1 - x / 2) ** 2 - (1 - x) - x**2 / 4),
            ),
            Step(
                "The residuals sum to at most 2/x times the first, twice what the proof prints.",
                r"\eta\sum_t\frac{|F(t)-Y|}{|F(0)-Y|}\le\frac{2\eta}{x}=\frac{4}{m\lambda}",
                is_zero((2 * eta / x).subs(x, m * eta * lam / 2) - 4 / (m * lam)),
            ),
            Step(
                "By Eq. (22) w_r moves by at most sqrt(nd) e^(11B) times that, which D covers for "
                "every B >= 1.",
                r"4e^{11B}\le 2e^{20B}\iff \log 2\le 9B",
                bool(sympy.log(2) < 9),
            ),
        )
    )
