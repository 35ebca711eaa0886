"""Lemmas 3.1 (G.3), K.1 and K.2, and Claim G.4: how the kernel changes when the prefix moves."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from attangent.audit import Conclusion, Failure, Finding, Hypothesis, Series, Settings, claim
from attangent.kernels.network import Kind
from attangent.papers.common.bounds import LOG10_E, comparison, log10
from attangent.papers.common.figures import plot
from attangent.papers.common.perturbation import (
    Changes,
    beyond_bound,
    change_figure,
    entry_line,
    growth_with_neurons,
    largest_over_radius,
    norm_line,
    random_move,
    thirteen_parts,
)
from attangent.papers.p1_prefix.claims.prefix_regression import PrefixRegression
from attangent.papers.p1_prefix.proofs import kernel, tails

_SIZES = {"n": 6, "d": 4, "m": 1024, "sigma": 1.0, "delta": 0.05}


@claim(
    "P1/lemma-3.1",
    place="Section 3.2, Lemma 3.1 (Lemma G.3)",
    title="The kernel is stable under a small perturbation of the prefix",
    quote="""Part 1. |[H_k1,k2]_i,j(W) - [H_k1,k2]_i,j(W~)| <= 8R exp(22B). Part 2. Then with probability at
        least 1 - delta, we have |H(W) - H(W~)|_F <= 8R sqrt(nd) exp(22B).""",
    rests_on=("P1/lemma-k.1", "P1/lemma-k.2"),
    plain="""Printed with sqrt(nd) in part 2; with nd it follows from part 1. R becomes smaller by
        sqrt(nd), inside its poly(n, d, exp(B)); no main result falls for this reason. Part 1 is so loose
        that no run can test it.""",
    failure=Failure(
        "P1/lemma-3.1",
        "a factor changes: R in Claim G.4 is smaller by sqrt(nd), which its poly(n, d, exp(B)) absorbs",
        "n = 10^25 equal points, at B = 1",
        root="a Frobenius norm of N x N entries is N times an entry, not sqrt(N)",
    ),
    proof=kernel.equal_points,
    quick={**_SIZES, "radii": [0.00001, 0.0001, 0.001, 0.0099], "copies": [1, 2, 4, 8, 16], "delta": 0.05},
    full={"n": 12, "d": 8, "m": 4096},
)
def kernel_perturbation(settings: Settings, seed: int) -> Finding:
    """If every prefix vector moves by at most R < 0.01, each entry of the kernel changes by at most 8 R
    e^(22B), and the kernel by at most 8 R sqrt(nd) e^(22B) in the Frobenius norm.
    """
    p = PrefixRegression.draw(settings, seed)
    toward = _training_move(p)
    moves = {"random": random_move(p.network.W, seed), "toward the targets": toward}
    changes = {name: _changes(p, settings, U, "paper") for name, U in moves.items()}
    exact = _changes(p, settings, toward, "exact")
    bound = math.log10(8) + 22 * p.bound(settings) * LOG10_E
    largest = max(map(largest_over_radius, changes.values()))
    slack = bound + math.log10(math.sqrt(p.size)) - math.log10(largest)
    return Finding(
        hypotheses=(p.in_unit_ball[0], Hypothesis("largest move R", "<=", 0.01, max(settings.radii))),
        conclusions=(
            entry_line(changes, bound),
            norm_line(changes, bound + math.log10(math.sqrt(p.size))),
            _copies_trend(settings, seed),
        ),
        numbers={
            "|H(W) - H(W~)|_F / R": largest,
            "|H|_F": p.paper.kernel.norm().item(),
            "|H(W) - H(W~)|_F / (sqrt(nd) x largest entry)": _largest_spread(p, changes),
            "|H(W) - H(W~)|_F / R for the exact kernel": largest_over_radius(exact),
            "log10 of bound / measured": slack,
        },
        figures=(change_figure({**changes, "toward the targets, exact kernel": exact}, "prefix vector"),),
        remark="A bound c on each of the (nd)^2 entries gives nd c in the Frobenius norm, not sqrt(nd) c as "
        "in the proof. Equal points attain it. With sigma = 1/(C sqrt(log(nd/delta))), B = 1 for every n, "
        "and the change grows like n, so it exceeds any multiple of sqrt(n).",
    )


def _largest_spread(p: PrefixRegression, changes: dict[str, Changes]) -> float:
    """max |H(W) - H(W~)|_F / (sqrt(nd) max_ij |H(W) - H(W~)|_ij)."""
    root = math.sqrt(p.size)
    return max((c.norm() / (root * c.abs().max())).item() for cs in changes.values() for c in cs.values())


def _copies_trend(settings: Settings, seed: int) -> Conclusion:
    name = "|H(W) - H(W~)|_F over n, all points equal, B = 1"
    changes = [_change_of_copies(settings, n, seed) for n in settings.copies]
    return Conclusion.of_trend(name, "<=", 0.5, settings.copies, changes, part="2")


def _change_of_copies(settings: Settings, n: int, seed: int) -> float:
    """|H(W) - H(W~)|_F for one point repeated n times, at the largest sigma with B = 1."""
    sigma = 1 / (settings.get("C", 10.0) * math.sqrt(math.log(n * settings.d / settings.delta)))
    p = PrefixRegression.draw(settings | {"n": 1, "sigma": sigma, "init": "independent"}, seed)
    X = p.X.repeat(n, 1)
    U = random_move(p.network.W, seed)
    moved = p.network.with_weights(p.network.W + settings.radii[-1] * U)
    return (moved.kernel(X, kind="paper") - p.network.kernel(X, kind="paper")).norm().item()


def _changes(p: PrefixRegression, settings: Settings, U: Tensor, kind: Kind) -> Changes:
    """H(W + R U) - H(W) per radius R."""
    start = (p.paper if kind == "paper" else p.exact).kernel
    return {
        R: p.network.with_weights(p.network.W + R * U).kernel(p.X, kind=kind) - start for R in settings.radii
    }


def _training_move(p: PrefixRegression) -> Tensor:
    """Return a unit move of each prefix vector along its gradient."""
    U = p.network.gradient(p.X, p.Y)
    return U / U.norm(dim=0).clamp(min=1e-300)


@claim(
    "P1/claim-g.4",
    place="Appendix G.2, Claim G.4",
    title="The kernel stays positive definite during training",
    quote="Then, with a probability at least 1 - delta, we have lambda_min(H(tau)) >= lambda/2.",
    rests_on=("P1/lemma-3.1",),
    plain="""The smallest eigenvalue of the printed kernel stays above half its first value in training,
        in every run; the conditions on m are out of reach.""",
    quick={**_SIZES, "init": "independent", "rate": 0.5, "steps": 200, "looks": 10},
    full={"n": 12, "d": 8, "m": 4096, "steps": 3000},
)
def stays_definite(settings: Settings, seed: int) -> Finding:
    """While every prefix vector stays within D < R of its initial value, lambda_min(H(tau)) >= lambda/2."""
    p = PrefixRegression.draw(settings, seed)
    at = sorted({round(settings.steps * (i / settings.looks) ** 2) for i in range(settings.looks + 1)})
    run = p.train(settings, keep=at)
    looks = [t for t in at if t in run.snapshots]
    lowest = {
        kind: torch.stack([_lambda_min(run.snapshots[t].kernel(p.X, kind=kind)) for t in looks])
        for kind in ("paper", "exact")
    }
    needed = p.guarantee(settings)
    moved = run.movement.max().item()
    kept = lowest["paper"] / p.paper.lambda_min
    least_exact = (lowest["exact"] / p.exact.lambda_min).min().item()
    return Finding(
        hypotheses=(
            *p.conditions(settings),
            Hypothesis("largest movement, below R", "<=", needed.log10_radius, log10(moved), log10=True),
        ),
        conclusions=(
            Conclusion("smallest lambda_min(H(t)) / lambda", ">=", 0.5, kept.min().item()),
            comparison("smallest lambda_min(H(t)) / lambda for the exact kernel", ">=", 0.5, least_exact),
        ),
        numbers={
            "lambda": p.paper.lambda_min,
            "largest weight movement": moved,
            "largest |lambda_min(H(t)) / lambda - 1|": (kept - 1).abs().max().item(),
        },
        figures=(
            plot(
                "Smallest eigenvalue during training",
                ("step", "lambda_min"),
                Series.of("printed kernel", looks, lowest["paper"]),
                Series.of("exact kernel", looks, lowest["exact"]),
                Series.of("half of the initial value", looks, [p.paper.lambda_min / 2] * len(looks), "bound"),
                log="",
            ),
        ),
        remark="The last line of the proof reads lambda_min(H*) = 2; it should read lambda.",
    )


def _lambda_min(kernel: Tensor) -> Tensor:
    return torch.linalg.eigvalsh(kernel)[0]


_LEMMA_K = {"n": 16, "d": 4, "m": 4096, "sigma": 1.0, "delta": 0.05, "init": "independent"}


@claim(
    "P1/lemma-k.1",
    place="Appendix K, Lemma K.1",
    title="Thirteen bounds on softmax under a small perturbation",
    quote="Part 1. |<w_r, x_i>| <= B, for all i in [n], for all r in [m]",
    plain="""Printed: |<w_r, x>| <= B for all m prefix vectors, with a B that does not depend on m. False
        at the theorem's own m with C = 10, and for every C as lambda goes to 0; B needs log m.""",
    failure=Failure(
        "P1/lemma-k.1",
        "a factor changes: B gets sqrt(log m), and e^B becomes m^o(1) in every bound that uses it",
        "m = 10^134 at nd/delta = 480; Theorem 3.2 requires m = 10^327",
        root="the bound B on all m products does not contain m",
    ),
    proof=tails.union_over_prefix,
    quick={**_LEMMA_K, "R": 0.0099},
    full={"n": 64, "m": 65536},
)
def perturbation_parts(settings: Settings, seed: int) -> Finding:
    """For a Gaussian prefix w, a prefix v within R < 0.01 of it and points in the unit ball, thirteen bounds
    hold with high probability. They bound <w, x>, exp<w, x>, the normaliser alpha and the softmax S by powers
    of e^B and R.
    """
    p = PrefixRegression.draw(settings, seed)
    needed = p.guarantee(settings)
    finding = thirteen_parts(p.X, p.network.W, needed.B, settings.R)
    beyond = beyond_bound(needed.B, settings.sigma, settings.delta, needed.log10_width)
    return replace(
        finding,
        conclusions=(*finding.conclusions, beyond, growth_with_neurons(p.X @ p.network.W)),
        remark="The paper takes this from Lemma B.1 of P2. B does not depend on m, but the largest of m "
        "products grows like sqrt(log m). So part 1 holds for all r only if m is below about "
        "(nd/delta)^(C^2/2). Theorem 3.2 requires more: m >= lambda^-2 (nd)^2 e^(30B). A constant C of 40 or "
        "more saves it unless lambda is tiny; no C does as lambda goes to 0.",
    )


@claim(
    "P1/lemma-k.2",
    place="Appendix K, Lemma K.2",
    title="Six bounds on beta and v",
    quote="Part 1. |beta_k,r| <= B ... Part 6. <v_k,r, S_i> <= exp(6B)",
    rests_on=("P1/lemma-k.1",),
    plain="""Six bounds hold under the premise |w_r| <= B, which is not in the lemma it refers to and
        fails for large d.""",
    ours=("|w_r| <= B, a premise that the lemma attributes to Lemma K.1",),
    quick=_LEMMA_K,
    full={"n": 64, "m": 65536},
)
def beta_parts(settings: Settings, seed: int) -> Finding:
    """Let beta_k = W_k o a, v_kr = beta_kr 1 - beta_k and |w_r| <= B. Then |beta_kr| <= B, |beta_k| <= B
    sqrt(m), |v_kr| <= 2 B sqrt(m), 1/alpha <= e^B / m, <beta_k, S_i> <= e^(4B) and <v_kr, S_i> <= e^(6B).
    """
    p = PrefixRegression.draw(settings, seed)
    B = p.bound(settings)
    log_B = math.log10(B)
    log_m = math.log10(settings.m)
    e = B * LOG10_E
    bounds = (log_B, log_B + log_m / 2, math.log10(2) + log_B + log_m / 2, e - log_m, 4 * e, 6 * e)
    measured = {name: log10(value) for name, value in _values(p).items()}
    longest = p.network.W.norm(dim=0).max().item()
    return Finding(
        hypotheses=(p.in_unit_ball[0], Hypothesis("largest |w_r|", "<=", B, longest)),
        conclusions=tuple(
            Conclusion(f"Part {i}: {name}", "<=", bound, value, log10=True, part=f"{i}")
            for i, ((name, value), bound) in enumerate(zip(measured.items(), bounds, strict=True), 1)
        ),
        numbers={"B": B, "largest |w_r|": longest, "sqrt(d) / B at n = 100, d = 4096": _premise_at(4096)},
        figures=(
            plot(
                "Six parts: bound and measured value",
                ("part", "decimal logarithm"),
                Series.of("bound", range(1, 7), bounds, "points"),
                Series.of("measured", range(1, 7), list(measured.values()), "points"),
                log="",
            ),
        ),
        remark="The premise |w_r| <= B is not in Lemma K.1, to which the paper refers. |w_r| is about sigma "
        "sqrt(d), so it fails for d > 100 log(nd/delta): for n = 100, d = 4096 a typical |w_r| is 64, B 40.",
    )


def _premise_at(d: int) -> float:
    """sqrt(d) sigma / B for n = 100, sigma = 1: above 1 the premise |w_r| <= B fails for typical w_r."""
    return math.sqrt(d) / (10.0 * math.sqrt(math.log(100 * d / 0.05)))


def _values(p: PrefixRegression) -> dict[str, float]:
    """Return the largest value of each of the six quantities over points, coordinates and prefix vectors."""
    beta = p.network.beta
    m = p.network.m
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
