"""Exact proofs for P5: misprints by a counter-example, theorems by contradiction with the paper's own
lemmas.
"""

from fractions import Fraction

from attangent.audit.proofs import Proof, Step
from attangent.papers.common.exact import is_zero


def equation_17() -> Proof:
    """The second term of the change of a softmax has a minus."""
    import sympy as sp

    u, v, b, c = sp.symbols("u v b c", positive=True)  # two exponentials and their beta
    before = (u / (u + v), v / (u + v))
    after_sum = u * (1 - b) + v * (1 - c)
    after = (u * (1 - b) / after_sum, v * (1 - c) / after_sum)
    inner = before[0] * b + before[1] * c
    gaps = [sp.simplify(before[i] - after[i] - (before[i] * (b, c)[i] - inner * after[i])) for i in (0, 1)]
    printed = before[0] - after[0] - (before[0] * b + inner * after[0])
    return Proof(
        (
            Step(
                "With u(t+1) = u(t)(1 - beta) and two coordinates, the identity holds with a minus.",
                r"S(t)-S(t+1)=S(t)\circ\beta-\langle S(t),\beta\rangle S(t+1)",
                gaps == [0, 0],
            ),
            Step(
                "As printed, with a plus, it misses by twice the second term.",
                r"S(t)-S(t+1)-\big(S(t)\circ\beta+\langle S(t),\beta\rangle S(t+1)\big)=-2\langle "
                r"S(t),\beta\rangle S(t+1)",
                sp.simplify(printed + 2 * inner * after[0]) == 0,
            ),
        )
    )


def lemma_g_1() -> Proof:
    """The first-order term has the variance, not the second moment plus the squared mean."""
    import sympy as sp

    a, b, s = sp.symbols("a b s", real=True)  # two values, attention s and 1 - s
    mean = s * a + (1 - s) * b
    second = s * a**2 + (1 - s) * b**2
    logit = sp.symbols("q", real=True)
    attention = sp.exp(logit * a) / (sp.exp(logit * a) + sp.exp(logit * b))
    derivative = sp.diff(attention * a + (1 - attention) * b, logit)
    variance = (second - mean**2).subs(s, attention)
    return Proof(
        (
            Step(
                "The derivative of <softmax(q x), x> in q is the variance under the attention.",
                r"\frac{d}{dq}\langle S,x\rangle=\langle S,x^2\rangle-\langle S,x\rangle^2",
                sp.simplify(derivative - variance) == 0,
            ),
            Step(
                "C_1 has the sum, which differs by twice the squared mean.",
                r"\big(\langle S,x^2\rangle+\langle S,x\rangle^2\big)-\mathrm{Var}_S(x)=2\langle "
                r"S,x\rangle^2",
                sp.expand(second + mean**2 - (second - mean**2) - 2 * mean**2) == 0,
            ),
            *_positive_leading_term(),
        ),
        part="G.1",
    )


def _positive_leading_term() -> tuple[Step, ...]:
    """Steps by which C_1 as printed is positive on two windows, whatever the weights: G.2 fails."""
    import sympy as sp

    p, q = sp.symbols("p q", positive=True)  # attention on the last entries 2 and 1
    first = (1 - p) + 4 * p + ((1 - p) + 2 * p) ** 2
    second = q + q**2
    u = sp.symbols("u", positive=True)  # e^w: the windows have the logits 2w and w
    V = u / (1 + u) ** 2
    V_2 = u**2 / (1 + u**2) ** 2
    half = sp.Rational(1, 2)
    return (
        Step(
            "Lemma G.2: per neuron, C_1 is -eta/m times the product of sum_i r_i x_id (<S, x^2> + <S, x>^2) "
            "and sum_i r_i x_id Var. Take the windows (1, 2) and (0, 1), residuals (1, -3), and attention p "
            "= 1/(1 + e^(-2w)) and q = 1/(1 + e^(-w)) on the last entries. The first sum is",
            r"2(2+5p+p^2)-3(q+q^2)",
            sp.expand(2 * first - 3 * second - (2 * (2 + 5 * p + p**2) - 3 * (q + q**2))) == 0,
        ),
        Step(
            "It is positive: for w <= 0, q <= 1/2 and for w >= 0, p >= 1/2, q <= 1.",
            r"2\cdot2-3\cdot\tfrac34=\tfrac74>0,\quad 2\cdot\tfrac{19}{4}-3\cdot2=\tfrac72>0",
            2 * 2 - 3 * (half + half**2) == sp.Rational(7, 4)
            and 2 * first.subs(p, half) - 3 * second.subs(q, 1) == sp.Rational(7, 2),
        ),
        Step(
            "The second sum is negative, since Var_1 <= Var_2. With u = e^w:",
            r"\mathrm{Var}_1=\tfrac{u^2}{(1+u^2)^2}\le\tfrac{u}{(1+u)^2}=\mathrm{Var}_2\iff "
            r"(1-u)^2(1+u+u^2)\ge0,\quad 2\mathrm{Var}_1-3\mathrm{Var}_2\le-\mathrm{Var}_2<0",
            sp.simplify((V - V_2) * (1 + u) ** 2 * (1 + u**2) ** 2 / u - (1 - u) ** 2 * (1 + u + u**2)) == 0,
        ),
        Step(
            "So C_1 > 0 for every number of neurons and all weights, and G.2 wants C_1 <= -eta "
            "lambda L <= 0. "
            "The kernel is positive definite as soon as the ratio of the variances differs between two "
            "neurons, as at w = 0 and w = log 2.",
            r"\frac{\mathrm{Var}_1}{\mathrm{Var}_2}=1\ \text{at}\ u=1,\quad\tfrac{18}{25}\ \text{at}\ u=2",
            (V_2 / V).subs(u, 1) == 1 and (V_2 / V).subs(u, 2) == sp.Rational(18, 25),
        ),
    )


def lemma_h_2() -> Proof:
    """(a - b)^2 <= a^2 + b^2 fails for numbers of opposite signs."""
    a = Fraction(1)
    b = Fraction(-1)
    return Proof(
        (
            Step(
                "At a = 1, b = -1 the left-hand side is 4 and the right-hand side 2.",
                r"(1-(-1))^2=4>2=1^2+(-1)^2",
                (a - b) ** 2 == 4 and a**2 + b**2 == 2,
            ),
            Step(
                "A factor 2 repairs it, and O(.) absorbs it.",
                r"2(a^2+b^2)-(a-b)^2=(a+b)^2\ge 0",
                all(
                    2 * (x**2 + y**2) - (x - y) ** 2 == (x + y) ** 2
                    for x in map(Fraction, (-2, 1, 3))
                    for y in map(Fraction, (-1, 0, 5))
                ),
            ),
        ),
        part="step",
    )


def lemma_i_3() -> Proof:
    """A gradient bounded away from 0 for all t contradicts a loss that tends to 0."""
    import sympy as sp

    t, rate, c, C, L0 = sp.symbols("t eta c C L_0", positive=True)
    loss = L0 * sp.Rational(1, 2) ** t
    return Proof(
        (
            Step(
                "By Lemma E.5 and Cauchy-Schwarz the gradient is at most a constant C times sqrt(2L(t)).",
                r"|\Delta w_r(t)|\le C\sqrt{2L(t)}",
                sp.sqrt(2 * loss).is_positive is True,
            ),
            Step(
                "By Theorem 5.2 the loss tends to 0, and so does this bound.",
                r"L(t)\le(1-\eta\lambda/2)^tL(0)\to 0",
                sp.limit(C * sp.sqrt(2 * loss), t, sp.oo) == 0,
            ),
            Step(
                "Lemma I.3 wants |Delta w_r(t)| >= c with one c > 0 for all t. Weights would then move by c "
                "eta per "
                "step without end, and Lemma H.4 keeps them within R.",
                r"\sum_{\tau\le t}\eta c=\eta ct\to\infty",
                sp.limit(rate * c * t, t, sp.oo) == sp.oo,
            ),
        )
    )


def lemma_i_5() -> Proof:
    """With the R of Lemma H.4 the outputs would not move, and convergence needs them to."""
    import sympy as sp

    m, C = sp.symbols("m C", positive=True)
    return Proof(
        (
            Step(
                "The proof of Lemma H.4 gives R = O(m^(-1/2)) exp(O(B^2 D)) with D = sqrt(log(m/delta)).",
                r"R\le C m^{-1/2}e^{C\sqrt{\log m}}\to 0",
                sp.limit(C * sp.exp(C * sp.sqrt(sp.log(m))) / sp.sqrt(m), m, sp.oo) == 0,
            ),
            Step(
                "Lemma I.5 then bounds every |F_i(t) - F_i(0)| by a quantity that tends to 0 with the width.",
                r"|F_i(t)-F_i(0)|\le e^{C\sqrt{\log m}}\,O(R)\to 0",
                sp.limit(C * sp.exp(2 * C * sp.sqrt(sp.log(m))) / sp.sqrt(m), m, sp.oo) == 0,
            ),
            Step(
                "F(0) = 0 (Assumption D.7) and L(t) -> 0 (Theorem 5.2) make F_i(t) tend to y_i, which does "
                "not depend on "
                "m. Both cannot hold.",
                r"|F_i(t)-F_i(0)|\to|y_i|>0",
                bool(sp.Abs(sp.Rational(1, 3)) > 0),
            ),
        ),
        part="1",
    )


def theorem_5_2() -> Proof:
    """Signs cannot follow a_r if no weight moves by more than R < 1."""
    import sympy as sp

    R = sp.symbols("R", positive=True)
    x = sp.symbols("x", real=True)
    density = sp.exp(-(x**2) / 2) / sp.sqrt(2 * sp.pi)
    return Proof(
        (
            Step(
                "By Lemma H.4 no weight ever moves by more than R = lambda/(n poly(exp(B^2), exp(D))) < 1. "
                "So w_r(t) > 0 "
                "only if w_r(0) > -R.",
                r"P(w_r(t)>0\mid a_r=1)\le P(w_r(0)>-R)\le\tfrac12+\tfrac{R}{\sqrt{2\pi}}",
                sp.simplify(density.subs(x, 0) - 1 / sp.sqrt(2 * sp.pi)) == 0
                and sp.integrate(density, (x, 0, sp.oo)) == sp.Rational(1, 2),
            ),
            Step(
                "For R <= 1 that is below 9/10, and Part 1 wants at least 1 - delta > 9/10. w_r(0) is "
                "independent of "
                "a_r.",
                r"\tfrac12+\tfrac{1}{\sqrt{2\pi}}<\tfrac{9}{10}\le 1-\delta\quad(\delta<\tfrac1{10})",
                bool(sp.Rational(1, 2) + 1 / sp.sqrt(2 * sp.pi) < sp.Rational(9, 10)),
            ),
            Step(
                "The time t does not enter, so no t helps. As R -> 0 with the width the share tends to a "
                "half.",
                r"\tfrac12+\tfrac{R}{\sqrt{2\pi}}\to\tfrac12",
                sp.limit(sp.Rational(1, 2) + R / sp.sqrt(2 * sp.pi), R, 0) == sp.Rational(1, 2),
            ),
        ),
        part="Part 1",
    )


def theorem_5_3() -> Proof:
    """Part (2) needs w_r(t) < 0 for every neuron with a_r = -1, and almost half of them keep w_r > 0."""
    import sympy as sp

    R = sp.Rational(1, 100)
    u, a, excess = sp.symbols("u a h", positive=True)
    both_signs = (u - a) / (u + a) + (u - 1 / a) / (u + 1 / a)
    above = (u**2 - 1).subs(u, 1 + excess)
    return Proof(
        (
            Step(
                "Part (2) takes w_r(t) < 0 from Theorem 5.2. By Lemma H.4 no weight moves by more than R, so "
                "every neuron with w_r(0) > R keeps a positive weight, whatever a_r.",
                r"P(w_r(t)>0\mid a_r=-1)\ge P(w_r(0)>R)\ge\tfrac12-\tfrac{R}{\sqrt{2\pi}}"
                r">\tfrac{49}{100}\quad(R\le\tfrac1{100})",
                bool(sp.Rational(1, 2) - R / sp.sqrt(2 * sp.pi) > sp.Rational(49, 100)),
            ),
            Step(
                "For a weight w > 0 the last value gets more attention, not less. Take d = 2 and add up both "
                "signs of x_1, which are equally likely: the sum is positive.",
                r"u=e^{wx_2^2}>1,\ a=e^{wx_1x_2}:\quad"
                r"\frac{u-a}{u+a}+\frac{u-1/a}{u+1/a}=\frac{2(u^2-1)}{(u+a)(u+1/a)}>0",
                is_zero(both_signs - 2 * (u**2 - 1) / ((u + a) * (u + 1 / a)))
                and sp.expand(above).is_positive is True,
            ),
        ),
        part="(2) after training",
    )


def proposition_j_1() -> Proof:
    """The displayed sum has the sign of a_r, and features outside a linear span do not bind a softmax."""
    import sympy as sp

    x, w, c = sp.symbols("x w c", positive=True)
    softmax = sp.exp(w * x**2) / (sp.exp(w * x**2) + sp.exp(w * x * c))
    return Proof(
        (
            Step(
                "A softmax is positive, so for a_r = -1 every term of the sum is negative, whatever w_r(t): "
                "the first display fails for every such r.",
                r"a_r\,\mathrm{softmax}_d(x_d w_r x)=-\frac{e^{wx_d^2}}{\sum_k e^{wx_dx_k}}<0",
                (-softmax).is_negative is True,
            ),
            Step(
                "The second display is about linear combinations of x_1..x_(d-1). Attention returns a sum "
                "over all x_k, x_d among them, with weights that depend on x: at w = 0, 1/d each.",
                r"\langle\mathrm{softmax}(0),x\rangle=\tfrac1d\sum_{k\le d}x_k",
                softmax.subs(w, 0) == sp.Rational(1, 2),
            ),
        )
    )


def section_7_1() -> Proof:
    """At uniform attention the sign of the local change is that of p - q, not of p."""
    import sympy as sp

    p, q, eta = sp.symbols("p q eta", positive=True)
    half = sp.Rational(1, 2)  # L = d = 2, X = W_V = I, W = 0: attention 1/2
    mean = half * p + half * q
    scores = [-eta * half * (p - mean), -eta * half * (q - mean)]  # change of the scores of row 1
    change = half * (scores[0] - (half * scores[0] + half * scores[1]))  # first order in eta
    return Proof(
        (
            Step(
                "Take L = d = 2, X = W_V = I, W = 0 and G_1 = (p, q), so that <G_1, W_V'X_1> = p. A step of "
                "descent "
                "changes the attention on position 1 by",
                r"\Delta S_{11}=-\tfrac{\eta}{8}(p-q)",
                sp.simplify(change + eta * (p - q) / 8) == 0,
            ),
            Step(
                "At p = 1, q = 2 the inner product is positive (Case 1) and attention on the local entry "
                "grows.",
                r"\langle G_1,W_V^\top X_1\rangle=1>0,\quad\Delta S_{11}=\tfrac\eta8>0",
                bool(change.subs({p: 1, q: 2, eta: 8}) == 1),
            ),
            Step(
                "The columns of the dropped matrix are equal, as printed, but subtracting them is what "
                "makes q matter.",
                r"\tfrac{p+q}{2}\ne 0",
                bool(mean.subs({p: 1, q: 2}) == sp.Rational(3, 2)),
            ),
        ),
        part="cases",
    )


def zero_start() -> Proof:
    """On a constant window an odd number of signs never cancels."""
    from itertools import product

    sums = {sum(signs) for signs in product((-1, 1), repeat=3)}
    return Proof(
        (
            Step(
                "On the window x = (c, ..., c) every softmax gives <S, x> = c, so f = c (a_1 + ... + "
                "a_m)/sqrt(m).",
                r"\langle S,c\mathbf 1\rangle=c",
                Fraction(1, 4) * 7 + Fraction(3, 4) * 7 == 7,
            ),
            Step(
                "For m = 3 the sum of the signs is never 0.",
                r"a_1+a_2+a_3\in\{-3,-1,1,3\}",
                sums == {-3, -1, 1, 3},
            ),
        )
    )


def norms_over_points() -> Proof:
    """|x|_1 <= sqrt(d) |x|_2 fails for vectors with n > d entries."""
    n, d = 9, 4
    return Proof(
        (
            Step(
                "F(t) - y has n entries. For n = 9 equal entries of 1 and d = 4:",
                r"\|x\|_1=9>6=\sqrt4\cdot\sqrt9=\sqrt d\,\|x\|_2",
                n**2 > d * n,
            ),
            Step(
                "The right factor is sqrt(n), attained by equal entries.",
                r"9=\sqrt9\cdot\sqrt9",
                n**2 == n * n,
            ),
        )
    )
