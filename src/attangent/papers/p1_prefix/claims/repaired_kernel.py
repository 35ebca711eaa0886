"""Definition G.1, Lemmas 3.1, I.6, H.9, H.10 and K.1, repaired."""

import math

import torch
from torch import Tensor
from torch.func import jacrev

from attangent._core.random import generator
from attangent.audit import Conclusion, Finding, Hypothesis, Settings, claim
from attangent.kernels import unit_data
from attangent.kernels.data import Init
from attangent.papers.p1_prefix.claims.prefix_regression import PrefixRegression
from attangent.papers.p1_prefix.network import PrefixNetwork


@claim(
    "P1/definition-g.1-repaired",
    place="Appendix G, Definition G.1, repaired",
    title="The NTK with the prefix as values",
    derivation="""By Claim F.12, dF_k/dw_r = G[(k,i),r] x_i + A[i,r] e_k. Multiply two such gradients, sum
        over r and divide by m; a_r^2 = 1 gives the last term.""",
    plain="The kernel with the prefix as values is the Gram matrix of the gradients.",
    sharp="sharp: an identity",
    quick={"n": 5, "d": 3, "sigma": 1.0, "init": "independent"},
    sizes=({"m": 64}, {"m": 256}),
)
def gram(settings: Settings, seed: int) -> Finding:
    """K[(k,i),(l,j)] = H[(k,i),(l,j)] + (x_il C[(k,i),j] + x_jk C[(l,j),i] + delta_kl (PP')_ij) / m is J
    J'/m, the Gram matrix of the gradients. Here P = m S, A = P o a, G[(k,i),r] = m S_ir (beta_kr - <beta_k,
    S_i>) and C = G A'.
    """
    p = PrefixRegression.draw(settings, seed)
    a = p.network.a[0]
    m = p.network.m

    def forward(W: Tensor) -> Tensor:
        return m * (torch.softmax(p.X @ W, dim=1) @ (W * a).T).T

    J = jacrev(forward)(p.network.W).reshape(p.size, -1)
    true = J @ J.T / m
    gap = ((written_out(p.X, p.network.W, a) - true).norm() / true.norm()).item()
    return Finding(conclusions=(Conclusion("relative distance from J J'/m", "<=", 1e-10, gap),))


def written_out(X: Tensor, W: Tensor, a: Tensor) -> Tensor:
    """K of the statement, (dn, dn), with index k n + i."""
    (d, m) = W.shape
    n = len(X)
    S = torch.softmax(X @ W, dim=1)
    beta = W * a
    P = m * S
    G = torch.einsum("ir,kir->kir", P, beta[:, None, :] - (S @ beta.T).T[:, :, None])
    C = torch.einsum("kir,jr->kij", G, P * a)
    H = torch.einsum("kir,ljr,ij->kilj", G, G, X @ X.T)
    crossed = torch.einsum("il,kij->kilj", X, C)
    values = torch.einsum("kl,ij->kilj", torch.eye(d, dtype=X.dtype), P @ P.T)
    return ((H + crossed + crossed.permute(2, 3, 0, 1) + values) / m).reshape(d * n, d * n)


@claim(
    "P1/lemma-3.1-repaired",
    place="Section 3.2, Lemma 3.1 (G.3), repaired",
    title="The kernel changes by at most nd times the bound on an entry",
    derivation="""A move by R changes log S_r by at most 2R, a_r w_r by R and mu by R + 2R(omega + R), so
        G[(k,i),r] changes by at most G' R and is at most G. An entry of H is x_i.x_j times the mean over r
        of a product of two of them; the matrix has (nd)^2 entries.""",
    plain="The kernel changes by at most nd times the bound on an entry.",
    sharp="sharp in n and d: equal points attain nd; the constant is 10 to 100 times too large",
    quick={"n": 4, "d": 4, "sigma": 0.03, "init": "independent", "R": 0.0099, "factor": 1.0},
    sizes=({"m": 256}, {"m": 1024}),
)
def frobenius(settings: Settings, seed: int) -> Finding:
    """Let |<w_r, x_i>| <= b, |w_r| <= omega, |x_i| <= 1 and let every prefix vector move by at most R. Then
    each entry of H changes by at most 2 R G G' with G = 2 (omega + R) e^(2(b+R)) and G' = (6 (omega + R) +
    2) e^(2(b+R)), and |H(W) - H(W~)|_F <= 2 R nd G G'.
    """
    p = PrefixRegression.draw(settings, seed)
    U = torch.randn(p.network.W.shape, generator=generator(seed, "move"), dtype=torch.float64)
    moved = p.network.with_weights(p.network.W + settings.R * U / U.norm(dim=0))
    X = p.X[:1].repeat(settings.n, 1)
    reach = p.network.W.norm(dim=0).max().item() + settings.R
    grown = math.exp(2 * ((p.X @ p.network.W).abs().max().item() + settings.R))
    entry = 2 * settings.R * (2 * reach * grown) * ((6 * reach + 2) * grown) * settings.factor
    apart, equal = (
        moved.kernel(points, kind="paper") - p.network.kernel(points, kind="paper") for points in (p.X, X)
    )
    of_equal_points = equal.norm().item() / (p.size * entry)
    return Finding(
        hypotheses=(p.in_unit_ball[0], Hypothesis("largest move R", "<=", 0.01, settings.R)),
        conclusions=(
            Conclusion("largest change of an entry / bound", "<=", 1.0, apart.abs().max().item() / entry),
            Conclusion("|H(W) - H(W~)|_F / bound", "<=", 1.0, apart.norm().item() / (p.size * entry)),
            Conclusion("|H(W) - H(W~)|_F / bound, all points equal", "<=", 1.0, of_equal_points),
        ),
    )


@claim(
    "P1/lemma-i.6-repaired",
    place="Appendix I.5, Lemma I.6, repaired",
    title="The loss at initialisation, with its constant",
    derivation="""Given W, the signs are independent, so E|F(0,x)|^2 = m^2 sum_r S_r^2 |w_r|^2, which tends to
        m E[e^(2w.x) |w|^2] / E[e^(w.x)]^2. Shift w by 2 s^2 x: E[e^(2w.x) |w|^2] = e^(2 s^2 |x|^2) (d s^2 + 4
        s^4 |x|^2), and E[e^(w.x)]^2 = e^(s^2 |x|^2).""",
    plain="The first loss is of order sqrt(nmd) with independent signs, and at most sqrt(n) with pairs.",
    sharp="sharp: an asymptotic equality",
    quick={"n": 8, "d": 4, "sigma": 0.7, "draws": 100, "tolerance": 0.25},
    sizes=({"m": 1024}, {"m": 4096}),
)
def first_loss(settings: Settings, seed: int) -> Finding:
    """For independent signs, E|F(0)|_F^2 = (1 + o(1)) m sum_i e^(s^2 |x_i|^2) s^2 (d + 4 s^2 |x_i|^2). For
    pairs of opposite sign, F(0) = 0 and |F(0) - Y|_F <= sqrt n.
    """
    X, Y = unit_data(settings.n, settings.d, settings.d, seed)
    s2 = settings.sigma**2
    squares = X.square().sum(dim=1)
    stated = settings.m * (torch.exp(s2 * squares) * s2 * (settings.d + 4 * s2 * squares)).sum().item()

    def start(init: Init, draw: int) -> Tensor:
        return PrefixNetwork(settings.d, settings.m, settings.sigma, init, 1000 * seed + draw).forward(X)

    mean = sum(start("independent", i).square().sum().item() for i in range(settings.draws)) / settings.draws
    pairs = (start("symmetric", 0) - Y).norm().item()
    return Finding(
        hypotheses=(Hypothesis("largest |y|", "<=", 1 + 1e-12, Y.norm(dim=1).max().item()),),
        conclusions=(
            Conclusion("|mean of |F(0)|^2 / formula - 1|", "<=", settings.tolerance, abs(mean / stated - 1)),
            Conclusion(
                "|F(0) - Y|_F / sqrt n, pairs of opposite sign", "<=", 1 + 1e-9, pairs / math.sqrt(settings.n)
            ),
        ),
        numbers={"mean of |F(0)|^2 / formula": mean / stated},
    )


def _is_its_formula(what: str, measured: Tensor, stated: Tensor) -> Conclusion:
    distance = ((measured - stated).norm() / stated.norm()).item()
    return Conclusion(f"relative distance of the {what} from its formula", "<=", 1e-9, distance)


@claim(
    "P1/lemma-h.10-repaired",
    place="Appendix H.6, Lemma H.10, part 1, repaired",
    title="Sum of a step over the prefix",
    derivation="""sum_r <v_kr, S_j> S_jr = <beta_k, S_j> - <beta_k, S_j> = 0, so only the term m a_r S_jr e_k
        of Claim F.12 is left. The second bound is Hoeffding's inequality for the signs given W, with a union
        bound over j.""",
    plain="""The sum of a step over the prefix is m sum_j <a, S_j> <R_j, x_i>, of order sqrt(nm) at
        initialisation.""",
    sharp="sharp in m: equality for one point; Hoeffding loses sqrt(log n)",
    ours=("the bound on <a, S_j> at initialisation, where the signs are independent of W",),
    quick={"n": 6, "d": 4, "sigma": 1.0, "init": "independent", "delta": 0.001},
    sizes=({"m": 1024}, {"m": 16384}),
)
def step_sum(settings: Settings, seed: int) -> Finding:
    """<Delta W'x_i, 1> = m sum_j <a, S_j> <R_j, x_i>, which is at most m sqrt(n) max_j |<a, S_j>| |R|_F. With
    probability 1 - delta, |<a, S_j>| <= sqrt(2 log(2n/delta)) |S_j| for all j.
    """
    p = PrefixRegression.draw(settings, seed)
    S = torch.softmax(p.X @ p.network.W, dim=1)
    R = p.residual
    signs = S @ p.network.a[0]
    sums = (p.X @ p.network.gradient(p.X, p.Y)).sum(dim=1)
    stated = p.network.m * (p.X @ R.T) @ signs
    most = p.network.m * math.sqrt(settings.n) * signs.abs().max() * R.norm()
    hoeffding = math.sqrt(2 * math.log(2 * settings.n / settings.delta)) * S.norm(dim=1)
    largest_sign_sum = (signs.abs() / hoeffding).max().item()
    return Finding(
        hypotheses=(p.in_unit_ball[0],),
        conclusions=(
            _is_its_formula("sum", sums, stated),
            Conclusion("largest |sum| / bound", "<=", 1.0, (sums.abs().max() / most).item()),
            Conclusion("largest |<a, S_j>| / (sqrt(2 log(2n/delta)) |S_j|)", "<=", 1.0, largest_sign_sum),
        ),
    )


@claim(
    "P1/lemma-h.9-repaired",
    place="Appendix H.6, Lemma H.9, part 1, repaired",
    title="Change of the normaliser alpha",
    derivation="""alpha_i(t+1) - alpha_i(t) = -eta sum_r u_ir <Delta w_r, x_i> + O(eta^2); insert Claim F.12.
        Hoeffding's bound for b given W is sqrt(2 log(2 n^2/delta)) (sum_r u_ir^2 S_jr^2)^(1/2), with a union
        bound over i, j.""",
    plain="A step changes alpha by order eta sqrt(nm) at initialisation.",
    sharp="sharp in m: the change is of order sqrt(m); the factor sqrt(n) is not known to be",
    ours=("at initialisation, where the signs are independent of W",),
    quick={"n": 6, "d": 4, "sigma": 0.5, "init": "independent", "delta": 0.001},
    sizes=({"m": 1024}, {"m": 16384}),
)
def normaliser(settings: Settings, seed: int) -> Finding:
    """To first order a step changes alpha_i by -eta m sum_j (x_i.x_j <R_j, c_ij - s_ij mu_j> + b_ij <R_j,
    x_i>), with s_ij = sum_r u_ir S_jr, c_ij = sum_r u_ir S_jr beta_r, b_ij = sum_r a_r u_ir S_jr and mu_j =
    sum_r S_jr beta_r. This is at most eta m sqrt(n) max_j (|c_ij - s_ij mu_j| + |b_ij|) |R|_F. For
    independent signs c, b and mu are sums with random signs, of order m^(-1/2), so the change is of order eta
    sqrt(nm).
    """
    p = PrefixRegression.draw(settings, seed)
    X = p.X
    R = p.residual
    a = p.network.a[0]
    beta = p.network.beta
    u = torch.exp(X @ p.network.W)
    S = torch.softmax(X @ p.network.W, dim=1)
    change = (u * (X @ p.network.gradient(X, p.Y))).sum(dim=1)
    both = u[:, None, :] * S[None, :, :]  # u_ir S_jr as (i, j, r)
    s = both.sum(dim=2)
    b = both @ a
    c = both @ beta.T
    shifted = c - s[:, :, None] * (S @ beta.T)
    parts = (X @ X.T) * (shifted * R).sum(dim=2) + b * (X @ R.T)
    stated = p.network.m * parts.sum(dim=1)
    most = (shifted.norm(dim=2) + b.abs()).amax(dim=1) * p.network.m * math.sqrt(settings.n) * R.norm()
    hoeffding = math.sqrt(2 * math.log(2 * settings.n**2 / settings.delta)) * both.norm(dim=2)
    return Finding(
        hypotheses=(p.in_unit_ball[0],),
        conclusions=(
            _is_its_formula("change", change, stated),
            Conclusion("largest change / bound", "<=", 1.0, (change.abs() / most).max().item()),
            Conclusion("largest |b_ij| / Hoeffding's bound", "<=", 1.0, (b.abs() / hoeffding).max().item()),
        ),
    )


@claim(
    "P1/lemma-k.1-repaired",
    place="Appendix K, Lemma K.1, part 1, repaired",
    title="A bound B that grows with the prefix length",
    derivation="""<w_r, x_i> is N(0, s^2 |x_i|^2) with |x_i| <= 1; use the Gaussian tail and a union bound
        over nm.""",
    plain="With log m in B all products are bounded with high probability.",
    sharp="""sharp up to a factor 1 + o(1): the largest of nm Gaussians is sqrt(2 log(nm)) if the points
        are orthogonal""",
    quick={"n": 16, "d": 4, "sigma": 1.0, "delta": 0.001},
    sizes=({"m": 256}, {"m": 65536}),
)
def largest_product(settings: Settings, seed: int) -> Finding:
    """With probability 1 - delta, |<w_r, x_i>| <= s sqrt(2 log(2nm/delta)) for all i and r."""
    X, _ = unit_data(settings.n, settings.d, settings.d, seed)
    network = PrefixNetwork(settings.d, settings.m, settings.sigma, "independent", seed)
    bound = settings.sigma * math.sqrt(2 * math.log(2 * settings.n * settings.m / settings.delta))
    largest = (X @ network.W).abs().max().item()
    return Finding(conclusions=(Conclusion("largest |<w_r, x_i>| / bound", "<=", 1.0, largest / bound),))
