"""Sections 4.1 and 4.2: the map from a prefix to Z and k, and the printed feature map."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.attention.features import FeatureMap, Printed
from attangent.audit import Conclusion, Finding, Settings, claim
from attangent.papers.common.bounds import comparison
from attangent.papers.common.sizes import by_size
from attangent.papers.p1_prefix.claims.attention_setting import drawn
from attangent.papers.p1_prefix.proofs import attention


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
    quote="""checking the training process of P, we observe that P is updating iff Z and k are updating.
        Hence, we can replace P by utilizing trainable parameters Z and k""",
    rests_on=("P1/equation-7",),
    nature="remark",
    plain="""To first order in the step, P moves if and only if Z and k move, as the paper says. Outside
        training the map from P to (Z, k) is not injective.""",
    proof=attention.gradient_steps_move_the_state,
    quick={"m": 32, "d": 4, "L": 6, "rates": [0.001, 0.1, 1.0], "steps": 20, "move": "gradient"},
    full={"m": 128, "d": 8, "steps": 50},
)
def updates(settings: Settings, seed: int) -> Finding:
    """In training, Z and k, built from P by Eq. (7), move if and only if P moves."""
    # Train P through Eq. (7) and through exact attention; compare the moves of (Z, k) and P.
    d = settings.d
    to_state = PrefixMap(Printed(d), d, seed)
    P = drawn(settings.m, d, seed=seed, stream="P")
    order = torch.randperm(settings.m, generator=generator(seed, "order"))
    state = to_state(P)
    rank = int(torch.linalg.matrix_rank(to_state.derivative(P)))
    moves = {
        name: min(_smallest_move(to_state, loss, P, rate, settings, seed) for rate in settings.rates)
        for name, loss in _losses(to_state, settings, seed).items()
    }
    return Finding(
        conclusions=(
            *(
                Conclusion(f"smallest relative move of (Z, k) / that of P, {name}", ">=", 1e-6, ratio)
                for name, ratio in moves.items()
            ),
            comparison(
                "relative change of Z and k when the rows of P are permuted, which training does not do",
                ">=",
                1e-6,
                ((to_state(P[order]) - state).norm() / state.norm()).item(),
            ),
            comparison(
                "directions of P, out of md, that change Z and k to first order", "==", P.numel(), rank
            ),
        ),
        numbers={"numbers in P": P.numel(), "numbers in Z and k": len(state)},
        remark="The map from P to (Z, k) is not injective: it sums over the rows of P. But a gradient "
        "step moves P only in directions that move Z and k.",
    )


def _losses(to_state: PrefixMap, settings: Settings, seed: int) -> dict[str, Callable[[Tensor], Tensor]]:
    """Return the loss of P through Eq. (7) and through exact attention over prefix and tokens."""
    d = settings.d
    X, Y = (drawn(settings.L, d, seed=seed, stream=name) for name in "XY")
    Q = X @ drawn(d, d, seed=seed, stream="WQ") / math.sqrt(d)
    K = X @ to_state.W_K
    V = X @ to_state.W_V
    A = torch.exp(Q @ K.T / math.sqrt(d))

    def by_state(P: Tensor) -> Tensor:
        state = to_state(P)
        phi = to_state.phi(Q)
        mass = A.sum(dim=1) + phi @ state[d * d :]
        return ((A @ V + phi @ state[: d * d].reshape(d, d)) / mass[:, None] - Y).square().sum()

    def exact(P: Tensor) -> Tensor:
        weights = torch.softmax(Q @ torch.cat([P @ to_state.W_K, K]).T / math.sqrt(d), dim=1)
        return (weights @ torch.cat([P @ to_state.W_V, V]) - Y).square().sum()

    return {"attention by Eq. (7)": by_state, "exact attention": exact}


def _smallest_move(
    to_state: PrefixMap,
    loss: Callable[[Tensor], Tensor],
    P: Tensor,
    rate: float,
    settings: Settings,
    seed: int,
) -> float:
    """Return the smallest |change of (Z, k)| / |(Z, k)| over |change of P| / |P| in a run of gradient
    descent.
    """
    smallest = math.inf
    for step in range(settings.steps):
        moved = P - rate * torch.autograd.functional.jacobian(loss, P)
        if settings.move == "permutation":
            moved = P[torch.randperm(len(P), generator=generator(seed, f"order {step}"))]
        before = to_state(P)
        state_move = (to_state(moved) - before).norm() / before.norm()
        smallest = min(smallest, (state_move / ((moved - P).norm() / P.norm())).item())
        P = moved
    return smallest


@claim(
    "P1/equation-6-map",
    place="Section 4.2, Implementation Detail of phi; Eq. (6)",
    title="The printed feature map phi approximates exp",
    quote="""phi(Q_i)'phi(K_j) ~ exp(Q_i'K_j/sqrt d). (6) ... the function phi is given by phi(z) := d^(-1/4)
        (z o 1_(z>=0) + exp(z) o 1_(z<0)) + 1_d""",
    nature="remark",
    plain="""The paper calls its map with d features an approximation of exp and states no accuracy. At q
        = k = 0 it gives d instead of 1; the paper trains Z and k, so no result falls.""",
    quick={"dims": [4, 8, 16, 32, 64]},
)
def printed_map(settings: Settings, seed: int) -> Finding:
    """With the printed phi, which has r = d features, phi(q).phi(k) approximates exp(q.k/sqrt d). The paper
    states no accuracy, only "a balance between approximation and efficient computation", so nothing decides.
    """
    # phi(0).phi(0) / exp(0) = d.
    d = settings.dims[-1]
    zero = torch.zeros(1, d)
    at_zero = _ratio(Printed(d), zero, zero)
    ratio = "phi(q).phi(k) / exp(q.k/sqrt d)"
    small = [_ratio(Printed(d), *(_small(d, seed, name) for name in ("q", "k"))) for d in settings.dims]
    return Finding(
        conclusions=(
            Conclusion(f"{ratio} at q = k = 0, d = {d}", "<=", 2.0, at_zero, threshold="ours"),
            Conclusion(
                f"{ratio}, mean over random unit q and k, d = {d}", "<=", 2.0, small[-1], threshold="ours"
            ),
        ),
        numbers={
            **by_size("mean ratio over random unit q and k, d = {}", settings.dims, small),
            "jump of phi when a coordinate changes sign, d = 4": float(
                (Printed(4)(torch.full((1, 4), -1e-9)) - Printed(4)(torch.zeros(1, 4)))[0, 0]
            ),
        },
        remark="phi(0) = 1_d, so phi(0).phi(0) = d, but exp(0) = 1. A common factor would cancel in "
        "attention over the prefix alone, but not in attention over prefix and tokens. The paper "
        "trains Z and k, so phi need not approximate exp for its experiments.",
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
