"""Sections 4.1 and 4.2: the map from a prefix to Z and k, and the printed feature map."""

import math

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.attention.features import FeatureMap, Printed
from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Finding
from attangent.audit.registry import claim
from attangent.papers.common.trends import at_most
from attangent.papers.p1_prefix.claims.attention_setting import drawn


class PrefixMap:
    """P -> (Z, k) of Eq. (7) as one vector, with keys P W_K and values P W_V."""

    def __init__(self, phi: FeatureMap, d: int, seed: int):
        self.phi = phi
        self.W_K, self.W_V = (drawn(d, d, seed=seed, stream=f"W{name}") / math.sqrt(d) for name in "KV")

    def __call__(self, P: Tensor) -> Tensor:
        features = self.phi(P @ self.W_K)
        return torch.cat([(features.T @ (P @ self.W_V)).flatten(), features.sum(dim=0)])

    def derivative(self, P: Tensor) -> Tensor:
        """Return the Jacobian, (numbers in Z and k, numbers in P)."""
        jacobian = torch.autograd.functional.jacobian(self, P)
        return torch.as_tensor(jacobian).reshape(-1, P.numel())


@claim(
    "P1/section-4.1-updates",
    place="Section 4.1, last paragraph",
    title="P is updating iff Z and k are updating",
    kind="theorem",
    quote="""checking the training process of P, we observe that P is updating iff Z and k are updating.
        Hence, we can replace P by utilizing trainable parameters Z and k""",
    rests_on=("P1/equation-7",),
    quick={"m": 64, "d": 4},
    full={"m": 256, "d": 8},
    seconds=0.1,
)
def updates(settings: Settings, seed: int) -> Finding:
    """Z and k, built from P by Eq. (7), change if and only if P changes."""
    # Permute the rows of P, which leaves Z and k unchanged; count the directions of P that move them.
    m = settings.m
    d = settings.d
    to_state = PrefixMap(Printed(d), d, seed)
    P = drawn(m, d, seed=seed, stream="P")
    order = torch.randperm(m, generator=generator(seed, "order"))
    swapped = P[order]
    state = to_state(P)
    rank = int(torch.linalg.matrix_rank(to_state.derivative(P)))
    again = to_state(P.clone())
    return Finding(
        conclusions=(
            Conclusion(
                "relative change of Z and k when the rows of P are permuted",
                ">=",
                1e-6,
                ((to_state(swapped) - state).norm() / state.norm()).item(),
                part="P updating implies Z and k updating",
            ),
            Conclusion(
                "directions of P, out of md, that change Z and k to first order",
                "==",
                m * d,
                rank,
                part="P updating implies Z and k updating",
            ),
            Conclusion(
                "change of Z and k when P does not change",
                "==",
                0.0,
                (again - state).abs().max().item(),
                part="Z and k updating implies P updating",
            ),
        ),
        numbers={
            "relative change of P by the permutation": ((swapped - P).norm() / P.norm()).item(),
            "rank of the Jacobian of (Z, k) in P": rank,
            "numbers in P": m * d,
            "numbers in Z and k": len(state),
        },
        remark="(Z, k) is a sum over the rows of P, so their order does not matter, and it has only r(d+1) "
        "numbers.",
    )


@claim(
    "P1/equation-6-map",
    place="Section 4.2, Implementation Detail of phi; Eq. (6)",
    title="The printed feature map phi approximates exp",
    kind="identity",
    quote="""phi(Q_i)'phi(K_j) ~ exp(Q_i'K_j/sqrt d). (6) ... the function phi is given by phi(z) := d^(-1/4)
        (z o 1_(z>=0) + exp(z) o 1_(z<0)) + 1_d""",
    quick={"dims": [4, 8, 16, 32, 64]},
    seeds=3,
    seconds=0.1,
)
def printed_map(settings: Settings, seed: int) -> Finding:
    """With the printed phi, which has r = d features, phi(q).phi(k) approximates exp(q.k/sqrt d). So their
    ratio stays bounded as d grows.
    """
    # phi(0).phi(0) / exp(0) = d.
    at_zero = [_ratio(Printed(d), torch.zeros(1, d), torch.zeros(1, d)) for d in settings.dims]
    small = [_ratio(Printed(d), *(_small(d, seed, name) for name in ("q", "k"))) for d in settings.dims]
    return Finding(
        conclusions=(
            Conclusion.of_trend(
                "phi(q).phi(k) / exp(q.k/sqrt d) at q = k = 0, over d",
                "<=",
                at_most(0.0),
                settings.dims,
                at_zero,
            ),
            Conclusion.of_trend(
                "phi(q).phi(k) / exp(q.k/sqrt d), mean over random unit q and k, over d",
                "<=",
                at_most(0.0),
                settings.dims,
                small,
            ),
        ),
        numbers={
            "jump of phi when a coordinate changes sign, d = 4": float(
                (Printed(4)(torch.full((1, 4), -1e-9)) - Printed(4)(torch.zeros(1, 4)))[0, 0]
            )
        },
        remark="phi(0) = 1_d, so phi(0).phi(0) = d, but exp(0) = 1. A common factor would cancel in "
        "attention over the prefix alone, but not in attention over prefix and tokens.",
    )


def _small(d: int, seed: int, stream: str) -> Tensor:
    rows = drawn(256, d, seed=seed, stream=stream)
    return rows / rows.norm(dim=1, keepdim=True)


def _ratio(phi: FeatureMap, q: Tensor, k: Tensor) -> float:
    """Return the mean of phi(q).phi(k) / exp(q.k/sqrt d) over the rows."""
    q = q.double()
    k = k.double()
    exact = torch.exp((q * k).sum(dim=1) / math.sqrt(q.shape[1]))
    return ((phi(q) * phi(k)).sum(dim=1) / exact).mean().item()
