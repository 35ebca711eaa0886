"""Theorem 3.2 (I.2) and Lemmas I.3-I.5: training itself."""

import math

import torch
from torch import Tensor

from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Series
from attangent.audit.papers.measures.bounds import LOG10_E, first_above, worst_ratio
from attangent.audit.papers.p1.prefix_regression import (
    PrefixRegression,
    Spectrum,
    hard_regression,
    limit_ratio,
    log10,
    ordinary_regression,
    properties,
)
from attangent.audit.registry import claim
from attangent.kernels import Trajectory, log_gap, predict_training

_SLACK = 1 + 1e-9
_HARD = {
    "n": 5,
    "d": 4,
    "m": 4096,
    "sigma": 0.3,
    "rate": 1.0,
    "steps": 400,
    "delta": 0.05,
    "candidates": 100,
}


@claim(
    "P1/theorem-3.2",
    place="Section 3.3, Theorem 3.2 (Theorem I.2)",
    title="Gradient descent on a long prefix fits any data",
    statement="""With lambda = lambda_min > 0 of the kernel of Definition G.1, a prefix of length
        lambda^-2 poly(n, d, e^B) and a rate lambda / (m poly(n, d, e^B)), the squared error falls by
        (1 - m eta lambda / 2) a step, so that it is at most epsilon after about
        log(nd/epsilon) / (m eta lambda) steps.""",
    quick=_HARD,
    full={"m": 65536, "steps": 3000, "candidates": 1000},
    seconds=0.7,
)
def convergence(settings: Settings, seed: int) -> Finding:
    p = hard_regression(settings, seed)
    run = p.train(settings)
    printed, exact = (_bounds(p, settings, run, spectrum) for spectrum in (p.paper, p.exact))
    predicted = predict_training(p.exact.kernel, p.residual, run.rate, width=p.network.width)
    steps = range(run.steps + 1)
    return Finding(
        hypotheses=properties(p, settings),
        conclusions=(
            _kept("largest |F(t) - Y|^2 / (1 - m eta lambda/2)^t |F(0) - Y|^2", run.loss, printed),
            _kept("the same with lambda of the exact kernel J J'/m", run.loss, exact, claimed=False),
            Conclusion(
                "lambda of the exact / of the printed kernel at infinite length",
                ">=",
                0.25,
                limit_ratio(p.X, settings.sigma),
                claimed=False,
            ),
        ),
        numbers={
            "L(T) / L(0)": (run.loss[-1] / run.loss[0]).item(),
            "bound with the printed lambda": (printed[-1] / run.loss[0]).item(),
            "bound with the exact lambda": (exact[-1] / run.loss[0]).item(),
            "predicted from the exact kernel": (predicted.loss(run.steps) / run.loss[0]).item(),
            "largest |log L - log predicted|": log_gap(run.loss, predicted.loss(steps)),
            "lambda, printed kernel": p.paper.lambda_min,
            "lambda, exact kernel": p.exact.lambda_min,
        },
        figures=(_errors_figure(run, predicted.loss(steps[::20]), printed, exact),),
        remark="The targets lie along the slowest direction of the exact kernel. The error falls by about "
        "(1 - m eta lambda)^2 with the exact lambda, so that the printed rate fails wherever the exact "
        "lambda is below a quarter of the printed one; as the limit shows, a longer prefix does not help.",
    )


def _bounds(p: PrefixRegression, settings: Settings, run: Trajectory, spectrum: Spectrum) -> Tensor:
    """(1 - m eta lambda/2)^t L(0)."""
    t = torch.arange(len(run.loss)).double()
    return run.loss[0] * (1 - p.contraction(settings.rate, spectrum) / 2) ** t


def _kept(name: str, values: Tensor, bounds: Tensor, claimed: bool = True) -> Conclusion:
    return Conclusion(
        name,
        "<=",
        _SLACK,
        worst_ratio(values, bounds),
        claimed=claimed,
        first_violation=first_above(values, bounds * _SLACK),
    )


@claim(
    "P1/lemma-i.4",
    place="Appendix I.3, Lemma I.4",
    title="Induction for the loss",
    statement="""If the weights, the loss and the gradient kept their bounds up to step t, then at step t+1
        the squared error is at most (1 - m eta lambda/2)^(t+1) of the first; each step leaves at most
        (1 - m eta lambda/2) of it (Eq. 21), lambda being that of the kernel of Definition G.1.""",
    quick={**_HARD, "steps": 100},
    full={"m": 65536, "steps": 1000, "candidates": 1000},
    seconds=0.3,
)
def loss_induction(settings: Settings, seed: int) -> Finding:
    p = hard_regression(settings, seed)
    run = p.train(settings)
    left = run.loss[1:] / run.loss[:-1]
    allowed = {
        name: 1 - p.contraction(settings.rate, spectrum) / 2
        for name, spectrum in {"printed": p.paper, "exact": p.exact}.items()
    }
    return Finding(
        hypotheses=properties(p, settings),
        conclusions=(
            Conclusion(
                "Eq. 21: largest share of |F - Y|^2 that a step leaves",
                "<=",
                allowed["printed"],
                left.max().item(),
                first_violation=first_above(left, torch.full_like(left, allowed["printed"])),
            ),
            _kept(
                "largest |F(t) - Y|^2 / (1 - m eta lambda/2)^t |F(0) - Y|^2",
                run.loss,
                _bounds(p, settings, run, p.paper),
            ),
            Conclusion(
                "Eq. 21 with lambda of the exact kernel",
                "<=",
                allowed["exact"],
                left.max().item(),
                claimed=False,
            ),
        ),
        numbers={"lambda, printed kernel": p.paper.lambda_min, "lambda, exact kernel": p.exact.lambda_min},
        figures=(_progress_figure(1 - left, {name: 1 - share for name, share in allowed.items()}),),
        remark="Lemma H.5 drops C_{1,2}, a term of the order of the progress itself; see P1/lemma-h.3.",
    )


_ORDINARY = {"n": 6, "d": 4, "m": 2048, "sigma": 1.0, "rate": 0.5, "steps": 300, "delta": 0.05}


@claim(
    "P1/lemma-i.3",
    place="Appendix I.2, Lemma I.3",
    title="Induction for the weights",
    statement="""If the loss falls by (1 - m eta lambda/2) a step, no prefix vector ever moves further than
        D = 2 lambda^-1 e^(20B) sqrt(nd) |Y - F(0)|_F / m.""",
    quick=_ORDINARY,
    full={"n": 12, "d": 8, "m": 16384, "steps": 3000},
    seconds=0.4,
)
def weight_induction(settings: Settings, seed: int) -> Finding:
    p = ordinary_regression(settings, seed)
    run = p.train(settings)
    needed = p.guarantee(settings)
    moved = run.movement.max().item()
    without_exponential = needed.log10_movement - 20 * needed.B * LOG10_E
    residual = (2 * run.loss).sqrt()
    path = run.rate * residual.sum().item() / residual[0].item()
    shorter = 2 / (settings.m * p.paper.lambda_min)
    steps = range(run.steps + 1)
    return Finding(
        hypotheses=properties(p, settings),
        conclusions=(
            Conclusion("largest |w_r(t) - w_r(0)|", "<=", needed.log10_movement, log10(moved), log10=True),
            Conclusion(
                "largest |w_r(t) - w_r(0)| without the factor e^(20B)",
                "<=",
                without_exponential,
                log10(moved),
                log10=True,
                claimed=False,
            ),
        ),
        numbers={
            "largest weight movement": moved,
            "log10 of D": needed.log10_movement,
            "eta sum_t |F(t) - Y| / |F(0) - Y|": path,
            "the proof's bound 2/(m lambda) on it": shorter,
            "with the square root it drops, 4/(m lambda)": 2 * shorter,
        },
        figures=(
            Figure(
                "Movement of the prefix",
                "step",
                "largest |w_r(t) - w_r(0)|",
                (
                    Series.of("measured", steps, run.movement),
                    Series.of("D without e^(20B)", steps, [10**without_exponential] * len(steps), "bound"),
                ),
            ),
        ),
        remark="The proof sums |F(t) - Y| as if it fell like (1 - m eta lambda/2)^t; only its square does, "
        "which doubles the sum.",
    )


@claim(
    "P1/lemma-i.5",
    place="Appendix I.4, Lemma I.5",
    title="Induction for the gradient",
    statement="""At every step |dL/dw_r| is at most sqrt(nd) e^(11B) |F - Y|_F, and at the theorem's rate a
        step moves no prefix vector by more than 0.01.""",
    quick=_ORDINARY,
    full={"n": 12, "d": 8, "m": 16384, "steps": 3000},
    seconds=0.4,
)
def gradient_induction(settings: Settings, seed: int) -> Finding:
    p = ordinary_regression(settings, seed)
    run = p.train(settings)
    needed = p.guarantee(settings)
    residual = (2 * run.loss).sqrt()
    constant = (run.gradient_norm / (math.sqrt(p.size) * residual)).max().item()
    steepest = run.gradient_norm.max().item()
    scaled = run.rate * run.gradient_norm
    return Finding(
        hypotheses=properties(p, settings),
        conclusions=(
            Conclusion(
                "Eq. 22: largest |dL/dw_r| / (sqrt(nd) |F - Y|_F)",
                "<=",
                11 * needed.B * LOG10_E,
                log10(constant),
                log10=True,
            ),
            Conclusion(
                "eta |dL/dw_r| at the theorem's rate",
                "<=",
                -2.0,
                needed.log10_rate + log10(steepest),
                log10=True,
            ),
            Conclusion("eta |dL/dw_r| at the rate used here", "<=", 0.01, scaled.max().item(), claimed=False),
        ),
        numbers={"constant of Eq. 22 measured": constant, "largest |dL/dw_r|": steepest},
        figures=(
            Figure(
                "Largest step of a prefix vector",
                "step",
                "eta |dL/dw_r|",
                (
                    Series.of("measured", range(len(scaled)), scaled),
                    Series.of("0.01", range(len(scaled)), torch.full_like(scaled, 0.01), "bound"),
                ),
                log_y=True,
            ),
        ),
    )


def _errors_figure(run: Trajectory, predicted: Tensor, printed: Tensor, exact: Tensor) -> Figure:
    """Errors relative to the first; `predicted` is of every twentieth step."""
    steps, first = range(run.steps + 1), run.loss[0]
    return Figure(
        "Squared error against the bounds",
        "step",
        "|F - Y|^2 / |F(0) - Y|^2",
        (
            Series.of("trained", steps, run.loss / first),
            Series.of("from the exact kernel", steps[::20], predicted / first, "points"),
            Series.of("bound, printed lambda", steps, printed / first, "bound"),
            Series.of("bound, exact lambda", steps, exact / first, "bound"),
        ),
        log_y=True,
    )


def _progress_figure(taken: Tensor, guaranteed: dict[str, float]) -> Figure:
    steps = range(1, len(taken) + 1)
    return Figure(
        "What a step takes away",
        "step",
        "1 - |F(t+1) - Y|^2 / |F(t) - Y|^2",
        (
            Series.of("measured", steps, taken),
            *(
                Series.of(f"m eta lambda/2, {name} kernel", steps, [share] * len(steps), "bound")
                for name, share in guaranteed.items()
            ),
        ),
        log_y=True,
    )
