"""Lemma K.3: what a small move of the weights does to exponentials and softmax."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Hypothesis, Series
from attangent.audit.registry import claim
from attangent.papers.common.bounds import LOG10_E
from attangent.papers.p5_forecasting.claims.scalar_regression import (
    CONSTANT,
    ScalarRegression,
    exponent,
    scalar_regression,
    sizes_of_data_and_weights,
)


@claim(
    "P5/lemma-k.3",
    place="Appendix K, Lemma K.3",
    title="Thirteen parts on data, weights, exponentials and softmax under a small move",
    statement="""For windows of the residual state-space model, Gaussian weights and weights moved by at most
        R < 0.01/B^2, thirteen bounds on x, w, u = exp(x_d w x), alpha = sum u and S = u/alpha hold with high
        probability, in powers of exp(O(B^2 D)) and R B^2.""",
    quick={"n": 32, "d": 8, "m": 512, "noise": 0.01, "delta": 0.05},
    full={"n": 256, "m": 4096},
    seconds=0.2,
)
def perturbation_parts(settings: Settings, seed: int) -> Finding:
    p = scalar_regression(settings, seed)
    B, D = sizes_of_data_and_weights(settings)
    R = 0.0099 / B**2
    values = _thirteen(p, R * _signs(p, seed))
    c = settings.get("constant", CONSTANT)
    e = exponent(settings)
    d = settings.d
    RB2 = math.log10(R * B**2)
    moved = e * (1 + R / D)  # exp(O(B^2 (D + R)))
    bounds = (
        math.log10(c * B), math.log10(c * D), math.log10(c * (D + R)),
        e, moved, e, moved, e, moved,
        e + RB2, math.log10(d) + e + RB2, e + RB2 - math.log10(d), e + RB2 - math.log10(d),
    )  # fmt: skip
    rows = [(name, value, bound) for (name, value), bound in zip(values.items(), bounds, strict=True)]
    return Finding(
        hypotheses=(Hypothesis("move R", "<=", 0.01 / B**2, R),),
        conclusions=tuple(
            Conclusion(f"Part {i}: {name}", "<=", bound, value, log10=True, part=f"Part {i}")
            for i, (name, value, bound) in enumerate(rows, 1)
        ),
        numbers={"B": B, "D": D, "largest |x_ik|": 10 ** rows[0][1], "largest |w_r|": 10 ** rows[1][1]},
        figures=(
            Figure(
                "Thirteen parts, bound against measured",
                "part",
                "decimal logarithm",
                (
                    Series.of("bound", range(1, 14), bounds, "points"),
                    Series.of("measured", range(1, 14), list(values.values()), "points"),
                ),
            ),
        ),
        remark=f"O(.) is read as {c:g} around B and D and as {c**3:g} in the exponent.",
    )


def _signs(p: ScalarRegression, seed: int) -> Tensor:
    """Each weight moves up or down."""
    drawn = torch.randint(0, 2, p.network.W.shape, generator=generator(seed, "perturbation"))
    return 2.0 * drawn.double() - 1.0


def _thirteen(p: ScalarRegression, move: Tensor) -> dict[str, float]:
    """log10 of the largest value over windows, neurons and coordinates of each quantity.

    Parts 4-9 bound a quantity from both sides by exp(+-O(B^2 D)): the largest |log10| is taken.
    """
    after = p.network.with_weights(p.network.W + move)
    now = _Logarithms.of(p.X, p.network.W)
    then = _Logarithms.of(p.X, after.W)
    two_sided = {
        "|log u(0)|": now.u,
        "|log u(t)|": then.u,
        "|log alpha(0)/d|": now.alpha,
        "|log alpha(t)/d|": then.alpha,
        "|log S(0) d|": now.S,
        "|log S(t) d|": then.S,
    }
    d = p.X.shape[1]
    changes = {
        "|u(t) - u(0)|": then.u.exp() - now.u.exp(),
        "|alpha(t) - alpha(0)|": d * (then.alpha.exp() - now.alpha.exp()),
        "|1/alpha(t) - 1/alpha(0)|": ((-then.alpha).exp() - (-now.alpha).exp()) / d,
        "|S(t) - S(0)|": (then.S.exp() - now.S.exp()) / d,
    }
    sizes = {"|x_ik|": p.X, "|w_r(0)|": p.network.W, "|w_r(t)|": after.W}
    return (
        {name: math.log10(value.abs().max().item()) for name, value in sizes.items()}
        | {name: LOG10_E * value.abs().max().item() for name, value in two_sided.items()}
        | {name: math.log10(value.abs().max().item()) for name, value in changes.items()}
    )


@dataclass(frozen=True)
class _Logarithms:
    """log u, log(alpha / d) and log(S d) for each window and neuron (and coordinate)."""

    u: Tensor
    alpha: Tensor
    S: Tensor

    @classmethod
    def of(cls, X: Tensor, w: Tensor) -> "_Logarithms":
        u = (X[:, -1:] * w)[:, :, None] * X[:, None, :]
        alpha = torch.logsumexp(u, dim=2) - math.log(X.shape[1])
        return cls(u, alpha, u - alpha[:, :, None])
