"""Exact proofs that steps, lemmas and definitions of P3 fail as printed.

Assumption 1 is taken at its order: tau_0 = lambda = 1/sqrt(log d) and L = d^p. mu = (1 + sqrt(2/pi))/sqrt(d)
is the mean of y <w*, x> over a P token x with label y.
"""

# sympy's functions declare wider types than they return
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportIndexIssue=false

from collections.abc import Iterator
from itertools import product

import sympy as sp

from attangent.audit import Step
from attangent.papers.common.exact import proof


@proof()
def taylor() -> Iterator[Step]:
    """The square in the Taylor step is that of the difference."""
    u, v, c = sp.symbols("u v c", real=True)
    term = u**2 / 8 + v**2 / 8 - (u + v) ** 2 / 16
    yield Step(
        "The terms of second order leave the square of the difference.",
        r"\frac{u^2}{8}+\frac{v^2}{8}-\frac{(u+v)^2}{16}=\frac{(u-v)^2}{16}",
        sp.expand(term - (u - v) ** 2 / 16) == 0,
    )
    yield Step(
        "The paper has the square of the sum, which differs by uv/4.",
        r"\frac{(u+v)^2}{16}-\frac{(u-v)^2}{16}=\frac{uv}{4}\ne 0",
        sp.expand((u + v) ** 2 / 16 - (u - v) ** 2 / 16 - u * v / 4) == 0,
    )
    yield Step(
        "At u = v = c the term vanishes for every c, so a small A bounds neither answer.",
        r"\frac{c^2}{8}+\frac{c^2}{8}-\frac{(2c)^2}{16}=0",
        sp.expand(term.subs({u: c, v: c})) == 0,
    )


@proof()
def bernstein() -> Iterator[Step]:
    """Lemma 2 of Appendix D has the sum where the mean belongs."""
    N = sp.symbols("N", integer=True, positive=True)
    right = sp.Rational(2, 3) * sp.log(2) / N
    slack = sp.log(sp.Rational(10, 9))  # log(1/delta)
    yield Step(
        "Take X_i = 1 for all i: mu = 1, sigma = 0, c = 1. The sum is N.",
        r"\sum_{i\le N}X_i-\mu=N-1",
        sp.summation(1, (sp.Symbol("i"), 1, N)) - 1 == N - 1,
    )
    yield Step(
        "With delta = 1/2 the printed bound is below 1/4 from N = 2 on.",
        r"\frac{2c\log(1/\delta)}{3N}=\frac{2\log 2}{3N}\le\frac{\log 2}{3}<\frac14",
        bool(sp.log(2) / 3 < sp.Rational(1, 4)) and sp.limit(right, N, sp.oo) == 0,
    )
    yield Step(
        "At N = 2 the left-hand side is 1: the bound fails with probability 1. With the mean in "
        "place of the sum the left-hand side is 0.",
        r"1>\frac{\log 2}{3}",
        bool(right.subs(N, 2) < 1),
    )
    yield Step(
        "The mean form needs log(2/delta): a single fair sign is at the distance 1 from its mean 0, "
        "and at delta = 9/10 the printed bound is below 1.",
        r"N=1,\ \sigma=c=1:\quad\sqrt{2\log\tfrac{10}{9}}+\tfrac23\log\tfrac{10}{9}<1",
        bool(sp.sqrt(2 * slack) + 2 * slack / 3 < 1),
    )


@proof()
def token_norms() -> Iterator[Step]:
    """The mean square of a P token's norm exceeds the bound's square for every u <= 1/2."""
    t = sp.symbols("t", real=True)
    g = sp.symbols("g", positive=True)
    half_normal = 2 * sp.integrate(t * sp.exp(-(t**2) / 2) / sp.sqrt(2 * sp.pi), (t, 0, sp.oo))
    square = 1 + g**2 * (1 + 2 * half_normal)  # g = gamma_0 = 1/sqrt(d)
    excess = sp.Poly(square - (sp.Rational(1, 2) + g) ** 2, g)
    yield Step(
        "The mean of |<w*, e>| for e ~ N(0, I/d) is sqrt(2/pi) gamma_0.",
        r"E|N(0,1)|=\sqrt{2/\pi}",
        sp.simplify(half_normal - sp.sqrt(2 / sp.pi)) == 0,
    )
    yield Step(
        "A P token is gamma_0 y w* + e with y the sign of <w*, e>.",
        r"E|x|^2=\gamma_0^2+2\gamma_0 E|\langle w^*,e\rangle|+E|e|^2=1+\gamma_0^2(1+2\sqrt{2/\pi})",
        sp.simplify(square - (g**2 + 2 * g * g * half_normal + 1)) == 0,
    )
    yield Step(
        "Its distance to the bound's square at u = 1/2 is a quadratic without real roots.",
        r"E|x|^2-(\tfrac12+\gamma_0)^2=\tfrac34-\gamma_0+2\sqrt{2/\pi}\,\gamma_0^2,\quad1-6\sqrt{2/\pi}<0",
        bool(sp.discriminant(excess.as_expr(), g) < 0) and bool(excess.eval(0) > 0),
    )


@proof()
def gradient_labels() -> Iterator[Step]:
    """One context token with label -1 turns the sign of the gradient."""
    w = sp.symbols("w", positive=True)
    y, answer = sp.symbols("y y_L", real=True)
    loss = sp.log(1 + sp.exp(-answer * y * w / 2))  # one token and one query, both 1: f = y relu(w)/2
    true = sp.diff(loss, w)
    slope = -1 / (1 + sp.exp(answer * y * w / 2))
    yield Step(
        "The derivative has the factor y_i y_L.",
        r"\partial_w\log(1+e^{-y_Ly_iw/2})=-\frac{y_Ly_i}{2(1+e^{y_Ly_iw/2})}",
        sp.simplify(true - slope * answer * y / 2) == 0,
    )
    yield Step(
        "The printed gradient lacks it: for y_i = -1, y_L = 1 it has the wrong sign.",
        r"\text{printed}=-\tfrac12\sigma<0<\tfrac12\sigma=\text{true}",
        sp.simplify(true.subs({y: -1, answer: 1}) + (slope / 2).subs({y: -1, answer: 1})) == 0,
    )


@proof()
def rows() -> Iterator[Step]:
    """The gradient over V has two rows other than zero in a frame along z and zeta."""
    d = 5
    z, zeta, *a = sp.symbols("z zeta a1 a2 a3", real=True)
    tokens = [
        sp.Matrix([z, sign * zeta, *([0] * (d - 2))]) for sign in (0, 1, -1)
    ]  # z, z + zeta, z - zeta along the first two axes
    gradient = sum((k * x * tokens[1].T for k, x in zip(a, tokens, strict=True)), sp.zeros(d, d))
    one, two, C = sp.symbols("R_1 R_2 C", positive=True)
    yield Step(
        "The gradient over V is a sum of terms x_i x_L' with x_i in the plane of z and zeta, so its "
        "rows from the third on vanish.",
        r"[\nabla_V]_i=0\quad(i\ge 3)",
        gradient[2:, :] == sp.zeros(d - 2, d),
    )
    yield Step(
        "The larger of the two other rows has at least the norm K/sqrt(2).",
        r"R_1\ge R_2:\;2R_1^2-(R_1^2+R_2^2)=(R_1-R_2)(R_1+R_2)\ge 0",
        sp.expand(2 * one**2 - (one**2 + two**2) - (one - two) * (one + two)) == 0,
    )
    yield Step(
        "K/sqrt(2) <= C K/sqrt(d) fails for d > 2 C^2.",
        r"\tfrac{1}{\sqrt2}\le\tfrac{C}{\sqrt d}\iff d\le 2C^2",
        sp.simplify(1 / sp.sqrt(2) - C / sp.sqrt(2 * C**2)) == 0,
    )


@proof()
def definition_6() -> Iterator[Step]:
    """Equation 24 has no solution V* unless it treats the three tokens alike."""
    z, zeta, row = sp.symbols("z zeta v", real=True)
    values = (1, -2, 0)
    solvable = {(a, b, c) for a, b, c in product(values, repeat=3) if 2 * a == b + c}
    yield Step(
        "The tokens are z, z + zeta and z - zeta, and 2z is the sum of the other two. So is 2z'V*.",
        r"2z^\top V^*=(z+\zeta)^\top V^*+(z-\zeta)^\top V^*",
        sp.expand(2 * z * row - (z + zeta) * row - (z - zeta) * row) == 0,
    )
    yield Step(
        "Equation 24 gives each of the three rows one of the factors 1, -2, 0 (times one vector). Of "
        "all 27 choices only those with three equal factors satisfy the identity.",
        r"2a=b+c,\;a,b,c\in\{1,-2,0\}\Rightarrow a=b=c",
        solvable == {(value, value, value) for value in values},
    )


@proof()
def trace_and_norm() -> Iterator[Step]:
    """Tr W <= |W| fails for the identity."""
    W = sp.eye(2)
    d = sp.symbols("d", positive=True)
    yield Step(
        "The identity of size 2 has the trace 2 and the norm sqrt(2).",
        r"\mathrm{Tr}(I_2)=2>\sqrt2=\sqrt{\mathrm{Tr}(I_2^\top I_2)}",
        bool(W.trace() > sp.sqrt((W.T * W).trace())),
    )
    yield Step(
        "By Cauchy-Schwarz the right factor is sqrt(d), attained by the identity.",
        r"\mathrm{Tr}(W)\le\sqrt d\,\|W\|_F",
        sp.simplify(d - sp.sqrt(d) * sp.sqrt(d)) == 0,
    )
    yield Step(
        "Both displays bound a trace from above, which orders nothing: W = 0 and V = I/4 satisfy "
        "them with the bounds 2 and 1, and Tr W < Tr V.",
        r"\mathrm{Tr}(0)=0\le 2,\;\mathrm{Tr}(\tfrac14I_2)=\tfrac12\le 1,\;0<\tfrac12",
        bool(sp.zeros(2, 2).trace() < (W / 4).trace() <= 1),
    )


@proof()
def indicator_product() -> Iterator[Step]:
    """The indicator of a product is not the product of indicators."""
    a, b = (-1, 1), (-1, 1)
    product_of_rows = sum(x * y for x, y in zip(a, b, strict=True))
    indicators = sum((x >= 0) * (y >= 0) for x, y in zip(a, b, strict=True))
    yield Step(
        "For numbers: the product of two negative factors is active, neither factor is.",
        r"\mathbf 1((-1)(-1))=1\ne 0=\mathbf 1(-1)\,\mathbf 1(-1)",
        int((-1) * (-1) >= 0) == 1 and int(-1 >= 0) ** 2 == 0,
    )
    yield Step(
        "For vectors the right-hand side counts: it is no indicator.",
        r"a=b=(-1,1):\;\mathbf 1(a^\top b)=1,\;\mathbf 1(a)^\top\mathbf 1(b)=1;\;"
        r"a=b=(1,1):\;\mathbf 1(a)^\top\mathbf 1(b)=2",
        product_of_rows >= 0 and indicators == 1 and sum((1 >= 0) * (1 >= 0) for _ in a) == 2,
    )


@proof()
def descent() -> Iterator[Step]:
    """The contradiction of Appendices F.2 and G.1 rests on two steps that fail at the start."""
    B, R = sp.symbols("B R", positive=True)
    yield Step(
        "The proof bounds -<W, W*> by -(R + B) B. At W = 0 the left-hand side is 0.",
        r"-\langle 0,W^*\rangle=0>-(R+B)B",
        (-(R + B) * B).is_negative is True,
    )
    yield Step(
        "From |W - W*| <= R follows the other direction.",
        r"\langle W,W^*\rangle\ge B^2-RB\;\Rightarrow\;-\langle W,W^*\rangle\le-(B-R)B",
        sp.expand(-(B - R) * B + (R + B) * B - 2 * R * B) == 0,
    )
    yield Step(
        "The start W_0 -> 0 is at the distance B from W*, so that |W_0 - W*| <= R << B never holds.",
        r"\|0-W^*\|_F=\|W^*\|_F=B",
        sp.sqrt(B**2) == B,
    )


@proof()
def norm_from_answer() -> Iterator[Step]:
    """A small answer does not bound V."""
    c = sp.symbols("c", positive=True)
    V = sp.diag(0, 0, c)
    z = sp.Matrix([1, 0, 0])
    zeta = sp.Matrix([0, sp.Rational(1, 10), 0])
    tokens = (z, z + zeta, z - zeta)
    flat = sp.Matrix([[1, 0], [1, sp.Rational(1, 10)], [1, -sp.Rational(1, 10)]])  # z, z +- zeta at d = 2
    row = sp.Matrix([[1, 0]])
    negative = flat * (-c * row.T * row) * flat.T
    yield Step(
        "V = c e_3 e_3' with z, zeta along the first two axes answers every prompt by 0.",
        r"x_i^\top Vx_L=0\quad\forall x_i,x_L\in\{z,z\pm\zeta\}",
        all((x.T * V * q)[0] == 0 for x in tokens for q in tokens),
    )
    yield Step(
        "Its norm is c, as large as we like. The proof has two upper bounds on |g| and reads them "
        "as one on |V|.",
        r"\|V\|_F=c",
        sp.simplify(sp.sqrt((V.T * V).trace()) - c) == 0,
    )
    yield Step(
        "At d = 2 the scores of V = -c zz' are all negative, so that the ReLU answers 0 for every c.",
        r"x_i^\top Vx_L=-c\,(x_i^\top z)(z^\top x_L)=-cu^4<0",
        all(score.is_negative is True for score in negative),
    )
