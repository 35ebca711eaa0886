"""Theorem 4.1, Corollary J.3 and the map of Eq. (6), repaired."""

import math
from dataclasses import replace

import torch

from attangent.attention.features import Taylor, order_for
from attangent.audit import Conclusion, Finding, Hypothesis, Settings, claim
from attangent.papers.p1_prefix.claims.attention_fast import error, even_order, fast_cost
from attangent.papers.p1_prefix.claims.attention_setting import (
    BoundedPrefix,
    algorithm_4,
    multiplications,
    uniform,
)
from attangent.papers.p1_prefix.fast_attention import PolynomialAttention


@claim(
    "P1/theorem-4.1-repaired",
    place="Section 4.3, Theorem 4.1, repaired",
    title="NTK-Attention approximates prefix attention up to 1/m, at a cost that grows with r",
    derivation="""If the exponentials are off by a factor in [1 - e, 1 + e], each weight changes by at most a
        fraction e/(1-e). An average of values in [-v, v] then changes by at most 2v e/(1-e), which is 1/m for
        e = 1/(1 + 2vm). Phi(Q) Z takes L r d multiplications and Phi(Q) k takes L r.""",
    plain="With bounded values NTK-Attention is within 1/m of prefix attention, at the cost L r d.",
    sharp="not sharp: the measured error is 10^-4 to 10^-6 of the bound",
    ours=("d and B such that r is affordable: r = m^o(1) needs B^2 sqrt(d) = o(log m)",),
    quick={"L": 16, "d": 3, "bound": 1.0},
    sizes=({"m": 256, "v": 1.0}, {"m": 1024, "v": 1e4}),
)
def approximation(settings: Settings, seed: int) -> Finding:
    """Let the entries of Q and K_C be in [-B, B] and those of V and V_C in [-v, v]. Let the Taylor features
    of order g have a relative error of at most 1/(1 + 2vm) on [-sqrt(d) B^2, sqrt(d) B^2]. Then the output of
    Algorithm 2 is within 1/m of prefix attention and takes at most 4 (L d^2 + L^2 d + L r d) multiplications,
    with r = C(d+g, g).
    """
    m = settings.m
    d = settings.d
    v = settings.v
    L = settings.L
    drawn_prefix = BoundedPrefix.draw(m, L, d, settings.bound, seed)
    prefix = replace(drawn_prefix, V=v * drawn_prefix.V / settings.bound)
    phi = Taylor(d, order_for(settings.bound**2 * math.sqrt(d), 1 / (1 + 2 * v * m)))
    W = torch.zeros(d, d)
    zeros = (torch.zeros(shape) for shape in ((L, d), (phi.size, d), (phi.size,)))
    count = multiplications(algorithm_4, *zeros, W, W, W, phi=phi)
    relative_cost = count / (4 * (L * d**2 + L**2 * d + L * phi.size * d))
    return Finding(
        hypotheses=(Hypothesis("largest entry of V", "<=", v, prefix.V.abs().max().item()),),
        conclusions=(
            Conclusion("error x m", "<=", 1.0, prefix.error(phi).sup * m),
            Conclusion("multiplications / 4 (L d^2 + L^2 d + L r d)", "<=", 1.0, relative_cost),
        ),
        numbers={"features": phi.size},
    )


@claim(
    "P1/corollary-j.3-repaired",
    place="Corollary J.3, repaired",
    title="A fast attention whose error falls like 1/m, at a cost that grows with r",
    derivation="""Apply the repaired Theorem 4.1 to tokens and prefix together; the sums over the tokens
        take 2 L r d multiplications and those over the queries as many. An even order keeps every mass
        positive.""",
    plain="""The polynomial method for tokens and prefix is within 1/m of prefix attention, at a cost
        linear in L and in r.""",
    sharp="not sharp: the measured error is far below 1/m",
    ours=("entries of tokens and prefix in [-B, B], values bounded as well",),
    quick={"d": 3, "bound": 1.0, "order": None},
    sizes=({"m": 256}, {"m": 1024}),
)
def fast(settings: Settings, seed: int) -> Finding:
    """Let the entries of queries, keys and values of tokens and prefix be in [-B, B]. With the polynomial
    method for the tokens too, of the even order that the accuracy 1/m requires, NTK-Attention is within 1/m
    of prefix attention, even if there are as many tokens as prefix vectors, and the tokens take at most 4 L
    r (d + 1) multiplications.
    """
    m = settings.m
    method = PolynomialAttention(even_order(settings, m))
    largest = error(method, m, m, settings, seed)
    r = math.comb(settings.d + method.order, method.order)
    cost = fast_cost(method, m, settings.d) / (4 * m * r * (settings.d + 1))
    return Finding(
        conclusions=(
            Conclusion("error x m, L = m", "<=", 1.0, largest * m),
            Conclusion("multiplications / 4 L r (d + 1), L = m", "<=", 1.0, cost),
        ),
        numbers={"features": r},
    )


@claim(
    "P1/equation-6-map-repaired",
    place="Section 4.2, repaired",
    title="A first-order map with d + 1 features",
    derivation="phi(q).phi(k) = 1 + s, and the bound is the remainder of the first-order expansion of e^s.",
    nature="remark",
    plain="""A first-order map with d + 1 features approximates exp up to the second-order remainder;
        unlike the printed map it can be negative.""",
    sharp="sharp to second order: the error is s^2/2 + O(s^3)",
    ours=(
        "entries small enough that 1 + s stays positive; otherwise the denominator of Algorithm 2 can vanish",
    ),
    quick={"rows": 200, "bound": 1.0, "constant": 1.0},
    sizes=({"d": 8}, {"d": 64}),
)
def first_order(settings: Settings, seed: int) -> Finding:
    """|phi(q).phi(k) - e^s| <= s^2/2 e^|s| for phi(z) = (1, d^(-1/4) z), which has d + 1 features, and s =
    q.k/sqrt d.
    """
    d = settings.d
    q, k = (uniform(settings.rows, d, bound=settings.bound, seed=seed, stream=name) for name in "qk")

    def phi(z: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.full_like(z[:, :1], settings.constant), d**-0.25 * z], dim=1)

    s = q @ k.T / math.sqrt(d)
    gap = (phi(q) @ phi(k).T - s.exp()).abs()
    allowed = s.square() / 2 * s.abs().exp() + 1e-14
    return Finding(
        conclusions=(Conclusion("largest error / bound", "<=", 1.0, (gap / allowed).max().item()),),
        numbers={
            "largest error": gap.max().item(),
            "features": d + 1,
            "smallest phi(q).phi(k)": (1 + s).min().item(),
        },
        remark="1 + s is negative if s < -1, so the denominator of Algorithm 2 can vanish; the printed "
        "map is positive.",
    )
