"""Lemma I.5: whether outputs stay near their start."""

import math
from dataclasses import dataclass

from torch import Tensor

from attangent.audit import Conclusion, Failure, Finding, Hypothesis, Settings, claim
from attangent.papers.p5_forecasting.claims import proofs
from attangent.papers.p5_forecasting.claims.model import LAZY
from attangent.papers.p5_forecasting.claims.scalar_regression import (
    PAIR,
    converge,
    scalar_regression,
    sizes_of_data_and_weights,
)


@claim(
    "P5/lemma-i.5",
    nature="lemma",
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
    statement="""If no weight moved by more than R < 0.01/B^2, then (1) |F_i(t) - F_i(0)| <= exp(O(B^2 D))
        O(R) and (2) |F(t) - F(0)| <= exp(O(B^2 D)) O(R sqrt(n)), with D = sqrt(log(m/delta)): a factor that
        grows more slowly than any power of the width.""",
    quick={**LAZY, **PAIR, "widths": [32, 128, 512, 2048], "steps": 3, "trained_widths": [32, 96, 256, 1024]},
    full={"widths": [32, 128, 512, 2048, 8192]},
    seconds=1.2,
    rests_on=("P5/lemma-k.3",),
)
def concentration(settings: Settings, seed: int) -> Finding:
    moved = [output_change(settings | {"m": m}, seed) for m in settings.widths]
    B, _ = sizes_of_data_and_weights(settings)
    ends = {m: converge(settings | {"m": m}, seed) for m in settings.trained_widths}
    return Finding(
        hypotheses=(
            Hypothesis("largest R B^2", "<=", 0.01, max(move.R for move in moved) * B**2, part="1"),
            Hypothesis("largest R B^2", "<=", 0.01, max(move.R for move in moved) * B**2, part="2"),
        ),
        conclusions=(
            Conclusion.of_trend(
                "(1) growth exponent in m of largest |F_i(t) - F_i(0)| / R",
                "<=",
                0.0,
                settings.widths,
                [move.changes.max().item() / move.R for move in moved],
                part="1",
            ),
            Conclusion.of_trend(
                "(2) growth exponent in m of |F(t) - F(0)| / (R sqrt(n))",
                "<=",
                0.0,
                settings.widths,
                [move.changes.norm().item() / (move.R * math.sqrt(settings.n)) for move in moved],
                part="2",
            ),
            Conclusion.of_trend(
                "growth exponent in m of |F(t) - F(0)| / R after convergence on two windows",
                ">=",
                0.5,
                settings.trained_widths,
                [end.output_change / end.run.movement[-1].item() for end in ends.values()],
                claimed=False,
            ),
        ),
        numbers={
            f"|F(t) - F(0)| / R at m = {m}": move.changes.max().item() / move.R
            for m, move in zip(settings.widths, moved, strict=True)
        }
        | {f"|F(t) - F(0)| after convergence, m = {m}": end.output_change for m, end in ends.items()}
        | {f"R after convergence, m = {m}": end.run.movement[-1].item() for m, end in ends.items()},
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
    nature="lemma",
    plain="Outputs move by at most sqrt(m) R.",
    sharp="sharp in order: moving every weight by R with the sign of a_r attains it up to the mean variance",
    repairs="P5/lemma-i.5",
    place="ours",
    title="Outputs move by at most sqrt(m) R",
    statement="""If no weight moves by more than R, then |F_i(t) - F_i(0)| <= sqrt(m) R |x_id| (max_k x_ik -
        min_k x_ik)^2 / 4, and no factor smaller than sqrt(m) will do.""",
    derivation="""By Lemma E.5 |dF_i/dw_r| = m^(-1/2) |x_id| Var_(S_ir)(x_i), and a variance is at most a
        quarter of the squared range. Summed over m neurons that move by R at most this is the bound. Moving
        each w_r by R in the direction a_r sign(x_id) attains sqrt(m) R |x_id| times the mean variance.""",
    quick={**LAZY, "steps": 3},
    sizes=({"m": 64}, {"m": 1024}),
    seconds=0.2,
)
def outputs_move_with_the_width(settings: Settings, seed: int) -> Finding:
    move = output_change(settings, seed)
    ratios = move.changes / (math.sqrt(settings.m) * move.R * move.slopes)
    return Finding(
        conclusions=(
            Conclusion("largest |F_i(t) - F_i(0)| / bound", "<=", 1.0, ratios.max().item()),
            Conclusion("the same from below: the order is sqrt(m)", ">=", 0.02, ratios.max().item()),
        )
    )
