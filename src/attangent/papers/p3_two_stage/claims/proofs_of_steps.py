"""Exact proofs that steps, lemmas and definitions of P3 fail as printed.

Assumption 1 is taken at its order: tau_0 = lambda = 1/sqrt(log d) and L = d^p. mu = (1 + sqrt(2/pi))/sqrt(d)
is the mean of y <w*, x> over a P token x with label y.
"""

# sympy's functions declare wider types than they return
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportIndexIssue=false

from itertools import product
from typing import Any

from attangent.audit.proofs import Proof, Step


def taylor() -> Proof:
    """The square in the Taylor step is that of the difference."""
    import sympy as sp

    u, v, c = sp.symbols("u v c", real=True)
    term = u**2 / 8 + v**2 / 8 - (u + v) ** 2 / 16
    return Proof(
        (
            Step(
                "The terms of second order leave the square of the difference.",
                r"\frac{u^2}{8}+\frac{v^2}{8}-\frac{(u+v)^2}{16}=\frac{(u-v)^2}{16}",
                sp.expand(term - (u - v) ** 2 / 16) == 0,
            ),
            Step(
                "The paper has the square of the sum, which differs by uv/4.",
                r"\frac{(u+v)^2}{16}-\frac{(u-v)^2}{16}=\frac{uv}{4}\ne 0",
                sp.expand((u + v) ** 2 / 16 - (u - v) ** 2 / 16 - u * v / 4) == 0,
            ),
            Step(
                "At u = v = c the term vanishes for every c, so a small A bounds neither answer.",
                r"\frac{c^2}{8}+\frac{c^2}{8}-\frac{(2c)^2}{16}=0",
                sp.expand(term.subs({u: c, v: c})) == 0,
            ),
        )
    )


def bernstein() -> Proof:
    """Lemma 2 of Appendix D has the sum where the mean belongs."""
    import sympy as sp

    N = sp.symbols("N", integer=True, positive=True)
    right = sp.Rational(2, 3) * sp.log(2) / N
    return Proof(
        (
            Step(
                "Take X_i = 1 for all i: mu = 1, sigma = 0, c = 1. The sum is N.",
                r"\sum_{i\le N}X_i-\mu=N-1",
                sp.summation(1, (sp.Symbol("i"), 1, N)) - 1 == N - 1,
            ),
            Step(
                "With delta = 1/2 the printed bound is below 1/4 from N = 2 on.",
                r"\frac{2c\log(1/\delta)}{3N}=\frac{2\log 2}{3N}\le\frac{\log 2}{3}<\frac14",
                bool(sp.log(2) / 3 < sp.Rational(1, 4)) and sp.limit(right, N, sp.oo) == 0,
            ),
            Step(
                "At N = 2 the left-hand side is 1: the bound fails with probability 1. With the mean in "
                "place of the sum the left-hand side is 0.",
                r"1>\frac{\log 2}{3}",
                bool(right.subs(N, 2) < 1),
            ),
        )
    )


def active_tokens() -> Proof:
    """The mean that Hoeffding's inequality is applied without."""
    import sympy as sp

    d = sp.symbols("d", positive=True)
    s = sp.symbols("s", real=True, nonzero=True)
    both = sp.Heaviside(s) + sp.Heaviside(-s)
    return Proof(
        (
            Step(
                "Given W and the query, x and -x have the same law, and exactly one of them is active.",
                r"\mathbf 1(s\ge 0)+\mathbf 1(-s\ge 0)=1\;(s\ne 0)\;\Rightarrow\;P(\text{active})=\tfrac12",
                all(both.subs(s, value) == 1 for value in (-2, sp.Rational(1, 3))),
            ),
            Step(
                "The mean number of active tokens is half of the prompt, and Hoeffding bounds the distance "
                "to "
                "it.",
                r"E\,\|\mathbf 1(X_1^\top\widetilde W x_L)\|_1=\tfrac{L-1}{2}",
                sum(k * sp.binomial(9, k) for k in range(10)) / sp.Integer(2) ** 9 == sp.Rational(9, 2),
            ),
            Step(
                "At L = d^2 + 1 the mean exceeds every multiple of the printed bound.",
                r"\frac{d^2/2}{\sqrt{\log d}}\to\infty",
                sp.limit(d**2 / 2 / sp.sqrt(sp.log(d)), d, sp.oo) == sp.oo,
            ),
            Step(
                "With the constant 10 the mean is larger from d = 6 on.",
                r"\tfrac{36}{2}>10\sqrt{\log 6}",
                bool(10 * sp.sqrt(sp.log(6)) < 18) and not bool(sp.Rational(25, 2) > 10 * sp.sqrt(sp.log(5))),
            ),
        )
    )


def token_norms() -> Proof:
    """The mean square of a P token's norm exceeds the bound's square for every u <= 1/2."""
    import sympy as sp

    t = sp.symbols("t", real=True)
    g = sp.symbols("g", positive=True)
    half_normal = 2 * sp.integrate(t * sp.exp(-(t**2) / 2) / sp.sqrt(2 * sp.pi), (t, 0, sp.oo))
    square = 1 + g**2 * (1 + 2 * half_normal)  # g = gamma_0 = 1/sqrt(d)
    excess = sp.Poly(square - (sp.Rational(1, 2) + g) ** 2, g)
    return Proof(
        (
            Step(
                "The mean of |<w*, e>| for e ~ N(0, I/d) is sqrt(2/pi) gamma_0.",
                r"E|N(0,1)|=\sqrt{2/\pi}",
                sp.simplify(half_normal - sp.sqrt(2 / sp.pi)) == 0,
            ),
            Step(
                "A P token is gamma_0 y w* + e with y the sign of <w*, e>.",
                r"E|x|^2=\gamma_0^2+2\gamma_0 E|\langle w^*,e\rangle|+E|e|^2=1+\gamma_0^2(1+2\sqrt{2/\pi})",
                sp.simplify(square - (g**2 + 2 * g * g * half_normal + 1)) == 0,
            ),
            Step(
                "Its distance to the bound's square at u = 1/2 is a quadratic without real roots.",
                r"E|x|^2-(\tfrac12+\gamma_0)^2=\tfrac34-\gamma_0+2\sqrt{2/\pi}\,\gamma_0^2,\quad"
                r"1-6\sqrt{2/\pi}<0",
                bool(sp.discriminant(excess.as_expr(), g) < 0) and bool(excess.eval(0) > 0),
            ),
        )
    )


def gradient_labels() -> Proof:
    """One context token with label -1 turns the sign of the gradient."""
    import sympy as sp

    w = sp.symbols("w", positive=True)
    y, answer = sp.symbols("y y_L", real=True)
    loss = sp.log(1 + sp.exp(-answer * y * w / 2))  # one token and one query, both 1: f = y relu(w)/2
    true = sp.diff(loss, w)
    slope = -1 / (1 + sp.exp(answer * y * w / 2))
    return Proof(
        (
            Step(
                "The derivative has the factor y_i y_L.",
                r"\partial_w\log(1+e^{-y_Ly_iw/2})=-\frac{y_Ly_i}{2(1+e^{y_Ly_iw/2})}",
                sp.simplify(true - slope * answer * y / 2) == 0,
            ),
            Step(
                "The printed gradient lacks it: for y_i = -1, y_L = 1 it has the wrong sign.",
                r"\text{printed}=-\tfrac12\sigma<0<\tfrac12\sigma=\text{true}",
                sp.simplify(true.subs({y: -1, answer: 1}) + (slope / 2).subs({y: -1, answer: 1})) == 0,
            ),
        )
    )


def rows() -> Proof:
    """The gradient over V has two rows other than zero in a frame along z and zeta."""
    import sympy as sp

    d = 5
    z, zeta, *a = sp.symbols("z zeta a1 a2 a3", real=True)
    tokens = [
        sp.Matrix([z, sign * zeta, *([0] * (d - 2))]) for sign in (0, 1, -1)
    ]  # z, z + zeta, z - zeta along the first two axes
    gradient = sum((k * x * tokens[1].T for k, x in zip(a, tokens, strict=True)), sp.zeros(d, d))
    one, two, C = sp.symbols("R_1 R_2 C", positive=True)
    return Proof(
        (
            Step(
                "The gradient over V is a sum of terms x_i x_L' with x_i in the plane of z and zeta, so its "
                "rows from the third on vanish.",
                r"[\nabla_V]_i=0\quad(i\ge 3)",
                gradient[2:, :] == sp.zeros(d - 2, d),
            ),
            Step(
                "The larger of the two other rows has at least the norm K/sqrt(2).",
                r"R_1\ge R_2:\;2R_1^2-(R_1^2+R_2^2)=(R_1-R_2)(R_1+R_2)\ge 0",
                sp.expand(2 * one**2 - (one**2 + two**2) - (one - two) * (one + two)) == 0,
            ),
            Step(
                "K/sqrt(2) <= C K/sqrt(d) fails for d > 2 C^2.",
                r"\tfrac{1}{\sqrt2}\le\tfrac{C}{\sqrt d}\iff d\le 2C^2",
                sp.simplify(1 / sp.sqrt(2) - C / sp.sqrt(2 * C**2)) == 0,
            ),
        )
    )


def equation_21() -> Proof:
    """The answer of the noise weights has a mean, which a longer prompt does not average away."""
    import sympy as sp

    d = sp.symbols("d", positive=True)
    s = sp.symbols("s", real=True)

    def over_bound(power: int) -> Any:
        return half_slope(d) / sp.sqrt(d * sp.log(d) / d**power)

    return Proof(
        (
            Step(
                "(x, y) and (-x, -y) have the same law, and relu(s) - relu(-s) = s.",
                r"E[y\,\mathrm{relu}(s)]=\tfrac12E[y(\mathrm{relu}(s)-\mathrm{relu}(-s))]=\tfrac12E[ys]",
                all((sp.Max(s, 0) - sp.Max(-s, 0) - s).subs(s, value) == 0 for value in (-3, 0, 2)),
            ),
            Step(
                "Given W and x_L the mean answer is (mu/2) w*'W x_L, normal over W with the standard "
                "deviation tau_0 |x_L| mu/2.",
                r"\tfrac12\langle E[yx],Wx_L\rangle=\tfrac\mu2\,w^{*\top}Wx_L,\quad"
                r"\mu=(1+\sqrt{2/\pi})/\sqrt d",
                sp.simplify(half_slope(d) * 2 * sp.sqrt(d) - 1 - sp.sqrt(2 / sp.pi)) == 0,
            ),
            Step(
                "Divided by the printed bound it tends to infinity at L = d^3.",
                r"\frac{\mu/2}{\sqrt{d\log d/L}}\to\infty\quad(L=d^3)",
                sp.limit(over_bound(3), d, sp.oo) == sp.oo,
            ),
            Step(
                "It tends to 0 at L = d^2, where the printed bound is kept.",
                r"\frac{\mu/2}{\sqrt{d\log d/L}}\to 0\quad(L=d^2)",
                sp.limit(over_bound(2), d, sp.oo) == 0,
            ),
        )
    )


def half_slope(d: Any) -> Any:
    """Return mu/2 for a symbol d."""
    import sympy as sp

    return (1 + sp.sqrt(2 / sp.pi)) / (2 * sp.sqrt(d))


def equation_23() -> Proof:
    """The answer at W* grows, and the printed bound tends to 0."""
    import sympy as sp

    d, K = sp.symbols("d K", positive=True)
    log = sp.log(d)
    eps = sp.sqrt(d / d**2)  # tau_0 sqrt(d log d / L) with tau_0 = 1/sqrt(log d), L = d^2
    answer = d * sp.log(1 / eps) * half_slope(d) * 2 * half_slope(d)
    bound = sp.sqrt(d) * log * (K * log) ** sp.Rational(4, 3) * (d**2) ** sp.Rational(-1, 3)
    return Proof(
        (
            Step(
                "Half of the tokens are active, whatever W, so the mean answer at W* is d log(1/eps) mu^2/2.",
                r"d\log(1/\varepsilon)\tfrac{\mu}{2}\mu=\tfrac12(1+\sqrt{2/\pi})^2\log(1/\varepsilon)",
                sp.simplify(answer - (1 + sp.sqrt(2 / sp.pi)) ** 2 / 2 * sp.log(1 / eps)) == 0,
            ),
            Step(
                "It grows without bound.",
                r"\log(1/\varepsilon_{W,1})=\tfrac12\log d\to\infty\quad(L=d^2)",
                sp.limit(answer, d, sp.oo) == sp.oo,
            ),
            Step(
                "The printed bound tends to 0 for every K.",
                r"\frac{\sqrt d\log d}{L}\Big(\frac{K}{\lambda\tau_0}\Big)^{4/3}L^{2/3}="
                r"K^{4/3}(\log d)^{7/3}d^{-1/6}\to 0",
                sp.limit(bound, d, sp.oo) == 0,
            ),
        )
    )


def definition_5() -> Proof:
    """H_1 is empty in most draws, which is far from its mean."""
    import sympy as sp

    arc = sp.atan(sp.Rational(1, 5)) / (2 * sp.pi)  # r/u = 1/5

    def outside(d: int) -> bool:
        return bool(d * arc > sp.sqrt(sp.log(2 * d) / 2))

    return Proof(
        (
            Step(
                "A token belongs to H_1 with probability atan(r/u)/(2 pi), and a prompt has three different "
                "tokens, so H_1 is empty in at least 9 of 10 draws at r/u = 1/5.",
                r"P(H_1=\emptyset)\ge 1-\tfrac{3}{2\pi}\arctan\tfrac15>\tfrac{9}{10}",
                bool(1 - 3 * arc > sp.Rational(9, 10)),
            ),
            Step(
                "An empty H_1 is as far from the mean as the mean itself. At L = d^2 that exceeds the "
                "printed "
                "distance from d = 49 on.",
                r"\tfrac{d^2}{2\pi}\arctan\tfrac15>\sqrt{\tfrac12 d^2\log(2d)}\quad(d\ge 49)",
                outside(49) and not outside(48) and outside(10**6),
            ),
            Step(
                "The printed probability of that is at most 1/d.",
                r"\tfrac{9}{10}>\tfrac1d\quad(d\ge 2)",
                bool(sp.Rational(9, 10) > sp.Rational(1, 2)),
            ),
        )
    )


def equation_18() -> Proof:
    """A token that tells z + zeta from z - zeta is a class of tokens."""
    import sympy as sp

    d, C, t = sp.symbols("d C t", positive=True)
    ratio = 1 / sp.log(d)  # r/u
    return Proof(
        (
            Step(
                "x'V z and x'V zeta are independent normal with standard deviations in the ratio u to r, so "
                "a "
                "token is in the set with probability (2/pi) atan(r/u), whatever L.",
                r"P(|x^\top\widetilde Vz|\le|x^\top\widetilde V\zeta|)=1-\tfrac2\pi\arctan\tfrac ur"
                r"=\tfrac2\pi\arctan\tfrac ru",
                sp.simplify(sp.diff(sp.atan(t) + sp.atan(1 / t), t)) == 0 and 2 * sp.atan(1) == sp.pi / 2,
            ),
            Step(
                "With r/u = 1/log d that is more than the 1/d that the proof allows.",
                r"d\cdot\tfrac2\pi\arctan\tfrac{1}{\log d}\to\infty",
                sp.limit(d * 2 / sp.pi * sp.atan(ratio), d, sp.oo) == sp.oo,
            ),
            Step(
                "All copies of z are then in the set, L/2 on average. The printed number is a vanishing "
                "fraction of that for every constant.",
                r"\frac{C\,rL\sqrt{\log d}/u}{L/2}=\frac{2C}{\sqrt{\log d}}\to 0",
                sp.limit(2 * C * ratio * sp.sqrt(sp.log(d)), d, sp.oo) == 0,
            ),
        )
    )


def definition_6() -> Proof:
    """Equation 24 has no solution V* unless it treats the three tokens alike."""
    import sympy as sp

    z, zeta, row = sp.symbols("z zeta v", real=True)
    values = (1, -2, 0)
    solvable = {(a, b, c) for a, b, c in product(values, repeat=3) if 2 * a == b + c}
    return Proof(
        (
            Step(
                "The tokens are z, z + zeta and z - zeta, and 2z is the sum of the other two. So is 2z'V*.",
                r"2z^\top V^*=(z+\zeta)^\top V^*+(z-\zeta)^\top V^*",
                sp.expand(2 * z * row - (z + zeta) * row - (z - zeta) * row) == 0,
            ),
            Step(
                "Equation 24 gives each of the three rows one of the factors 1, -2, 0 (times one vector). Of "
                "all 27 choices only those with three equal factors satisfy the identity.",
                r"2a=b+c,\;a,b,c\in\{1,-2,0\}\Rightarrow a=b=c",
                solvable == {(value, value, value) for value in values},
            ),
        )
    )


def lemma_6() -> Proof:
    """The copies of one token change sign together."""
    import sympy as sp

    L, C = sp.symbols("L C", positive=True)
    a = sp.symbols("a", positive=True)
    return Proof(
        (
            Step(
                "The score of the token z is normal over the noise weights. With a probability that does not "
                "depend on L, some signal of norm K/lambda turns its sign.",
                r"P(|N(0,1)|\le a)=\mathrm{erf}(a/\sqrt2)>0,\quad a=K/(\lambda\tau_0)",
                bool(sp.erf(1 / sp.sqrt(2)) > sp.Rational(1, 2))
                and sp.diff(sp.erf(a / sp.sqrt(2)), a).is_positive,
            ),
            Step(
                "All copies of z change sign with it: L/2 on average, more than C L^(2/3) from L = 8 C^3 on.",
                r"\tfrac L2>C\,L^{2/3}\iff L>8C^3",
                sp.simplify((L / 2 - C * L ** sp.Rational(2, 3)).subs(L, 8 * C**3)) == 0,
            ),
            Step(
                "The ratio to the printed bound grows without end.",
                r"\frac{L/2}{L^{2/3}}\to\infty",
                sp.limit(L ** sp.Rational(1, 3) / 2, L, sp.oo) == sp.oo,
            ),
        )
    )


def lemma_7() -> Proof:
    """Stage 2 forgets the noise weights of stage 1."""
    import sympy as sp

    d, u, r = sp.symbols("d u r", positive=True)
    k, s = sp.symbols("k s", positive=True)
    eps = (u + r) ** 2 / sp.sqrt(d)  # L = d^2
    rates = eps * sp.sqrt(r) / sp.sqrt(sp.log(d))  # sqrt(eta_2/eta_1) = lambda eps sqrt(r)
    return Proof(
        (
            Step(
                "Stage 2 lasts log^2(1/eps)/eps^2 decay times, so the fraction k of the old weights tends "
                "to 0 "
                "faster than every power of d.",
                r"k\le\exp(-\log^2(1/\varepsilon)/\varepsilon^2)\to 0",
                sp.limit(sp.log(sp.sqrt(d)) ** 2 * d, d, sp.oo) == sp.oo,
            ),
            Step(
                "Old and new scores have the correlation rho = k/sqrt(k^2 + s^2), which tends to 0, and "
                "differ in sign with probability arccos(rho)/pi.",
                r"\rho\to 0,\quad\arccos(0)/\pi=\tfrac12",
                sp.limit(k / sp.sqrt(k**2 + s**2), k, 0) == 0 and sp.acos(0) / sp.pi == sp.Rational(1, 2),
            ),
            Step(
                "The printed fraction tends to 0.",
                r"\sqrt{\eta_2/\eta_1}+\sqrt{\log d/L}=\lambda\varepsilon\sqrt r+\sqrt{\log d}/d\to 0",
                sp.limit(rates + sp.sqrt(sp.log(d)) / d, d, sp.oo) == 0,
            ),
        )
    )


def trace_and_norm() -> Proof:
    """Tr W <= |W| fails for the identity."""
    import sympy as sp

    W = sp.eye(2)
    d = sp.symbols("d", positive=True)
    return Proof(
        (
            Step(
                "The identity of size 2 has the trace 2 and the norm sqrt(2).",
                r"\mathrm{Tr}(I_2)=2>\sqrt2=\sqrt{\mathrm{Tr}(I_2^\top I_2)}",
                bool(W.trace() > sp.sqrt((W.T * W).trace())),
            ),
            Step(
                "By Cauchy-Schwarz the right factor is sqrt(d), attained by the identity.",
                r"\mathrm{Tr}(W)\le\sqrt d\,\|W\|_F",
                sp.simplify(d - sp.sqrt(d) * sp.sqrt(d)) == 0,
            ),
            Step(
                "Both displays bound a trace from above, which orders nothing: W = 0 and V = I/4 satisfy "
                "them "
                "with the bounds 2 and 1, and Tr W < Tr V.",
                r"\mathrm{Tr}(0)=0\le 2,\;\mathrm{Tr}(\tfrac14I_2)=\tfrac12\le 1,\;0<\tfrac12",
                bool(sp.zeros(2, 2).trace() < (W / 4).trace() <= 1),
            ),
        )
    )


def indicator_product() -> Proof:
    """The indicator of a product is not the product of indicators."""
    a, b = (-1, 1), (-1, 1)
    product_of_rows = sum(x * y for x, y in zip(a, b, strict=True))
    indicators = sum((x >= 0) * (y >= 0) for x, y in zip(a, b, strict=True))
    return Proof(
        (
            Step(
                "For numbers: the product of two negative factors is active, neither factor is.",
                r"\mathbf 1((-1)(-1))=1\ne 0=\mathbf 1(-1)\,\mathbf 1(-1)",
                int((-1) * (-1) >= 0) == 1 and int(-1 >= 0) ** 2 == 0,
            ),
            Step(
                "For vectors the right-hand side counts: it is no indicator.",
                r"a=b=(-1,1):\;\mathbf 1(a^\top b)=1,\;\mathbf 1(a)^\top\mathbf 1(b)=1;\;"
                r"a=b=(1,1):\;\mathbf 1(a)^\top\mathbf 1(b)=2",
                product_of_rows >= 0 and indicators == 1 and sum((1 >= 0) * (1 >= 0) for _ in a) == 2,
            ),
        )
    )


def descent() -> Proof:
    """The contradiction of Appendices F.2 and G.1 rests on two steps that fail at the start."""
    import sympy as sp

    B, R = sp.symbols("B R", positive=True)
    return Proof(
        (
            Step(
                "The proof bounds -<W, W*> by -(R + B) B. At W = 0 the left-hand side is 0.",
                r"-\langle 0,W^*\rangle=0>-(R+B)B",
                (-(R + B) * B).is_negative is True,
            ),
            Step(
                "From |W - W*| <= R follows the other direction.",
                r"\langle W,W^*\rangle\ge B^2-RB\;\Rightarrow\;-\langle W,W^*\rangle\le-(B-R)B",
                sp.expand(-(B - R) * B + (R + B) * B - 2 * R * B) == 0,
            ),
            Step(
                "The start W_0 -> 0 is at the distance B from W*, so that |W_0 - W*| <= R << B never holds.",
                r"\|0-W^*\|_F=\|W^*\|_F=B",
                sp.sqrt(B**2) == B,
            ),
        )
    )


def norm_from_answer() -> Proof:
    """A small answer does not bound V."""
    import sympy as sp

    c = sp.symbols("c", positive=True)
    V = sp.diag(0, 0, c)
    z = sp.Matrix([1, 0, 0])
    zeta = sp.Matrix([0, sp.Rational(1, 10), 0])
    tokens = (z, z + zeta, z - zeta)
    return Proof(
        (
            Step(
                "V = c e_3 e_3' with z, zeta along the first two axes answers every prompt by 0.",
                r"x_i^\top Vx_L=0\quad\forall x_i,x_L\in\{z,z\pm\zeta\}",
                all((x.T * V * q)[0] == 0 for x in tokens for q in tokens),
            ),
            Step(
                "Its norm is c, as large as we like. The proof has two upper bounds on |g| and reads them "
                "as one "
                "on |V|.",
                r"\|V\|_F=c",
                sp.simplify(sp.sqrt((V.T * V).trace()) - c) == 0,
            ),
        )
    )
