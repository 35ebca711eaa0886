"""Exact proofs for P4: what is misprinted, which remarks fail, and why two statements hold."""

# sympy's functions declare wider types than they return
# pyright: reportArgumentType=false

from collections.abc import Iterator

import sympy as sp

from attangent.audit import Step
from attangent.papers.common.exact import proof


@proof()
def footnote_1() -> Iterator[Step]:
    """(17) has |Zbar|^2 where (61) with (44) has |Zbar|."""
    H, K, Z, zeta, gap, gamma = sp.symbols("H K Z zeta_0 Delta gamma", positive=True)
    alpha = sp.sqrt(2 * K) * 4 * Z * sp.sqrt(gap) / (gamma * zeta)
    in_61 = 2 * gamma * H * alpha
    in_17 = 8 * sp.sqrt(2) * H * sp.sqrt(K) * Z**2 / zeta * sp.sqrt(gap)
    yield Step(
        "With the alpha of (44), the first term of (61) has |Zbar| to the first power.",
        r"2\gamma H\alpha=8\sqrt2H\sqrt K\frac{\|\bar Z\|}{\zeta_0}\sqrt{\Delta^{(0)}}",
        sp.simplify(in_61 - in_17 / Z) == 0,
    )
    yield Step(
        "(17) prints |Zbar|^2 there, so this term is smaller as soon as |Zbar| < 1.",
        r"\frac{2\gamma H\alpha}{8\sqrt2H\sqrt K\|\bar "
        r"Z\|^2\sqrt{\Delta^{(0)}}/\zeta_0}=\frac{1}{\|\bar Z\|}>1",
        sp.simplify(in_61 / in_17 - 1 / Z) == 0 and bool((1 / Z).subs(Z, sp.Rational(1, 2)) > 1),
    )


@proof("A becomes")
def equation_26() -> Iterator[Step]:
    """Two equal features in the prompt: A tends to the identity, Z^+ Z is a projection."""
    tau = sp.symbols("tau", positive=True)
    Z = sp.Matrix([[1, 1]])
    A = (Z.T * Z + tau * sp.eye(2)).inv() * (Z.T * Z + tau * sp.eye(2))
    pseudo = Z.pinv() * Z
    yield Step(
        "On the prompt's own tokens A is the identity for every tau > 0, hence in the limit.",
        r"(Z^\top Z+m\tau I)^{-1}(Z^\top Z+m\tau I)=I",
        sp.simplify(A) == sp.eye(2),
    )
    yield Step(
        "For Z = (1, 1), with N = 2 > m = 1, the printed matrix is a projection of rank 1.",
        r"Z^+Z=\tfrac12\begin{pmatrix}1&1\\1&1\end{pmatrix}\ne I",
        pseudo == sp.Matrix([[1, 1], [1, 1]]) / 2 and pseudo.rank() == 1,
    )
    yield Step(
        "Without noise y = (lambda, lambda), and both give the same labels: (26) itself holds.",
        r"y^\top Z^+Z=y^\top",
        sp.Matrix([[3, 3]]) * pseudo == sp.Matrix([[3, 3]]),
    )


@proof("y_best is best")
def nearness() -> Iterator[Step]:
    """The risk of ridge regression is least at the ridge m tau, that of the trained transformer."""
    a, s, v = sp.symbols("alpha s v", positive=True)
    risk = (a**2 + v * s) / (
        a + s
    ) ** 2  # one direction: feature energy s, label noise v = m tau, E lambda^2 = 1
    slope = sp.diff(risk, a)
    yield Step(
        "In a direction with feature energy s, ridge regression with alpha has bias alpha/(alpha + "
        "s) and variance v s/(alpha + s)^2. The noise of a label has the variance v = m tau.",
        r"R(\alpha)=\frac{\alpha^2+v s}{(\alpha+s)^2},\quad R'(\alpha)=\frac{2s(\alpha-v)}{(\alpha+s)^3}",
        sp.simplify(slope - 2 * s * (a - v) / (a + s) ** 3) == 0,
    )
    yield Step(
        "The least risk is at alpha = m tau, the ridge of y*, for every N. y_best has the ridge N "
        "tau and is worse unless N = m.",
        r"R(N\tau)-R(m\tau)=\frac{s(N\tau-m\tau)^2}{(m\tau+s)(N\tau+s)^2}\ge 0",
        sp.simplify(risk - risk.subs(a, v) - s * (a - v) ** 2 / ((v + s) * (a + s) ** 2)) == 0,
    )


@proof("N > m overfits")
def fitting() -> Iterator[Step]:
    """For N > m the transformer does not overfit: its ridge is the right one."""
    a, s, v, y = sp.symbols("alpha s v y", positive=True)
    norm = sp.sqrt(s) * y / (a + s)
    risk = (a**2 + v * s) / (a + s) ** 2
    yield Step(
        "The norm of the estimate falls with the ridge, so for N < m the transformer's is the "
        "smaller one, as printed.",
        r"\frac{d}{d\alpha}\frac{\sqrt s\,y}{\alpha+s}=-\frac{\sqrt s\,y}{(\alpha+s)^2}<0",
        sp.simplify(sp.diff(norm, a) + sp.sqrt(s) * y / (a + s) ** 2) == 0,
    )
    yield Step(
        "A label is <lambda, z> + lambda'eps with E|lambda|^2 = m: its noise level is m tau, which "
        "the transformer's ridge m tau neither under- nor overestimates. The larger ridge N tau of "
        "y_best has the larger risk.",
        r"R(2m\tau)-R(m\tau)=\frac{s(m\tau)^2}{(m\tau+s)(2m\tau+s)^2}>0",
        sp.simplify((risk.subs(a, 2 * v) - risk.subs(a, v)) - s * v**2 / ((v + s) * (2 * v + s) ** 2)) == 0,
    )


@proof("H")
def heads() -> Iterator[Step]:
    """zeta_0 / H does not fall as heads are added, by concavity of the least eigenvalue."""
    half = sp.Rational(1, 2)
    columns = [sp.Matrix([1, 0]), sp.Matrix([0, 1]), sp.Matrix([half, half])]  # attention of three heads
    M = [column * column.T for column in columns]
    H = len(M)

    def least(matrix: sp.Matrix) -> sp.Expr:
        return min(matrix.eigenvals())

    smallest = least(M[0] + M[1] + M[2]) / sp.Integer(H)
    left_out = [
        least(sum((m for j, m in enumerate(M) if j != h), sp.zeros(2, 2))) / (H - 1) for h in range(H)
    ]
    h, Z, K, gamma, zeta = sp.symbols("H Z K gamma zeta_0", positive=True)
    L = sp.sqrt(2) * h * Z**2 * gamma**2 / K
    yield Step(
        "For large gamma the constant of (17) is sqrt(2) H |Zbar|^2 gamma^2 / K, so the guaranteed "
        "fall per step is a multiple of zeta_0/H.",
        r"\frac{\gamma^2}{L}\frac{\zeta_0}{2K}=\frac{\zeta_0}{2\sqrt2H\|\bar Z\|^2}",
        sp.simplify(gamma**2 / L * zeta / (2 * K) - zeta / (2 * sp.sqrt(2) * h * Z**2)) == 0,
    )
    yield Step(
        "B_kB_k'/H is the mean over the heads of the same with one head left out, and the least "
        "eigenvalue is concave, so zeta_0/H is at least the mean of the others. For Zbar = I and the "
        "attention (1, 0), (0, 1), (1/2, 1/2), a limit of softmaxes:",
        r"\tfrac{\zeta_0(3)}{3}=\tfrac13\ge\tfrac13\left(\tfrac12+2\cdot\tfrac{3-\sqrt5}{8}\right)"
        r"=\tfrac{5-\sqrt5}{12}",
        bool(smallest == sp.Rational(1, 3)) and sp.simplify(sum(left_out) / H - (5 - sp.sqrt(5)) / 12) == 0,
    )
    yield Step(
        "On average it grows here from H = 2 to H = 3: a larger H does not slow the guarantee down.",
        r"\tfrac13>\tfrac{5-\sqrt5}{12}",
        bool(smallest > (5 - sp.sqrt(5)) / 12),
    )


@proof()
def lemma_5() -> Iterator[Step]:
    """One labelled and one unlabelled token of one feature: the noise of the second label is missing."""
    tau, a = sp.symbols("tau a", real=True)
    z1, z2 = sp.Integer(1), sp.Integer(2)  # m = 1, N = 1, K = 2
    true = (a * z1 - z2) ** 2 + tau * a**2 + tau  # E (a y_1 - y_2)^2 with E lambda^2 = 1
    centre = z1 * z2 / (z1**2 + tau)
    printed = (z1**2 + tau) * (a - centre) ** 2 + z2**2 - (z1 * z2) ** 2 / (z1**2 + tau)
    yield Step(
        "For m = N = 1, K = 2, features 1 and 2, the squared error on the token without a label is",
        r"E(ay_1-y_2)^2=(a-2)^2+\tau a^2+\tau",
        sp.expand(true - ((a - 2) ** 2 + tau * a**2 + tau)) == 0,
    )
    yield Step(
        "The printed form with its L* lacks m tau, the noise of that label, whatever a.",
        r"\text{true}-\text{printed}=\tau=m\tau",
        sp.simplify(true - printed - tau) == 0,
    )


@proof("any alpha and gamma")
def lemma_10() -> Iterator[Step]:
    """With gamma = alpha = t the curvature grows like t^4, the printed constant like t^(7/2)."""
    q, w, e, tau, t = sp.symbols("q w e tau t", positive=True)  # w = gamma alpha; e: |z_1 - z_2|^2
    part = 1 / (1 + sp.exp(-2 * q))  # attention on the first token; the second derivative vanishes at 0
    slope = sp.diff(part, q).subs(q, 0)
    bend = sp.diff(part, q, 2).subs(q, 0)
    K, H, Z, A, f, N = sp.symbols("K H Z A f N", positive=True)
    smooth = 2 * ((2 * Z**2 * t * (2 * H * t**2 + A)) ** 2 / K + t**4 * H**2 * Z**4 / K**2)
    printed = smooth + 8 * t * f * Z * 4 * K * t**2 * ((H * t**2) ** 2 + 4 * N * (H * t**2 + A) ** 2)
    curvature = 2 * (w * slope) ** 2 * (e + 2 * tau) / K
    yield Step(
        "Take one head, N = 2, tokens (1, 0), (-1, 0), (0, 1), all alpha_k = alpha and Q = q E_11. "
        "The first two tokens have the logits (q, -q) and (-q, q), the third has equal ones. At q = "
        "0 the attention changes by",
        r"s'(0)=\pm\tfrac12(1,-1),\quad s''(0)=0",
        slope == sp.Rational(1, 2) and bend == 0,
    )
    yield Step(
        "l is (1/2K) sum_k |Zbar(gamma alpha s_k - a_k)|^2 up to a constant, with Zbar^2 = "
        "Z'Z + m tau I (tau for m tau below). Its second derivative in q at 0 is",
        r"\frac{\gamma^2\alpha^2}{K}\,2\cdot\tfrac14(1,-1)\bar Z^2(1,-1)^\top"
        r"=\frac{\gamma^2\alpha^2(|z_1-z_2|^2+2\tau)}{2K}",
        sp.simplify(curvature - w**2 * (e + 2 * tau) / (2 * K)) == 0,
    )
    yield Step(
        "The Lipschitz constant is at least that. At gamma = alpha = t its square has the degree 8 "
        "in t; all terms of L^2 of (61) together have the degree 7, so L is too small for large t.",
        r"\deg_t\Big(\tfrac{t^4(|z_1-z_2|^2+2\tau)}{2K}\Big)^2=8>7=\deg_t L^2",
        sp.degree(sp.expand(curvature.subs(w, t**2) ** 2), t) == 8 and sp.degree(sp.expand(printed), t) == 7,
    )


@proof()
def equation_33() -> Iterator[Step]:
    """With one feature and one labelled token the printed delta misses a factor z."""
    z, tau = sp.symbols("z tau", positive=True)
    A = (z * z + tau) / (z * z + tau)
    printed = (z + tau) / (z * z + tau)
    yield Step(
        "For m = N = 1 the target of (34) is 1, since Z'z_k + m tau = z^2 + tau.",
        r"\frac{z^2+\tau}{z^2+\tau}=1",
        sp.simplify(A) == 1,
    )
    yield Step(
        "(33) prints z_k for Z'z_k, which gives another target unless z = 1.",
        r"1-\frac{z+\tau}{z^2+\tau}=\frac{z(z-1)}{z^2+\tau}",
        sp.simplify(A - printed - z * (z - 1) / (z**2 + tau)) == 0,
    )


@proof()
def young() -> Iterator[Step]:
    """Lemma 3 is a sum of squares."""
    x = sp.symbols("x1:5", real=True)
    gap = 4 * sum(v**2 for v in x) - sum(x) ** 2
    squares = sum((x[i] - x[j]) ** 2 for i in range(4) for j in range(i + 1, 4))
    yield Step(
        "For l = 4, in each coordinate:",
        r"l\sum_i x_i^2-\Big(\sum_i x_i\Big)^2=\sum_{i<j}(x_i-x_j)^2\ge 0",
        sp.expand(gap - squares) == 0,
    )
