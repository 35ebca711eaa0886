"""Theorem 4.1, HyperAttention in Corollary J.3, Section 4.1's "iff" and Eq. (6)'s map, repaired."""

import math
from dataclasses import replace

import torch
from torch.utils.flop_counter import FlopCounterMode

from attangent.attention.features import Printed, Taylor, order_for
from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Finding, Hypothesis
from attangent.audit.registry import claim
from attangent.papers.p1_prefix.claims.attention_fast import error, even_order
from attangent.papers.p1_prefix.claims.attention_setting import BoundedPrefix, algorithm_4, drawn, uniform
from attangent.papers.p1_prefix.claims.updates import PrefixMap
from attangent.papers.p1_prefix.fast_attention import PolynomialAttention


@claim(
    "P1/theorem-4.1-repaired",
    repairs="P1/theorem-4.1",
    place="Section 4.3, Theorem 4.1, repaired",
    title="NTK-Attention approximates a long prefix, with the cost and the values in it",
    statement="""With entries of Q, K_C within +-B, of V, V_C within +-v, and Taylor features of an order g
        whose relative error on +-sqrt(d) B^2 is at most 1/(1 + 2vm), Algorithm 2 is within 1/m of prefix
        attention and takes at most 4 (L d^2 + L^2 d + L r d) multiplications with r = C(d+g, g).""",
    derivation="""Weights whose exponentials are off by a factor within 1 +- e move by at most e/(1-e) of
        themselves on either side, the average of values within +-v by at most 2v e/(1-e), which is 1/m for
        e = 1/(1 + 2vm). Phi(Q) Z takes L r d, Phi(Q) k takes L r.""",
    quick={"L": 16, "d": 3, "bound": 1.0},
    sizes=({"m": 256, "v": 1.0}, {"m": 1024, "v": 1e4}),
    seconds=0.3,
)
def approximation(settings: Settings, seed: int) -> Finding:
    m, d, v, L = settings.m, settings.d, settings.v, settings.L
    drawn_prefix = BoundedPrefix.draw(m, L, d, settings.bound, seed)
    prefix = replace(drawn_prefix, V=v * drawn_prefix.V / settings.bound)
    phi = Taylor(d, order_for(settings.bound**2 * math.sqrt(d), 1 / (1 + 2 * v * m)))
    count = _multiplications(L, d, phi)
    return Finding(
        hypotheses=(Hypothesis("largest entry of V", "<=", v, prefix.V.abs().max().item()),),
        conclusions=(
            Conclusion("error x m", "<=", 1.0, prefix.error(phi).sup * m),
            Conclusion(
                "multiplications / 4 (L d^2 + L^2 d + L r d)",
                "<=",
                1.0,
                count / (4 * (L * d**2 + L**2 * d + L * phi.size * d)),
            ),
        ),
        numbers={"features": phi.size},
    )


def _multiplications(L: int, d: int, phi: Taylor) -> int:
    """Those of the matrix products of Algorithm 4 with these features."""
    X, W = torch.zeros(L, d), torch.zeros(d, d)
    with FlopCounterMode(display=False) as counter:
        algorithm_4(X, torch.zeros(phi.size, d), torch.zeros(phi.size), W, W, W, phi=phi)
    return counter.get_total_flops() // 2


@claim(
    "P1/corollary-j.3-hyper-repaired",
    repairs="P1/corollary-j.3-hyper",
    place="Corollary J.3, repaired",
    title="A fast attention whose error falls with m",
    statement="""With the polynomial method for the tokens too, of the even order that the accuracy 1/m asks
        for, NTK-Attention is within 1/m of prefix attention, also where there are as many tokens as prefix
        vectors.""",
    derivation="""Theorem 4.1 as repaired, applied to tokens and prefix together; an even order keeps every
        mass positive.""",
    quick={"d": 3, "bound": 1.0, "order": None},
    sizes=({"m": 256}, {"m": 1024}),
    seconds=0.3,
)
def fast(settings: Settings, seed: int) -> Finding:
    m = settings.m
    found = error(PolynomialAttention(even_order(settings, m)), m, m, settings, seed)
    return Finding(conclusions=(Conclusion("error x m, L = m", "<=", 1.0, found * m),))


@claim(
    "P1/section-4.1-updates-repaired",
    repairs="P1/section-4.1-updates",
    place="Section 4.1, last paragraph, repaired",
    title="What of a prefix's motion counts",
    statement="""P acts on the output through Z and k alone: the directions of P that leave Z and k, at least
        md - r(d+1) of them, leave the output too, and Z and k move only if P does.""",
    derivation="""The output of Algorithm 2 is a function of X, Z and k; its derivative in P is its
        derivative in (Z, k) times that of (Z, k) in P, which has rank at most r(d+1).""",
    quick={"d": 4, "L": 6},
    sizes=({"m": 32}, {"m": 64}),
    seconds=0.2,
)
def through_the_state(settings: Settings, seed: int) -> Finding:
    m, d, L = settings.m, settings.d, settings.L
    phi = Printed(d)
    to_state, P = PrefixMap(phi, d, seed), drawn(m, d, seed=seed, stream="P")
    X, W_Q = drawn(L, d, seed=seed, stream="X"), drawn(d, d, seed=seed, stream="WQ") / math.sqrt(d)
    Q, K, V = X @ W_Q, X @ to_state.W_K, X @ to_state.W_V

    def output(rows: torch.Tensor) -> torch.Tensor:
        state = to_state(rows)
        Z, k = state[: d * d].reshape(d, d), state[d * d :]
        A = torch.exp(Q @ K.T / math.sqrt(d))
        return (A @ V + phi(Q) @ Z) / (A.sum(dim=1) + phi(Q) @ k)[:, None]

    derivative = to_state.derivative(P)
    rank = int(torch.linalg.matrix_rank(derivative))
    null = torch.linalg.svd(derivative)[2][rank:]
    along = torch.as_tensor(torch.autograd.functional.jacobian(output, P)).reshape(-1, m * d)
    return Finding(
        conclusions=(
            Conclusion("directions that leave Z and k", ">=", m * d - d * (d + 1), len(null)),
            Conclusion(
                "what they do to the output, relative",
                "<=",
                1e-10,
                ((along @ null.T).norm() / along.norm()).item(),
            ),
        ),
        numbers={"directions of P": m * d},
    )


@claim(
    "P1/equation-6-map-repaired",
    repairs="P1/equation-6-map",
    place="Section 4.2, repaired",
    title="A first-order map with one feature more",
    statement="""phi(z) = (1, d^(-1/4) z), d + 1 features, has |phi(q).phi(k) - e^s| <= s^2/2 e^|s| with
        s = q.k/sqrt d.""",
    derivation="phi(q).phi(k) = 1 + s, and the remainder of the exponential's first-order expansion is that.",
    quick={"rows": 200, "bound": 1.0, "constant": 1.0},
    sizes=({"d": 8}, {"d": 64}),
    seconds=0.1,
)
def first_order(settings: Settings, seed: int) -> Finding:
    d = settings.d
    q, k = (uniform(settings.rows, d, bound=settings.bound, seed=seed, stream=name) for name in "qk")

    def phi(z: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.full_like(z[:, :1], settings.constant), d**-0.25 * z], dim=1)

    s = q @ k.T / math.sqrt(d)
    gap = (phi(q) @ phi(k).T - s.exp()).abs()
    allowed = s.square() / 2 * s.abs().exp() + 1e-14
    return Finding(
        conclusions=(Conclusion("largest error / bound", "<=", 1.0, (gap / allowed).max().item()),),
        numbers={"largest error": gap.max().item(), "features": d + 1},
    )
