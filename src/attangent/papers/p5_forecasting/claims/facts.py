"""Appendix B: facts that P5 quotes; Lemma I.5: whether outputs stay near their start."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.audit import Conclusion, Failure, Finding, Hypothesis, Settings, claim
from attangent.papers.common.sizes import by_size, no_growth, ratios
from attangent.papers.p5_forecasting.claims import proofs, proofs_of_slips
from attangent.papers.p5_forecasting.claims.model import LAZY
from attangent.papers.p5_forecasting.claims.scalar_regression import (
    PAIR,
    converge,
    scalar_regression,
    sizes_of_data_and_weights,
)


@claim(
    "P5/fact-b.3",
    nature="misprint",
    plain="Sums of normal variables: independence is missing.",
    failure=Failure(
        cause="P5/fact-b.3",
        consequence="used for independent variables only",
        first_size="n = 2",
        root="independence is left out",
    ),
    proof=proofs_of_slips.fact_b_3,
    ours=("whatever their dependence",),
    place="Appendix B, Fact B.3",
    title="Sums of normal variables",
    quote="For n variables X_i ~ N(0, sigma_i^2) ... we have: sum X_i ~ N(0, sum sigma_i^2)",
    quick={"draws": 4000, "correlation": -1.0},
)
def sums_of_normals(settings: Settings, seed: int) -> Finding:
    """The sum of n normal variables with variances sigma_i^2 has the variance sum sigma_i^2, whatever their
    dependence.
    """
    x, y = torch.randn(2, settings.draws, generator=generator(seed, "normals"), dtype=torch.float64)
    rho = settings.correlation
    total = x + rho * x + math.sqrt(1 - rho**2) * y
    variance_error = abs(total.var().item() / 2 - 1)
    return Finding(
        conclusions=(
            Conclusion(
                "|variance of the sum / 2 - 1|", "<=", 5 * math.sqrt(2 / settings.draws), variance_error
            ),
        ),
        remark="The variables must be independent. The paper applies it to a state and to noise that are.",
    )


@claim(
    "P5/fact-b.4",
    nature="misprint",
    plain="The variance of a number is printed as a matrix.",
    failure=Failure(
        cause="P5/fact-b.4",
        consequence="used without the I_d",
        first_size="d = 2",
        root="a stray identity matrix",
    ),
    proof=proofs_of_slips.fact_b_4,
    place="Appendix B, Fact B.4",
    title="Inner product with a normal vector",
    quote="for any fixed u in R^d, we can show that: <x, u> ~ N(0, sigma^2 ||u||_2^2 I_d)",
    quick={"d": 6, "draws": 4000, "sigma": 1.0},
)
def inner_products(settings: Settings, seed: int) -> Finding:
    """<x, u> has the covariance sigma^2 |u|^2 I_d, of trace d sigma^2 |u|^2, for x ~ N(0, sigma^2 I_d)."""
    rng = generator(seed, "vectors")
    x = settings.sigma * torch.randn(settings.draws, settings.d, generator=rng, dtype=torch.float64)
    u = torch.randn(settings.d, generator=rng, dtype=torch.float64)
    variance = (x @ u).var().item()
    printed = settings.d * settings.sigma**2 * u.square().sum().item()
    variance_error = abs(variance / printed - 1)
    return Finding(
        conclusions=(
            Conclusion("|variance / printed - 1|", "<=", 5 * math.sqrt(2 / settings.draws), variance_error),
        ),
        remark="<x, u> is a number; the factor I_d is a slip. At d = 1 nothing changes.",
    )


@claim(
    "P5/fact-b.7",
    nature="misprint",
    plain="Weyl's inequality needs symmetric matrices.",
    failure=Failure(
        cause="P5/fact-b.7",
        consequence="used for symmetric kernels only",
        first_size="n = 2",
        root="symmetry is left out",
    ),
    proof=proofs_of_slips.fact_b_7,
    ours=("for matrices that are not symmetric, as printed",),
    place="Appendix B, Fact B.7",
    title="The least eigenvalue of a changed matrix",
    quote="For two matrices H, H~ in R^{n x n}, we have: lambda_min(H~) >= lambda_min(H) - ||H - H~||_F",
    quick={"change": 0.25, "symmetric": False},
)
def least_eigenvalues(settings: Settings, seed: int) -> Finding:
    """lambda_min(H~) >= lambda_min(H) - |H - H~| for all square matrices with real eigenvalues."""
    H = torch.tensor([[0.0, 1.0], [float(settings.symmetric), 0.0]], dtype=torch.float64)
    moved = H.clone()
    moved[1, 0] += settings.change
    if settings.symmetric:
        moved[0, 1] += settings.change
    low, after = (torch.linalg.eigvals(matrix).real.min().item() for matrix in (H, moved))
    excess = after - low + (H - moved).norm().item()
    return Finding(
        conclusions=(Conclusion("lambda_min(H~) less the bound", ">=", -1e-12, excess),),
        remark="It holds for symmetric matrices, and the kernels to which the paper applies it are "
        "symmetric.",
    )


@claim(
    "P5/fact-b.9",
    nature="quotation",
    plain="Hoeffding's bound, tails, exponentials and geometric sums are quoted rightly.",
    ours=("C = 2 in B.5",),
    place="Appendix B, Lemma B.1, Facts B.5, B.6 and B.9",
    title="Hoeffding's bound, tails, exponentials and geometric sums",
    quote="sum_{tau=1}^t (1-x)^tau <= -1/log(1-x) <= 2/x",
    quick={"n": 20, "draws": 20_000, "deltas": [0.09, 0.01, 1e-4, 1e-9], "C": 2.0, "terms": 500},
)
def facts_that_hold(settings: Settings, seed: int) -> Finding:
    """Hoeffding's bound (B.1), |X| <= C sigma sqrt(log(1/delta)) with probability 1 - delta for delta < 0.1
    (B.5, C = 2), exp(x) = 1 + x + Theta(1) x^2 for |x| < 0.01 (B.6), and the bounds on a geometric sum (B.9).
    """
    coins = torch.randint(0, 2, (settings.draws, settings.n), generator=generator(seed, "coins")).double()
    t = 0.2 * settings.n
    above = ((coins.sum(1) - settings.n / 2).abs() >= t).double().mean().item()
    x = torch.linspace(-0.0099, 0.0099, 100, dtype=torch.float64)
    square = (torch.expm1(x) - x) / x.square()
    rates = torch.linspace(0.01, 0.99, 99, dtype=torch.float64)
    sums = ((1 - rates)[:, None] ** torch.arange(1, settings.terms + 1)).sum(1)
    logs = -1 / torch.log1p(-rates)
    tails = [
        math.erfc(settings.C * math.sqrt(math.log(1 / delta)) / math.sqrt(2)) / delta
        for delta in settings.deltas
    ]
    curvature_error = (square - 0.5).abs().max().item()
    hoeffding = 2 * math.exp(-2 * t**2 / settings.n)
    twice = (logs * rates / 2).max().item()
    return Finding(
        hypotheses=(Hypothesis("largest delta", "<=", 0.1, max(settings.deltas)),),
        conclusions=(
            Conclusion("B.1: P / bound", "<=", 1.0, above / hoeffding, part="B.1"),
            Conclusion("B.5: largest P(outside) / delta", "<=", 1.0, max(tails), part="B.5"),
            Conclusion(
                "B.6: largest |(exp(x) - 1 - x) / x^2 - 1/2|", "<=", 0.01, curvature_error, part="B.6"
            ),
            Conclusion("B.9: largest sum / (-1/log(1-x))", "<=", 1.0, (sums / logs).max().item(), part="B.9"),
            Conclusion("B.9: largest (-1/log(1-x)) / (2/x)", "<=", 1.0, twice, part="B.9"),
        ),
    )


@claim(
    "P5/lemma-i.5",
    plain="""Printed: outputs stay near their start. True: they move by order sqrt(m) R, because signs and
        moves depend on each other. With the R of Lemma H.4 the bound would forbid convergence.""",
    failure=Failure(
        cause="P5/lemma-i.5",
        consequence="Lemma I.3 falls, and with it Theorem 5.2, Parts 1 and 2, Theorem 5.3 and the proof of "
        "Proposition 6.3, Part 1",
        first_size="in the limit only: at widths in reach the printed inequality is kept by seventy decades",
        root="Hoeffding's inequality is applied to signs and moves that are not independent",
    ),
    proof=proofs.lemma_i_5,
    place="Appendix I, Lemma I.5",
    title="Outputs stay concentrated",
    quote="|F_i(t) - F_i(0)| <= exp(O(B^2 D)) O(R)",
    quick={**LAZY, **PAIR, "widths": [32, 128, 512, 2048], "steps": 3, "trained_widths": [32, 96, 256, 1024]},
    full={"widths": [32, 128, 512, 2048, 8192]},
    seconds=1.2,
    rests_on=("P5/lemma-k.3",),
)
def concentration(settings: Settings, seed: int) -> Finding:
    """If no weight moved by more than R < 0.01/B^2, then (1) |F_i(t) - F_i(0)| <= exp(O(B^2 D)) O(R) and (2)
    |F(t) - F(0)| <= exp(O(B^2 D)) O(R sqrt(n)), with D = sqrt(log(m/delta)): a factor that grows more slowly
    than any power of the width.
    """
    widths = settings.widths
    moved = [output_change(settings | {"m": m}, seed) for m in widths]
    B, _ = sizes_of_data_and_weights(settings)
    farthest = max(move.R for move in moved) * B**2
    largest = [move.changes.max().item() / move.R for move in moved]
    norms = [move.changes.norm().item() / (move.R * math.sqrt(settings.n)) for move in moved]
    trained = settings.trained_widths
    ends = [converge(settings | {"m": m}, seed) for m in trained]
    changes = [end.output_change for end in ends]
    moves = [end.run.movement[-1].item() for end in ends]
    growth = "growth exponent in m of"
    converged = f"{growth} |F(t) - F(0)| / R after convergence on two windows"
    return Finding(
        hypotheses=tuple(Hypothesis("largest R B^2", "<=", 0.01, farthest, part=part) for part in "12"),
        conclusions=(
            no_growth(f"(1) {growth} largest |F_i(t) - F_i(0)| / R", widths, largest, part="1"),
            no_growth(f"(2) {growth} |F(t) - F(0)| / (R sqrt(n))", widths, norms, part="2"),
            Conclusion.of_trend(converged, ">=", 0.5, trained, ratios(changes, moves), claimed=False),
        ),
        numbers={
            **by_size("|F(t) - F(0)| / R at m = {}", widths, largest),
            **by_size("|F(t) - F(0)| after convergence, m = {}", trained, changes),
            **by_size("R after convergence, m = {}", trained, moves),
        },
        remark="The factor grows like the square root of m: after a step, signs and moves are not "
        "independent, so that Hoeffding's inequality does not apply as in the proof. At widths in "
        "reach the printed inequality is kept by seventy decades, and it fails in the limit only; "
        "exp(C sqrt(log m)) does not keep up with sqrt(m).",
    )


@dataclass(frozen=True)
class OutputChange:
    """|F_i(t) - F_i(0)| (n,), the largest move R of a weight, and |x_id| (range of x_i)^2 / 4 (n,)."""

    changes: Tensor
    R: float
    slopes: Tensor


def output_change(settings: Settings, seed: int) -> OutputChange:
    """After a few steps so small that no weight moves by more than 0.01/B^2."""
    p = scalar_regression(settings, seed)
    B, _ = sizes_of_data_and_weights(settings)
    steepest = p.network.gradient(p.X, p.y).abs().max().item()
    rate = 0.0099 / B**2 / (settings.steps * steepest)
    run = p.network.descend(p.X, p.y, rate, settings.steps)
    changes = (run.final.forward(p.X) - p.network.forward(p.X)).abs()[:, 0]
    slopes = p.X[:, -1].abs() * (p.X.amax(dim=1) - p.X.amin(dim=1)).square() / 4
    return OutputChange(changes, run.movement[-1].item(), slopes)


@claim(
    "P5/lemma-i.5-repaired",
    plain="Outputs move by at most sqrt(m) R.",
    sharp="sharp in order: moving every weight by R with the sign of a_r attains it up to the mean variance",
    title="Outputs move by at most sqrt(m) R",
    derivation="""By Lemma E.5 |dF_i/dw_r| = m^(-1/2) |x_id| Var_(S_ir)(x_i), and a variance is at most a
        quarter of the squared range. Summed over m neurons that move by R at most this is the bound. Moving
        each w_r by R in the direction a_r sign(x_id) attains sqrt(m) R |x_id| times the mean variance.""",
    quick={**LAZY, "steps": 3},
    sizes=({"m": 64}, {"m": 1024}),
)
def outputs_move_with_the_width(settings: Settings, seed: int) -> Finding:
    """If no weight moves by more than R, then |F_i(t) - F_i(0)| <= sqrt(m) R |x_id| (max_k x_ik - min_k
    x_ik)^2 / 4, and no factor smaller than sqrt(m) will do.
    """
    move = output_change(settings, seed)
    ratio = (move.changes / (math.sqrt(settings.m) * move.R * move.slopes)).max().item()
    return Finding(
        conclusions=(
            Conclusion("largest |F_i(t) - F_i(0)| / bound", "<=", 1.0, ratio),
            Conclusion("the same from below: the order is sqrt(m)", ">=", 0.02, ratio),
        )
    )
