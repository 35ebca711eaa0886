"""Exact proofs for P5: misprints by a counter-example, theorems by contradiction with the paper's own
lemmas.
"""

from collections.abc import Iterator
from fractions import Fraction

import sympy as sp

from attangent.audit import Step
from attangent.papers.common.exact import is_zero, proof


@proof()
def equation_17() -> Iterator[Step]:
    """The second term of the change of a softmax has a minus."""
    u, v, b, c = sp.symbols("u v b c", positive=True)  # two exponentials and their beta
    before = (u / (u + v), v / (u + v))
    after_sum = u * (1 - b) + v * (1 - c)
    after = (u * (1 - b) / after_sum, v * (1 - c) / after_sum)
    inner = before[0] * b + before[1] * c
    gaps = [sp.simplify(before[i] - after[i] - (before[i] * (b, c)[i] - inner * after[i])) for i in (0, 1)]
    printed = before[0] - after[0] - (before[0] * b + inner * after[0])
    yield Step(
        "With u(t+1) = u(t)(1 - beta) and two coordinates, the identity holds with a minus.",
        r"S(t)-S(t+1)=S(t)\circ\beta-\langle S(t),\beta\rangle S(t+1)",
        gaps == [0, 0],
    )
    yield Step(
        "As printed, with a plus, it misses by twice the second term.",
        r"S(t)-S(t+1)-\big(S(t)\circ\beta+\langle S(t),\beta\rangle S(t+1)\big)=-2\langle "
        r"S(t),\beta\rangle S(t+1)",
        sp.simplify(printed + 2 * inner * after[0]) == 0,
    )


@proof("G.1")
def lemma_g_1() -> Iterator[Step]:
    """The first-order term has the variance, not the second moment plus the squared mean."""
    a, b, s = sp.symbols("a b s", real=True)  # two values, attention s and 1 - s
    mean = s * a + (1 - s) * b
    second = s * a**2 + (1 - s) * b**2
    logit = sp.symbols("q", real=True)
    attention = sp.exp(logit * a) / (sp.exp(logit * a) + sp.exp(logit * b))
    derivative = sp.diff(attention * a + (1 - attention) * b, logit)
    variance = (second - mean**2).subs(s, attention)
    yield Step(
        "The derivative of <softmax(q x), x> in q is the variance under the attention.",
        r"\frac{d}{dq}\langle S,x\rangle=\langle S,x^2\rangle-\langle S,x\rangle^2",
        sp.simplify(derivative - variance) == 0,
    )
    yield Step(
        "C_1 has the sum, which differs by twice the squared mean.",
        r"\big(\langle S,x^2\rangle+\langle S,x\rangle^2\big)-\mathrm{Var}_S(x)=2\langle S,x\rangle^2",
        sp.expand(second + mean**2 - (second - mean**2) - 2 * mean**2) == 0,
    )
    yield from _positive_leading_term()


def _positive_leading_term() -> Iterator[Step]:
    """Steps by which C_1 as printed is positive on two windows, whatever the weights: G.2 fails."""
    p, q = sp.symbols("p q", positive=True)  # attention on the last entries 2 and 1
    first = (1 - p) + 4 * p + ((1 - p) + 2 * p) ** 2
    second = q + q**2
    u = sp.symbols("u", positive=True)  # e^w: the windows have the logits 2w and w
    V = u / (1 + u) ** 2
    V_2 = u**2 / (1 + u**2) ** 2
    half = sp.Rational(1, 2)
    yield Step(
        "Lemma G.2: per neuron, C_1 is -eta/m times the product of sum_i r_i x_id (<S, x^2> + <S, x>^2) "
        "and sum_i r_i x_id Var. Take the windows (1, 2) and (0, 1), residuals (1, -3), and attention p "
        "= 1/(1 + e^(-2w)) and q = 1/(1 + e^(-w)) on the last entries. The first sum is",
        r"2(2+5p+p^2)-3(q+q^2)",
        sp.expand(2 * first - 3 * second - (2 * (2 + 5 * p + p**2) - 3 * (q + q**2))) == 0,
    )
    yield Step(
        "It is positive: for w <= 0, q <= 1/2 and for w >= 0, p >= 1/2, q <= 1.",
        r"2\cdot2-3\cdot\tfrac34=\tfrac74>0,\quad 2\cdot\tfrac{19}{4}-3\cdot2=\tfrac72>0",
        2 * 2 - 3 * (half + half**2) == sp.Rational(7, 4)
        and 2 * first.subs(p, half) - 3 * second.subs(q, 1) == sp.Rational(7, 2),
    )
    yield Step(
        "The second sum is negative, since Var_1 <= Var_2. With u = e^w:",
        r"\mathrm{Var}_1=\tfrac{u^2}{(1+u^2)^2}\le\tfrac{u}{(1+u)^2}=\mathrm{Var}_2\iff "
        r"(1-u)^2(1+u+u^2)\ge0,\quad 2\mathrm{Var}_1-3\mathrm{Var}_2\le-\mathrm{Var}_2<0",
        sp.simplify((V - V_2) * (1 + u) ** 2 * (1 + u**2) ** 2 / u - (1 - u) ** 2 * (1 + u + u**2)) == 0,
    )
    yield Step(
        "So C_1 > 0 for every number of neurons and all weights, and G.2 wants C_1 <= -eta lambda L <= "
        "0. The kernel is positive definite as soon as the ratio of the variances differs between two "
        "neurons, as at w = 0 and w = log 2.",
        r"\frac{\mathrm{Var}_1}{\mathrm{Var}_2}=1\ \text{at}\ u=1,\quad\tfrac{18}{25}\ \text{at}\ u=2",
        (V_2 / V).subs(u, 1) == 1 and (V_2 / V).subs(u, 2) == sp.Rational(18, 25),
    )


@proof("step")
def lemma_h_2() -> Iterator[Step]:
    """(a - b)^2 <= a^2 + b^2 fails for numbers of opposite signs."""
    a = Fraction(1)
    b = Fraction(-1)
    yield Step(
        "At a = 1, b = -1 the left-hand side is 4 and the right-hand side 2.",
        r"(1-(-1))^2=4>2=1^2+(-1)^2",
        (a - b) ** 2 == 4 and a**2 + b**2 == 2,
    )
    yield Step(
        "A factor 2 repairs it, and O(.) absorbs it.",
        r"2(a^2+b^2)-(a-b)^2=(a+b)^2\ge 0",
        all(
            2 * (x**2 + y**2) - (x - y) ** 2 == (x + y) ** 2
            for x in map(Fraction, (-2, 1, 3))
            for y in map(Fraction, (-1, 0, 5))
        ),
    )


@proof()
def lemma_i_3() -> Iterator[Step]:
    """A gradient bounded away from 0 for all t contradicts a loss that tends to 0."""
    t, rate, c, C, L0 = sp.symbols("t eta c C L_0", positive=True)
    loss = L0 * sp.Rational(1, 2) ** t
    yield Step(
        "By Lemma E.5 and Cauchy-Schwarz the gradient is at most a constant C times sqrt(2L(t)).",
        r"|\Delta w_r(t)|\le C\sqrt{2L(t)}",
        sp.sqrt(2 * loss).is_positive is True,
    )
    yield Step(
        "By Theorem 5.2 the loss tends to 0, and so does this bound.",
        r"L(t)\le(1-\eta\lambda/2)^tL(0)\to 0",
        sp.limit(C * sp.sqrt(2 * loss), t, sp.oo) == 0,
    )
    yield Step(
        "Lemma I.3 wants |Delta w_r(t)| >= c with one c > 0 for all t. Weights would then move by c "
        "eta per step without end, and Lemma H.4 keeps them within R.",
        r"\sum_{\tau\le t}\eta c=\eta ct\to\infty",
        sp.limit(rate * c * t, t, sp.oo) == sp.oo,
    )


@proof("1")
def lemma_i_5() -> Iterator[Step]:
    """One step of descent moves the output by order eta, and no weight by more than eta/(4 sqrt(m))."""
    w = sp.symbols("w", real=True)
    m, eta, C, q = sp.symbols("m eta C q", positive=True)
    s = 1 / (1 + sp.exp(-w))  # <softmax, x> on the window x = (0, 1)
    slopes = sp.symbols("v1:5", positive=True)  # s'(w_r) of four neurons
    signs = (1, -1, 1, -1)
    first_order = sum(
        (a * v / sp.sqrt(4)) * (eta * a * v / sp.sqrt(4)) for a, v in zip(signs, slopes, strict=True)
    )
    largest = eta / (4 * sp.sqrt(m))
    least = sp.E / (1 + sp.E) ** 2  # s'(1) = s'(-1)
    yield Step(
        "Take the window (0, 1) with label 1 and F(0) = 0 (Assumption D.7). Neuron r answers a_r "
        "s(w_r)/sqrt(m), and the first step moves it by eta a_r s'(w_r)/sqrt(m). So R <= eta/(4 sqrt(m)).",
        r"s(w)=\frac{1}{1+e^{-w}},\quad s'=s(1-s)=\tfrac14-\big(s-\tfrac12\big)^2\le\tfrac14",
        sp.simplify(sp.diff(s, w) - s * (1 - s)) == 0
        and sp.expand(q * (1 - q) - sp.Rational(1, 4) + (q - sp.Rational(1, 2)) ** 2) == 0,
    )
    yield Step(
        "To first order the output moves by eta times the mean of s'^2 over the neurons, since a_r^2 "
        "= 1. In wide networks more than half of them have |w_r(0)| <= 1 and s' > 1/6.",
        r"\sum_r\frac{a_rs'(w_r)}{\sqrt m}\cdot\frac{\eta a_rs'(w_r)}{\sqrt m}"
        r"=\frac\eta m\sum_rs'(w_r)^2\ge\frac{\eta}{72},\quad s'(\pm1)=\frac{e}{(1+e)^2}>\frac16",
        sp.expand(first_order - eta * sum(v**2 for v in slopes) / 4) == 0
        and bool(least > sp.Rational(1, 6))
        and bool(sp.erf(1 / sp.sqrt(2)) > sp.Rational(1, 2)),
    )
    yield Step(
        "The rest is of second order. |s''| <= 1/4, so it is at most sqrt(m) R^2/8 and tends to 0.",
        r"s''=s'(1-2s),\quad\sqrt m\cdot\tfrac18R^2\le\frac{\eta^2}{128\sqrt m}\to 0",
        sp.simplify(sp.diff(s, w, 2) - sp.diff(s, w) * (1 - 2 * s)) == 0
        and sp.limit(sp.sqrt(m) * largest**2 / 8, m, sp.oo) == 0,
    )
    yield Step(
        "Lemma I.5 allows exp(O(B^2 D)) O(R) with D = sqrt(log(m/delta)), which tends to 0.",
        r"C e^{C\sqrt{\log m}}\,\frac{\eta}{4\sqrt m}\to 0<\frac{\eta}{72}",
        sp.limit(C * sp.exp(C * sp.sqrt(sp.log(m))) * largest, m, sp.oo) == 0,
    )


@proof("Part 1")
def theorem_5_2() -> Iterator[Step]:
    """Signs cannot follow a_r if no weight moves by more than R <= 1/2."""
    R = sp.symbols("R", positive=True)
    x = sp.symbols("x", real=True)
    density = sp.exp(-(x**2) / 2) / sp.sqrt(2 * sp.pi)
    failing = sp.Rational(1, 50)  # delta/P(a_r = 1) with the delta = 1/100 of Lemma H.4
    most = sp.Rational(1, 2) + R / sp.sqrt(2 * sp.pi) + failing
    yield Step(
        "By Lemma H.4 (with delta = 1/100) no weight ever moves by more than R, except with "
        "probability 1/50 given a_r. The start w_r(0) is independent of a_r.",
        r"P(w_r(t)>0\mid a_r=1)\le P(w_r(0)>-R)+\tfrac1{50}\le\tfrac12+\tfrac{R}{\sqrt{2\pi}}+\tfrac1{50}",
        sp.simplify(density.subs(x, 0) - 1 / sp.sqrt(2 * sp.pi)) == 0
        and sp.integrate(density, (x, 0, sp.oo)) == sp.Rational(1, 2)
        and sp.Rational(1, 100) / sp.Rational(1, 2) == failing,
    )
    yield Step(
        "For R <= 1/2 that is below 3/4, and Part 1 wants 1 - delta, more than 9/10.",
        r"\tfrac12+\tfrac{1}{2\sqrt{2\pi}}+\tfrac1{50}<\tfrac34<\tfrac9{10}<1-\delta\quad"
        r"(\delta<\tfrac1{10})",
        bool(most.subs(R, sp.Rational(1, 2)) < sp.Rational(3, 4)),
    )
    yield Step(
        "The time t does not enter, so no t helps. As R -> 0 the bound tends to 1/2 + 1/50.",
        r"\tfrac12+\tfrac{R}{\sqrt{2\pi}}+\tfrac1{50}\to\tfrac12+\tfrac1{50}",
        sp.limit(most, R, 0) == sp.Rational(1, 2) + failing,
    )


@proof("(2) after training")
def theorem_5_3() -> Iterator[Step]:
    """Of the neurons with a_r = -1 almost half keep w_r > 0, and trained weights need w_r < 0."""
    R = sp.Rational(1, 100)
    u, a, excess = sp.symbols("u a h", positive=True)
    both_signs = (u - a) / (u + a) + (u - 1 / a) / (u + 1 / a)
    above = (u**2 - 1).subs(u, 1 + excess)
    yield Step(
        "For trained weights the theorem takes w_r(t) < 0 from Theorem 5.2. By Lemma H.4 (with delta "
        "= 1/100) no weight moves by more than R, except with probability 1/50 given a_r. Every "
        "other neuron with w_r(0) > R keeps a positive weight.",
        r"P(w_r(t)>0\mid a_r=-1)\ge P(w_r(0)>R)-\tfrac1{50}\ge\tfrac12-\tfrac{R}{\sqrt{2\pi}}"
        r"-\tfrac1{50}>\tfrac{47}{100}\quad(R\le\tfrac1{100})",
        bool(sp.Rational(1, 2) - R / sp.sqrt(2 * sp.pi) - sp.Rational(1, 50) > sp.Rational(47, 100)),
    )
    yield Step(
        "For a weight w > 0 the last value gets more attention, not less. Take d = 2 and add up both "
        "signs of x_1, which are equally likely: the sum is positive.",
        r"u=e^{wx_2^2}>1,\ a=e^{wx_1x_2}:\quad"
        r"\frac{u-a}{u+a}+\frac{u-1/a}{u+1/a}=\frac{2(u^2-1)}{(u+a)(u+1/a)}>0",
        is_zero(both_signs - 2 * (u**2 - 1) / ((u + a) * (u + 1 / a)))
        and sp.expand(above).is_positive is True,
    )


@proof()
def proposition_j_1() -> Iterator[Step]:
    """The displayed sum has the sign of a_r, and features outside a linear span do not bind a softmax."""
    x, w, c = sp.symbols("x w c", positive=True)
    softmax = sp.exp(w * x**2) / (sp.exp(w * x**2) + sp.exp(w * x * c))
    yield Step(
        "A softmax is positive, so for a_r = -1 every term of the sum is negative, whatever w_r(t): "
        "the first display fails for every such r.",
        r"a_r\,\mathrm{softmax}_d(x_d w_r x)=-\frac{e^{wx_d^2}}{\sum_k e^{wx_dx_k}}<0",
        (-softmax).is_negative is True,
    )
    yield Step(
        "The second display is about linear combinations of x_1..x_(d-1). Attention returns a sum "
        "over all x_k, x_d among them, with weights that depend on x: at w = 0, 1/d each.",
        r"\langle\mathrm{softmax}(0),x\rangle=\tfrac1d\sum_{k\le d}x_k",
        softmax.subs(w, 0) == sp.Rational(1, 2),
    )


@proof("cases")
def section_7_1() -> Iterator[Step]:
    """At uniform attention the sign of the local change is that of p - q, not of p."""
    p, q, eta = sp.symbols("p q eta", positive=True)
    half = sp.Rational(1, 2)  # L = d = 2, X = W_V = I, W = 0: attention 1/2
    mean = half * p + half * q
    scores = [-eta * half * (p - mean), -eta * half * (q - mean)]  # change of the scores of row 1
    change = half * (scores[0] - (half * scores[0] + half * scores[1]))  # first order in eta
    yield Step(
        "Take L = d = 2, X = W_V = I, W = 0 and G_1 = (p, q), so that <G_1, W_V'X_1> = p. A step of "
        "descent changes the attention on position 1 by",
        r"\Delta S_{11}=-\tfrac{\eta}{8}(p-q)",
        sp.simplify(change + eta * (p - q) / 8) == 0,
    )
    yield Step(
        "At p = 1, q = 2 the inner product is positive (Case 1) and attention on the local entry grows.",
        r"\langle G_1,W_V^\top X_1\rangle=1>0,\quad\Delta S_{11}=\tfrac\eta8>0",
        bool(change.subs({p: 1, q: 2, eta: 8}) == 1),
    )
    yield Step(
        "The columns of the dropped matrix are equal, as printed, but subtracting them is what "
        "makes q matter.",
        r"\tfrac{p+q}{2}\ne 0",
        bool(mean.subs({p: 1, q: 2}) == sp.Rational(3, 2)),
    )


@proof()
def zero_start() -> Iterator[Step]:
    """On a constant window an odd number of signs never cancels."""
    from itertools import product

    sums = {sum(signs) for signs in product((-1, 1), repeat=3)}
    yield Step(
        "On the window x = (c, ..., c) every softmax gives <S, x> = c, so f = c (a_1 + ... + a_m)/sqrt(m).",
        r"\langle S,c\mathbf 1\rangle=c",
        Fraction(1, 4) * 7 + Fraction(3, 4) * 7 == 7,
    )
    yield Step(
        "For m = 3 the sum of the signs is never 0.",
        r"a_1+a_2+a_3\in\{-3,-1,1,3\}",
        sums == {-3, -1, 1, 3},
    )


@proof()
def norms_over_points() -> Iterator[Step]:
    """|x|_1 <= sqrt(d) |x|_2 fails for vectors with n > d entries."""
    n, d = 9, 4
    yield Step(
        "F(t) - y has n entries. For n = 9 equal entries of 1 and d = 4:",
        r"\|x\|_1=9>6=\sqrt4\cdot\sqrt9=\sqrt d\,\|x\|_2",
        n**2 > d * n,
    )
    yield Step(
        "The right factor is sqrt(n), attained by equal entries.",
        r"9=\sqrt9\cdot\sqrt9",
        n**2 == n * n,
    )
