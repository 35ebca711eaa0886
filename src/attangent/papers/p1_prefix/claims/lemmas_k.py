"""Lemmas K.1 and K.2: thirteen perturbation parts, and six bounds on beta and v."""

import math
from dataclasses import replace

import torch

from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Hypothesis, Series
from attangent.audit.registry import claim
from attangent.kernels import SoftmaxNetwork, unit_data
from attangent.papers.common.bounds import LOG10_E
from attangent.papers.common.thirteen_parts import growth_with_neurons, thirteen_parts
from attangent.papers.p1_prefix.claims.prefix_regression import (
    PrefixRegression,
    in_unit_ball,
    log10,
    ordinary_regression,
)
from attangent.papers.p1_prefix.guarantee import concentration_bound

_SIZES = {"n": 16, "d": 4, "m": 4096, "sigma": 1.0, "delta": 0.05, "init": "independent"}


@claim(
    "P1/lemma-k.1",
    place="Appendix K, Lemma K.1",
    title="Thirteen parts on products, exponentials and softmax under a small move",
    quote="Part 1. |<w_r, x_i>| <= B, for all i in [n], for all r in [m]",
    statement="""For a Gaussian prefix w, a moved prefix v within R < 0.01 of it and points in the unit ball,
        thirteen bounds on <w, x>, exp<w, x>, the normaliser alpha and the softmax S hold with high
        probability, each in powers of e^B and R.""",
    quick={**_SIZES, "R": 0.0099},
    full={"n": 64, "m": 65536},
    seconds=0.2,
)
def perturbation_parts(settings: Settings, seed: int) -> Finding:
    X, _ = unit_data(settings.n, settings.d, settings.d, seed)
    network = SoftmaxNetwork(settings.d, settings.d, settings.m, settings.sigma, settings.init, seed)
    B = concentration_bound(X.numel(), settings.sigma, settings.delta, settings.get("C", 10.0))
    finding = thirteen_parts(X, network.W, B, settings.R)
    growth = growth_with_neurons(X @ network.W)
    return replace(
        finding,
        conclusions=(*finding.conclusions, growth),
        remark="Taken over from Lemma B.1 of P2; it speaks of the hidden weights only. B does not depend "
        "on m, while the largest of m products grows like sqrt(log m): true for all r only while m "
        "is below about (nd/delta)^(C^2/2), far beyond what can be run.",
    )


@claim(
    "P1/lemma-k.2",
    place="Appendix K, Lemma K.2",
    title="Bounds on beta and v",
    quote="Part 1. |beta_k,r| <= B ... Part 6. <v_k,r, S_i> <= exp(6B)",
    rests_on=("P1/lemma-k.1",),
    statement="""With beta_k = W_k * a and v_kr = beta_kr 1 - beta_k, and |w_r| <= B: |beta_kr| <= B,
        |beta_k| <= B sqrt(m), |v_kr| <= 2 B sqrt(m), 1/alpha <= e^B / m, <beta_k, S_i> <= e^(4B) and
        <v_kr, S_i> <= e^(6B).""",
    quick=_SIZES,
    full={"n": 64, "m": 65536},
    seconds=0.1,
)
def beta_parts(settings: Settings, seed: int) -> Finding:
    p = ordinary_regression(settings, seed)
    B = p.bound(settings)
    log_B, log_m, e = math.log10(B), math.log10(settings.m), B * LOG10_E
    bounds = (log_B, log_B + log_m / 2, math.log10(2) + log_B + log_m / 2, e - log_m, 4 * e, 6 * e)
    measured = {name: log10(value) for name, value in _values(p).items()}
    longest = p.network.W.norm(dim=0).max().item()
    return Finding(
        hypotheses=(in_unit_ball(p)[0], Hypothesis("largest |w_r|", "<=", B, longest)),
        conclusions=tuple(
            Conclusion(f"Part {i}: {name}", "<=", bound, value, log10=True, part=f"{i}")
            for i, ((name, value), bound) in enumerate(zip(measured.items(), bounds, strict=True), 1)
        ),
        numbers={"B": B, "largest |w_r|": longest},
        figures=(
            Figure(
                "Six parts, bound against measured",
                "part",
                "decimal logarithm",
                (
                    Series.of("bound", range(1, 7), bounds, "points"),
                    Series.of("measured", range(1, 7), list(measured.values()), "points"),
                ),
            ),
        ),
    )


def _values(p: PrefixRegression) -> dict[str, float]:
    """The largest value over points, coordinates and prefix vectors of each of the six quantities."""
    beta, m = p.network.beta, p.network.m
    logits = p.X @ p.network.W
    mean = torch.softmax(logits, dim=1) @ beta.T  # <beta_k, S_i> as (i, k)
    # |v_kr|^2 = sum_s (beta_kr - beta_ks)^2 and <v_kr, S_i> = beta_kr - <beta_k, S_i>
    spread = (
        m * beta.square() - 2 * beta * beta.sum(dim=1, keepdim=True) + beta.square().sum(dim=1, keepdim=True)
    )
    centred = torch.maximum(beta.amax(dim=1) - mean, mean - beta.amin(dim=1))
    values = {
        "|beta_kr|": beta.abs().max(),
        "|beta_k|": beta.norm(dim=1).max(),
        "|v_kr|": spread.max().sqrt(),
        "1/alpha_i": 1 / logits.exp().sum(dim=1).min(),
        "|<beta_k, S_i>|": mean.abs().max(),
        "|<v_kr, S_i>|": centred.max(),
    }
    return {name: value.item() for name, value in values.items()}
