"""Lemma 5.1 and Lemma B.1: what moves when every neuron moves by at most R."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Finding, Hypothesis
from attangent.audit.registry import claim
from attangent.papers.common import kernel_change
from attangent.papers.common.bounds import LOG10_E
from attangent.papers.common.thirteen_parts import growth_with_neurons, thirteen_parts
from attangent.papers.common.trends import at_most
from attangent.papers.p2_softmax.claims.softmax_regression import (
    SoftmaxRegression,
    constants,
    data_in_ball,
    softmax_regression,
)

_SIZES = {"n": 6, "d": 8, "d_out": 4, "m": 1024, "sigma": 1.0, "delta": 0.05}


@claim(
    "P2/lemma-5.1",
    place="Section 5, Lemma 5.1 (Lemma B.2)",
    title="A small move of the weights moves the kernel little",
    quote="Then with probability at least 1 - delta, we have |H(W) - H(W~)|_F <= R nd exp(10B).",
    rests_on=("P2/lemma-b.1",),
    statement="""If every neuron moves by at most R < 0.01, no entry of the kernel changes by more than
        R e^(10B) and the whole by no more than R n d e^(10B) in the Frobenius norm.""",
    quick={**_SIZES, "radii": [0.00001, 0.0001, 0.001, 0.0099], "copies": [1, 2, 4, 8, 16]},
    full={"n": 12, "d": 16, "d_out": 8, "m": 4096},
    seconds=0.5,
)
def kernel_perturbation(settings: Settings, seed: int) -> Finding:
    p = softmax_regression(settings, seed)
    bound = 10 * constants(p, settings).B * LOG10_E
    directions = {
        "random": kernel_change.random_move(p.network.W, seed),
        "adversarial": _worst_directions(p, seed),
    }
    changes = {f"{name} move": _changes(p, settings.radii, U) for name, U in directions.items()}
    over_radius = {name: kernel_change.largest_over_radius(of_move) for name, of_move in changes.items()}
    return Finding(
        hypotheses=(data_in_ball(p)[0], Hypothesis("largest move R", "<=", 0.01, max(settings.radii))),
        conclusions=(
            *kernel_change.entry_lines(changes, bound),
            kernel_change.norm_line(changes, math.log10(p.size) + bound),
            Conclusion.of_trend(
                "|H(W) - H(W~)|_F over n, all points equal",
                "<=",
                at_most(1.0),
                settings.copies,
                [_change_of_copies(p, directions["random"], settings.radii[-1], n) for n in settings.copies],
                part="2",
            ),
        ),
        numbers={
            **{f"|H(W) - H(W~)|_F / R, {name}": value for name, value in over_radius.items()},
            "|H|_F": p.kernel.norm().item(),
            "log10 of the slack": math.log10(p.size) + bound - math.log10(max(over_radius.values())),
        },
        figures=(kernel_change.change_figure(changes, "neuron"),),
    )


def _changes(p: SoftmaxRegression, radii: list[float], U: Tensor) -> kernel_change.Changes:
    return {R: _printed_kernel(p, p.network.W + R * U) - p.kernel for R in radii}


def _change_of_copies(p: SoftmaxRegression, U: Tensor, R: float, n: int) -> float:
    """|H(W) - H(W~)|_F for the first point taken n times."""
    X = p.X[:1].repeat(n, 1)
    return (p.network.with_weights(p.network.W + R * U).kernel(X) - p.network.kernel(X)).norm().item()


def _printed_kernel(p: SoftmaxRegression, W: Tensor) -> Tensor:
    """H(W) entry by entry as Definition 3.6 prints it, differentiable in W."""
    S = torch.softmax(p.X @ W, dim=1)
    v = p.network.a[:, None, :] - (S @ p.network.a.T).T[:, :, None]  # <v_lr, S_i> as (l, i, r)
    G = (v * p.network.m * S).reshape(p.size, -1)
    return (G @ G.T) * (p.X @ p.X.T / p.network.m).tile(p.network.d_out, p.network.d_out)


def _worst_directions(p: SoftmaxRegression, seed: int, rounds: int = 5) -> Tensor:
    """Unit moves, one a neuron, that change the kernel most: power iteration on its derivative."""
    U = kernel_change.random_move(p.network.W, seed)
    for _ in range(rounds):
        change = torch.func.jvp(lambda W: _printed_kernel(p, W), (p.network.W,), (U,))[1]
        pull = torch.func.vjp(lambda W: _printed_kernel(p, W), p.network.W)[1]
        U = pull(change)[0]
        U = U / U.norm(dim=0).clamp(min=1e-300)
    return U


@claim(
    "P2/lemma-b.1",
    place="Appendix B.1, Lemma B.1",
    title="Thirteen parts on products, exponentials and softmax under a small move",
    quote="Part 1. |<w_r, x_i>| <= B, for all i in [n], for all r in [m]",
    statement="""For Gaussian weights w, moved weights v within R < 0.01 of them and points in the unit ball,
        thirteen bounds on <w, x>, exp<w, x>, the normaliser alpha and the softmax S hold with high
        probability, each in powers of e^B and R.""",
    quick={**_SIZES, "m": 4096, "n": 16, "R": 0.0099},
    full={"n": 64, "m": 65536},
    seconds=0.5,
)
def concentration(settings: Settings, seed: int) -> Finding:
    p = softmax_regression(settings, seed)
    finding = thirteen_parts(p.X, p.network.W, constants(p, settings).B, settings.R)
    return replace(
        finding,
        conclusions=(*finding.conclusions, growth_with_neurons(p.X @ p.network.W)),
        remark="B does not depend on m, while the largest of m products grows like sqrt(log m): true for "
        "all r only while m is below about (nd/delta)^(C^2/2), which the proof takes for granted (m"
        " = poly(nd)).",
    )
