"""Lemma 5.1 and Lemma B.1: what moves when every neuron moves by at most R."""

import math

import torch
from torch import Tensor

from attangent._random import generator
from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Hypothesis, Series
from attangent.audit.papers.p2.problem import LOG10_E, Problem, constants, data_in_ball, problem
from attangent.audit.registry import claim

_SIZES = {"n": 6, "d": 8, "d_out": 4, "m": 1024, "sigma": 1.0, "delta": 0.05}


@claim(
    "P2/lemma-5.1",
    place="Section 5, Lemma 5.1 (Lemma B.2)",
    title="A small move of the weights moves the kernel little",
    statement="""If every neuron moves by at most R < 0.01, no entry of the kernel changes by more than
        R e^(10B) and the whole by no more than R n d e^(10B) in the Frobenius norm.""",
    quick={**_SIZES, "radii": [0.0001, 0.001, 0.0099]},
    full={"n": 12, "d": 16, "d_out": 8, "m": 4096},
    seconds=0.5,
)
def kernel_perturbation(settings: Settings, seed: int) -> Finding:
    p = problem(settings, seed)
    B = constants(p, settings).B
    directions = {"random": _random_directions(p, seed), "adversarial": _worst_directions(p, seed)}
    moved = {
        name: [_printed_kernel(p, p.network.W + R * U) - p.kernel for R in settings.radii]
        for name, U in directions.items()
    }
    per_radius = {
        name: [change.norm().item() / R for change, R in zip(changes, settings.radii, strict=True)]
        for name, changes in moved.items()
    }
    entries = max(
        change.abs().max().item() / R
        for changes in moved.values()
        for change, R in zip(changes, settings.radii, strict=True)
    )
    frobenius = max(max(values) for values in per_radius.values())
    return Finding(
        hypotheses=(
            data_in_ball(p)[0],
            Hypothesis("largest move R", "<=", 0.01, max(settings.radii)),
        ),
        conclusions=(
            Conclusion(
                "largest change of an entry / R", "<=", 10 * B * LOG10_E, math.log10(entries), log10=True
            ),
            Conclusion(
                "|H(W) - H(W~)|_F / R",
                "<=",
                math.log10(p.size) + 10 * B * LOG10_E,
                math.log10(frobenius),
                log10=True,
            ),
        ),
        numbers={
            "|H(W) - H(W~)|_F / R, random move": max(per_radius["random"]),
            "|H(W) - H(W~)|_F / R, adversarial move": max(per_radius["adversarial"]),
            "|H|_F": p.kernel.norm().item(),
            "log10 of the slack": math.log10(p.size) + 10 * B * LOG10_E - math.log10(frobenius),
        },
        figures=(_change_figure(settings.radii, per_radius),),
    )


def _change_figure(radii: list[float], per_radius: dict[str, list[float]]) -> Figure:
    return Figure(
        "Change of the kernel",
        "move R of every neuron",
        "|H(W) - H(W~)|_F",
        tuple(
            Series.of(f"{name} move", radii, [v * R for v, R in zip(values, radii, strict=True)])
            for name, values in per_radius.items()
        ),
        log_x=True,
        log_y=True,
    )


def _printed_kernel(p: Problem, W: Tensor) -> Tensor:
    """H(W) entry by entry as Definition 3.6 prints it, differentiable in W."""
    S = torch.softmax(p.X @ W, dim=1)
    v = p.network.a[:, None, :] - (S @ p.network.a.T).T[:, :, None]  # <v_lr, S_i> as (l, i, r)
    G = (v * p.network.m * S).reshape(p.size, -1)
    return (G @ G.T) * (p.X @ p.X.T / p.network.m).tile(p.network.d_out, p.network.d_out)


def _random_directions(p: Problem, seed: int) -> Tensor:
    U = torch.randn(p.network.W.shape, generator=generator(seed, "perturbation"), dtype=torch.float64)
    return U / U.norm(dim=0)


def _worst_directions(p: Problem, seed: int, rounds: int = 5) -> Tensor:
    """Unit moves, one a neuron, that change the kernel most: power iteration on its derivative."""
    U = _random_directions(p, seed)
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
    statement="""For Gaussian weights w, moved weights v within R < 0.01 of them and points in the unit ball,
        thirteen bounds on <w, x>, exp<w, x>, the normaliser alpha and the softmax S hold with high
        probability, each in powers of e^B and R.""",
    quick={**_SIZES, "m": 4096, "n": 16, "R": 0.0099},
    full={"n": 64, "m": 65536},
    seconds=0.5,
)
def concentration(settings: Settings, seed: int) -> Finding:
    p = problem(settings, seed)
    B, R, m = constants(p, settings).B, settings.R, settings.m
    toward = p.X[torch.arange(m) % settings.n].T  # each neuron moves along one of the points
    parts = _parts(p, p.network.W + R * toward / toward.norm(dim=0))
    e = LOG10_E
    bounds = (
        math.log10(B), math.log10(B + R), math.log10(2 * R),
        B * e, (B + R) * e, math.log10(4 * R), math.log10(R) + (B + R) * e,
        math.log10(m * R) + (B + R) * e, math.log10(R / m) + (3 * B + 2 * R) * e,
        2 * B * e - math.log10(m), (2 * B + 2 * R) * e - math.log10(m),
        math.log10(R / m) + (4 * B + 3 * R) * e, math.log10(R) + (4 * B + 3 * R) * e,
    )  # fmt: skip
    rounding = 1e-9  # part 3 is attained where a neuron moves along a unit point
    rows = [
        (name, math.log10(value), bound) for (name, value), bound in zip(parts.items(), bounds, strict=True)
    ]
    return Finding(
        hypotheses=(data_in_ball(p)[0], Hypothesis("move R", "<=", 0.01, R)),
        conclusions=tuple(
            Conclusion(f"Part {i}: {name}", "<=", bound + rounding, measured, log10=True)
            for i, (name, measured, bound) in enumerate(rows, 1)
        ),
        numbers={"B": B, "largest |<w, x>|": parts["|<w_r, x_i>|"]},
        figures=(
            Figure(
                "Thirteen parts, bound against measured",
                "part",
                "decimal logarithm",
                (
                    Series.of("bound", range(1, 14), [bound for *_, bound in rows], "points"),
                    Series.of("measured", range(1, 14), [measured for _, measured, _ in rows], "points"),
                ),
            ),
        ),
    )


def _parts(p: Problem, V: Tensor) -> dict[str, float]:
    """The largest value over points and neurons of each of the thirteen quantities."""
    W, X = p.network.W, p.X
    inner, moved = X @ W, X @ V
    pairs = ((V - W).T @ (X[:, None, :] + X[None, :, :]).reshape(-1, X.shape[1]).T).abs().max()
    alpha, alpha_moved = inner.exp().sum(dim=1), moved.exp().sum(dim=1)
    S, S_moved = torch.softmax(inner, dim=1), torch.softmax(moved, dim=1)
    values = {
        "|<w_r, x_i>|": inner.abs().max(),
        "|<v_r, x_i>|": moved.abs().max(),
        "|<w_r - v_r, x_i + x_j>|": pairs,
        "exp<w_r, x_i> and its inverse": inner.abs().max().exp(),
        "exp<v_r, x_i> and its inverse": moved.abs().max().exp(),
        "|exp<w_r - v_r, x_i + x_j> - 1|": torch.expm1(pairs),
        "|exp<w_r, x_i> - exp<v_r, x_i>|": (inner.exp() - moved.exp()).abs().max(),
        "|alpha_i - alpha~_i|": (alpha - alpha_moved).abs().max(),
        "|1/alpha_i - 1/alpha~_i|": (1 / alpha - 1 / alpha_moved).abs().max(),
        "S_ir": S.max(),
        "S~_ir": S_moved.max(),
        "|S_ir - S~_ir|": (S - S_moved).abs().max(),
        "|<z, S_i - S~_i>| for |z| <= 1": (S - S_moved).abs().sum(dim=1).max(),
    }
    return {name: value.item() for name, value in values.items()}
