"""Exact proofs of misprints in P5, by a counter-example each."""

from collections.abc import Iterator
from fractions import Fraction

import sympy as sp

from attangent.audit import Step
from attangent.papers.common.exact import proof


@proof("Property 1")
def claim_c_2() -> Iterator[Step]:
    """Property 3 with Property 2 makes P_(d+1) shorter than 1."""
    d = sp.symbols("d", integer=True, positive=True)
    yield Step(
        "P_d is orthogonal to the others, and the mean of unit vectors has a norm of at most 1.",
        r"\|P_{d+1}\|^2"
        r"=\tfrac{(d-1)^2}{d^2}\|P_d\|^2+\tfrac{1}{d^2}\Big\|\tfrac{1}{d-1}\sum_{k<d}P_k\Big\|^2"
        r"\le\tfrac{(d-1)^2+1}{d^2}",
        Fraction(7, 8) ** 2 + Fraction(1, 8) ** 2 == Fraction(7**2 + 1, 8**2),
    )
    yield Step(
        "That is below 1 for every d > 1, and Property 1 wants 1.",
        r"d^2-(d-1)^2-1=2(d-1)>0",
        sp.expand(d**2 - (d - 1) ** 2 - 1 - 2 * (d - 1)) == 0,
    )


@proof()
def fact_b_2() -> Iterator[Step]:
    """P(x <= t) is at least 1/2 for t > 0."""
    t = sp.symbols("t", positive=True)
    below = (1 + sp.erf(t / sp.sqrt(2))) / 2
    yield Step(
        "For t > 0 a centred normal variable is below t with probability more than 1/2.",
        r"P(x\le t)>P(x\le 0)=\tfrac12",
        below.subs(t, 0) == sp.Rational(1, 2) and sp.diff(below, t).is_positive is True,
    )
    yield Step(
        "The printed bound tends to 0 with t. At t = sigma/2 it is below 2/5.",
        r"\frac{2t}{\sqrt{2\pi}\sigma}\Big|_{t=\sigma/2}=\frac{1}{\sqrt{2\pi}}<\frac25<\frac12",
        bool(1 / sp.sqrt(2 * sp.pi) < sp.Rational(2, 5)),
    )
    yield Step(
        "P(x <= t) is concave for t > 0 and the bound is linear. At t = 1.07 sigma the bound still "
        "fails, and so it does for every smaller t.",
        r"P(x\le 1.07\sigma)>.857>.854>\frac{2\cdot1.07}{\sqrt{2\pi}}",
        sp.diff(below, t, 2).is_negative is True
        and bool(below.subs(t, sp.Rational(107, 100)) > sp.Rational(857, 1000))
        and bool(2 * sp.Rational(107, 100) / sp.sqrt(2 * sp.pi) < sp.Rational(854, 1000)),
    )


@proof()
def fact_b_8() -> Iterator[Step]:
    """A softmax vector that prefers the larger entry makes the left-hand side negative."""
    s = (Fraction(3, 4), Fraction(1, 4))
    x = (Fraction(1), Fraction(0))
    mean = sum(a * b for a, b in zip(s, x, strict=True))
    left = sum(value - mean for value in x) / 2
    variance = sum((value - Fraction(1, 2)) ** 2 for value in x) / 2
    squares = sum((value - mean) ** 2 for value in x) / 2
    yield Step(
        "Take s = (3/4, 1/4) and x = (1, 0). The left-hand side is negative, the variance positive.",
        r"\tfrac12\langle\mathbf 1,x-\mathbf 1\langle s,x\rangle\rangle=-\tfrac14<0<\tfrac14=v_x",
        left == Fraction(-1, 4) and variance == Fraction(1, 4),
    )
    yield Step(
        "With the square, as Lemma I.4 uses it, c = 1 does.",
        r"\tfrac12\langle\mathbf 1,(x-\mathbf 1\langle s,x\rangle)^2\rangle=\tfrac{5}{16}\ge\tfrac14",
        squares == Fraction(5, 16) and squares >= variance,
    )


@proof()
def fact_b_3() -> Iterator[Step]:
    """The sum of X and -X is 0."""
    one = Fraction(1)
    yield Step(
        "X_1 ~ N(0, 1) and X_2 = -X_1 are both N(0, 1). Their sum is 0, not N(0, 2).",
        r"\mathrm{Var}(X_1+X_2)=1+1-2=0\ne 2",
        one + one - 2 * one == 0,
    )


@proof()
def fact_b_4() -> Iterator[Step]:
    """The inner product is a number, so its variance is no matrix."""
    u = (Fraction(1), Fraction(2), Fraction(2))
    yield Step(
        "<x, u> is a number with the variance sigma^2 |u|^2. For u = (1, 2, 2), sigma = 1:",
        r"\mathrm{Var}\langle x,u\rangle=\sum_k u_k^2=9=\sigma^2\|u\|^2",
        sum(value**2 for value in u) == 9,
    )
    yield Step(
        "Read as a covariance over R^3, sigma^2|u|^2 I_3 has the trace 27.",
        r"\mathrm{Tr}(9\,I_3)=27\ne 9",
        3 * sum(value**2 for value in u) == 27,
    )


@proof()
def fact_b_7() -> Iterator[Step]:
    """Weyl's inequality fails for matrices that are not symmetric."""
    H = sp.Matrix([[0, 1], [0, 0]])
    other = sp.Matrix([[0, 1], [sp.Rational(1, 4), 0]])
    yield Step(
        "H has the eigenvalue 0 only, the changed matrix has -1/2 and 1/2.",
        r"H=\begin{pmatrix}0&1\\0&0\end{pmatrix},\;\tilde H=\begin{pmatrix}0&1\\\frac14&0\end{pmatrix}:\;"
        r"\lambda_{\min}(H)=0,\;\lambda_{\min}(\tilde H)=-\tfrac12",
        set(H.eigenvals()) == {0} and min(other.eigenvals()) == sp.Rational(-1, 2),
    )
    yield Step(
        "The change has the norm 1/4. For symmetric matrices, to which the paper applies it, the "
        "fact is right.",
        r"-\tfrac12<0-\tfrac14",
        bool((H - other).norm() == sp.Rational(1, 4)) and Fraction(-1, 2) < Fraction(-1, 4),
    )


@proof()
def lemma_h_1_sum() -> Iterator[Step]:
    """One eighth gives 1 - 7/8, the four terms together give 1 - 1/2."""
    one = -1 + Fraction(1, 8)
    four = -1 + 4 * Fraction(1, 8)
    yield Step(
        "As printed, the second line has one term of an eighth, and the third does not follow.",
        r"1-\eta\lambda+\tfrac18\eta\lambda=1-\tfrac78\eta\lambda\ne 1-\tfrac12\eta\lambda",
        one == Fraction(-7, 8) and one != Fraction(-1, 2),
    )
    yield Step(
        "Lemmas G.3 to G.6 bound each of C_2 to C_5 by an eighth, which gives the printed result.",
        r"1-\eta\lambda+4\cdot\tfrac18\eta\lambda=1-\tfrac12\eta\lambda",
        four == Fraction(-1, 2),
    )


@proof("equation")
def proposition_6_3() -> Iterator[Step]:
    """The printed equation has no solution: its P_d components differ."""
    d = 5
    following = [Fraction(1, d * (d - 1))] * (d - 1) + [Fraction(d - 1, d)]  # P_(d+1) in the frame P_1..P_d
    target = [*following[:-1], following[-1] - 1]  # P_(d+1) - P_d
    w = Fraction(1, d * (d - 1))
    right = [w] * (d - 1) + [-(d - 1) * w]  # sum_(k<d) w (P_k - P_d)
    yield Step(
        "In an orthonormal frame P_1..P_d the right-hand side has the component -1/d along P_d, and "
        "the sum over k < d has none.",
        r"\langle P_d,P_{d+1}-P_d\rangle=\tfrac{d-1}{d}-1=-\tfrac1d\ne 0=\Big\langle "
        r"P_d,\sum_{k<d}w_kP_k\Big\rangle",
        target[-1] == Fraction(-1, d),
    )
    yield Step(
        "With P_k - P_d, as in the proof, w_k = 1/(d(d-1)) solves it.",
        r"\sum_{k<d}\tfrac{1}{d(d-1)}(P_k-P_d)=P_{d+1}-P_d",
        right == target,
    )
