"""Theorem 3.2 (I.2) and Lemmas I.3 to I.5: convergence of gradient descent."""

import math

import torch
from torch import Tensor

from attangent.audit import Conclusion, Failure, Figure, Finding, Hypothesis, Series, Settings, claim
from attangent.kernels import Prediction, Trajectory, predict_training
from attangent.papers.common.bounds import LOG10_E, comparison, log10
from attangent.papers.common.descent import gradient_line, steps_to
from attangent.papers.common.figures import plot
from attangent.papers.common.sizes import by_size, no_growth
from attangent.papers.p1_prefix.claims.prefix_regression import PrefixRegression, limit_ratio
from attangent.papers.p1_prefix.proofs import kernel

SLOW_SIZES = {
    "m": 4096,
    "sigma": 1.0,
    "init": "independent",
    "rate": 1.0,
    "delta": 0.05,
    "epsilon": 0.01,
    "rhos": [0.4, 0.2, 0.1, 0.05],
}
"""The family of `PrefixRegression.slow`, with the paper's initialisation."""


def frozen(p: PrefixRegression, settings: Settings) -> Prediction:
    """Predict gradient descent with the exact kernel at initialisation, its limit for a long prefix."""
    return predict_training(p.exact.kernel, p.residual, p.rate(settings.rate), width=p.network.width)


def promised_steps(p: PrefixRegression, settings: Settings) -> float:
    """log(nd/eps) / (m eta lambda) with the printed lambda: the theorem's T with the constant 1."""
    return math.log(p.size / settings.epsilon) / p.contraction(settings.rate, p.paper)


@claim(
    "P1/theorem-3.2",
    place="Section 3.3, Theorem 3.2 (Theorem I.2)",
    title="Prefix learning converges to an arbitrarily small loss",
    quote="""T = Omega((m eta lambda)^-1 log(nd/eps)). Then, after T iterations of update (Eq. (5)), we have
        L(W(T)) <= eps holds with probability at least 1 - delta.""",
    rests_on=("P1/lemma-i.3", "P1/lemma-i.4", "P1/lemma-i.6"),
    plain="""The main theorem on training. Printed with the smallest eigenvalue of a kernel that is not
        the network's; no constant in front of T is enough. With the exact kernel, and pairs of opposite
        signs at the start or log m in T, it is true for an explicit m.""",
    failure=Failure(
        "P1/lemma-i.4",
        "Theorem 3.2 falls as printed; it is true with the exact kernel, log m or pairs of signs",
        "no size for a given constant: with F(0) = 0, eps = 0.01 and m to infinity the needed constant is "
        "1.9 at rho = 0.4 and 112 at rho = 0.05",
    ),
    proof=kernel.too_few_steps,
    ours=(
        "the limit of long prefixes first, then rho to 0; at a fixed poly in m = lambda^-2 poly take "
        "rho^2 >> poly^-1/2",
    ),
    quick={**SLOW_SIZES, "lengths": [1024, 4096, 16384]},
    full={"m": 65536, "lengths": [4096, 16384, 65536], "rhos": [0.4, 0.2, 0.1, 0.05, 0.025]},
    seconds=0.8,
)
def convergence(settings: Settings, seed: int) -> Finding:
    """Let lambda > 0 be lambda_min of the kernel of Definition G.1, m >= lambda^-2 poly(n, d, e^B) and eta <=
    lambda / (m poly(n, d, e^B)). Then L(W(T)) <= eps after T = Omega((m eta lambda)^-1 log(nd/eps)) steps of
    gradient descent.
    """
    # On x_i = rho e_i the constant that T needs grows like rho^-2, so no constant is enough.
    family = [PrefixRegression.slow(rho, settings, seed) for rho in settings.rhos]
    needed = [steps_to(frozen(p, settings), settings.epsilon) for p in family]
    constants = [steps / promised_steps(p, settings) for steps, p in zip(needed, family, strict=True)]
    limits = [limit_ratio(p.X, settings.sigma) for p in family]
    inverse = [1 / rho for rho in settings.rhos]
    p = family[1]
    rho = settings.rhos[1]
    at = f"rho = {rho:g}"
    steps = round(promised_steps(p, settings))
    run = p.train(settings | {"steps": steps})
    left = 2 * run.loss[-1].item()
    longer = [_constant(settings | {"m": m}, rho, seed) for m in settings.lengths]
    return Finding(
        hypotheses=family[-1].conditions(settings),
        conclusions=(
            no_growth("constant that T needs to reach epsilon, over 1/rho", inverse, constants),
            Conclusion(
                f"|F(T) - Y|^2 after T steps with the constant 1, {at}",
                "<=",
                settings.epsilon,
                left,
                threshold="ours",
            ),
            comparison(
                f"constant that T needs at {at}, longest prefix / shortest", "<=", 0.5, longer[-1] / longer[0]
            ),
        ),
        numbers={
            **by_size("constant that T needs at rho = {:g}", settings.rhos, constants),
            **by_size(
                "lambda of the exact / of the printed kernel, rho = {:g}, infinite m", settings.rhos, limits
            ),
            f"steps T at {at}": steps,
            "|F(T) - Y|^2 with the frozen kernel": 2 * float(frozen(p, settings).loss(steps)),
        },
        figures=(_constants_figure(inverse, constants),),
        remark="The points are rho e_i and the targets an antisymmetric matrix with zero row sums. The "
        "error falls at the rate of the exact kernel, 1.5 rho^4, but lambda is that of the printed kernel, "
        "rho^2. So no constant is enough for all rho, and a longer prefix does not help.",
    )


def _constant(settings: Settings, rho: float, seed: int) -> float:
    p = PrefixRegression.slow(rho, settings, seed)
    return steps_to(frozen(p, settings), settings.epsilon) / promised_steps(p, settings)


def _constants_figure(inverse: list[float], constants: list[float]) -> Figure:
    return plot(
        "The constant that T needs",
        ("1 / rho", "steps to epsilon / (log(nd/epsilon) / (m eta lambda))"),
        Series.of("needed", inverse, constants),
        Series.of("constant", inverse, [constants[0]] * len(inverse), "bound"),
    )


@claim(
    "P1/lemma-i.4",
    place="Appendix I.3, Lemma I.4",
    title="Induction part 2: every step reduces the loss",
    quote="|F(t+1) - y|_F^2 <= (1 - m eta lambda/2) |F(t) - y|_F^2 (Eq. 21)",
    rests_on=("P1/lemma-h.1", "P1/lemma-h.2", "P1/lemma-h.3", "P1/claim-g.4"),
    plain="""Printed: every step removes m eta lambda/2 of the loss. That is the rate of the printed
        kernel; the exact kernel can be slower by any factor. Theorem 3.2 falls for this reason.""",
    failure=Failure(
        "P1/lemma-h.3",
        "Theorem 3.2 falls",
        "rho = 0.42 and below in the family x_i = rho e_i, in the limit of long prefixes",
    ),
    proof=kernel.slow_step,
    quick=SLOW_SIZES,
    full={"m": 65536, "rhos": [0.4, 0.2, 0.1, 0.05, 0.025]},
)
def loss_induction(settings: Settings, seed: int) -> Finding:
    """If weights, loss and gradient satisfy their bounds up to step t, then |F(t+1) - Y|_F^2 <= (1 - m eta
    lambda/2) |F(t) - Y|_F^2, with lambda of the kernel of Definition G.1.
    """
    # On x_i = rho e_i the progress of a step in units of m eta lambda/2 goes to 0 like rho^2.
    family = [PrefixRegression.slow(rho, settings, seed) for rho in settings.rhos]
    taken = [late_progress(p, settings) / (p.contraction(settings.rate, p.paper) / 2) for p in family]
    inverse = [1 / rho for rho in settings.rhos]
    kept = max(loss_before(p, settings) for p in family)
    return Finding(
        hypotheses=(
            *family[-1].conditions(settings),
            Hypothesis("largest |F(i) - Y|^2 / its bound up to step t, the premise", "<=", 1 + 1e-9, kept),
        ),
        conclusions=(
            Conclusion.of_trend(
                "progress of a step / (m eta lambda/2), over 1/rho", ">=", 0.0, inverse, taken
            ),
            Conclusion(
                f"progress of a step / (m eta lambda/2), rho = {settings.rhos[-1]:g}", ">=", 1.0, taken[-1]
            ),
        ),
        numbers=by_size("progress / (m eta lambda/2), rho = {:g}", settings.rhos, taken),
        figures=(
            plot(
                "Progress of a step: fraction of the squared error it removes",
                ("1 / rho", "in units of m eta lambda/2"),
                Series.of("measured", inverse, taken),
                Series.of("printed", inverse, [1.0] * len(inverse), "bound"),
            ),
        ),
        remark="Lemmas H.4 and H.5 neglect C0 and C12, which are as large as the progress itself; see "
        "P1/lemma-h.3. The kernel is frozen at initialisation, as in the limit of a long prefix.",
    )


def loss_before(p: PrefixRegression, settings: Settings) -> float:
    """max_i |F(i) - Y|^2 / ((1 - m eta lambda/2)^i |F(0) - Y|^2) over steps i up to that of
    `late_progress`.
    """
    last = round(promised_steps(p, settings))
    steps = sorted({round(last * (i / 200) ** 2) for i in range(201)})
    losses = frozen(p, settings).loss(steps)
    share = p.contraction(settings.rate, p.paper) / 2
    bounds = losses[0] * (1 - share) ** torch.tensor(steps).double()
    return (losses / bounds).max().item()


def late_progress(p: PrefixRegression, settings: Settings) -> float:
    """1 - |F(t+1) - Y|^2 / |F(t) - Y|^2 with the frozen kernel, after the number of steps of the theorem."""
    t = round(promised_steps(p, settings))
    now, then = (float(value) for value in frozen(p, settings).loss([t, t + 1]))
    return 1 - then / now


_ORDINARY = {"n": 6, "d": 4, "m": 2048, "sigma": 1.0, "rate": 0.5, "steps": 300, "delta": 0.05}


@claim(
    "P1/lemma-i.3",
    place="Appendix I.2, Lemma I.3",
    title="Induction part 1: the weights stay close to initialisation",
    quote="For t+1 and all r in [m], it holds that: |w_r(t+1) - w_r(0)|_2 <= D.",
    rests_on=("P1/lemma-i.4", "P1/lemma-i.5"),
    plain="""The lemma follows from the condition on the loss and Eq. (22). The proof drops a square root,
        which doubles its sum; e^(20B) absorbs the factor.""",
    proof=kernel.weights_stay,
    quick={**_ORDINARY, "init": "independent", "lengths": [128, 512, 2048, 8192], "steps": 60},
    full={"n": 12, "d": 8, "m": 8192, "steps": 300, "lengths": [512, 2048, 8192, 32768]},
)
def weight_induction(settings: Settings, seed: int) -> Finding:
    """If the loss falls by a factor (1 - m eta lambda/2) per step, no prefix vector moves further than D = 2
    lambda^-1 e^(20B) sqrt(nd) |Y - F(0)|_F / m; the residuals on the way sum to at most 4/(m lambda eta).
    """
    runs = {}
    for m in settings.lengths:
        p = PrefixRegression.draw(settings | {"m": m}, seed)
        runs[m] = p, p.train(settings)
    p, run = runs[settings.lengths[-1]]
    needed = p.guarantee(settings)
    moved = run.movement.max().item()
    units = [_moved_in_units(*runs[m]) for m in settings.lengths]
    unit_name = "root mean square of |w_r(T) - w_r(0)| / (sqrt(nd) |F(0) - Y|)"
    residual = (2 * run.loss).sqrt()
    path = run.rate * residual.sum().item() / residual[0].item()
    shorter = 2 / (p.network.m * p.paper.lambda_min)
    return Finding(
        hypotheses=p.conditions(settings),
        conclusions=(
            Conclusion("largest |w_r(t) - w_r(0)|", "<=", needed.log10_movement, log10(moved), log10=True),
            Conclusion(
                "eta sum_t |F(t) - Y| / |F(0) - Y|, over 4/(m lambda)", "<=", 1.0, path / (2 * shorter)
            ),
            Conclusion.of_trend(f"{unit_name}, over m", "<=", -1.0, settings.lengths, units, claimed=False),
        ),
        numbers={
            "largest weight movement": moved,
            "log10 of D": needed.log10_movement,
            "eta sum_t |F(t) - Y| / |F(0) - Y|": path,
            "its bound in the proof, 2/(m lambda)": shorter,
            "its bound with the missing square root, 4/(m lambda)": 2 * shorter,
        },
        figures=(
            plot(
                "Movement of the prefix",
                ("prefix length m", unit_name),
                Series.of("measured", settings.lengths, units),
                Series.of(
                    "1/m", settings.lengths, [units[0] * settings.lengths[0] / m for m in runs], "bound"
                ),
            ),
        ),
        remark="The proof sums |F(t) - Y| as if it fell like (1 - m eta lambda/2)^t. Only its square does, "
        "which doubles the sum. Eq. (18) has eta 4/(m lambda); the sum is 2/(m lambda).",
    )


def _moved_in_units(p: PrefixRegression, run: Trajectory) -> float:
    """Return the root mean square of the movement in units of sqrt(nd) |F(0) - Y|."""
    moved = (run.final.W - p.network.W).square().sum(dim=0).mean().sqrt().item()
    return moved / (math.sqrt(p.size) * p.residual.norm().item())


@claim(
    "P1/lemma-i.5",
    place="Appendix I.4, Lemma I.5",
    title="Induction part 3: the gradient is bounded",
    quote="|Delta w_r(t)|_2 <= sqrt(nd) exp(11B) |F(t) - Y|_F (Eq. 22)",
    rests_on=("P1/claim-f.12", "P1/lemma-k.1", "P1/lemma-k.2"),
    plain="""The gradient keeps its bound at the smallest B; at ordinary sigma the bound is too loose to
        test.""",
    quick={**_ORDINARY, "init": "independent", "sigma": 0.04},
    full={"n": 12, "d": 8, "m": 8192, "steps": 600},
)
def gradient_induction(settings: Settings, seed: int) -> Finding:
    """At every step |dL/dw_r| <= sqrt(nd) e^(11B) |F - Y|_F. At the learning rate of the theorem a step moves
    no prefix vector by more than 0.01.
    """
    p = PrefixRegression.draw(settings, seed)
    run = p.train(settings)
    needed = p.guarantee(settings)
    residual = (2 * run.loss).sqrt()
    constant = (run.gradient_norm / (math.sqrt(p.size) * residual)).max().item()
    steepest = run.gradient_norm.max().item()
    scaled = run.rate * run.gradient_norm
    largest_step = scaled.max().item()
    at_rate = needed.log10_rate + log10(steepest)
    step = "eta |dL/dw_r| at the learning rate of"
    return Finding(
        hypotheses=p.conditions(settings),
        conclusions=(
            gradient_line("Eq. 22", 11 * needed.B * LOG10_E, log10(constant)),
            Conclusion(f"{step} the theorem", "<=", -2.0, at_rate, log10=True, part="step"),
            comparison(f"{step} this run", "<=", 0.01, largest_step),
        ),
        numbers={"measured constant of Eq. 22": constant, "largest |dL/dw_r|": steepest},
        figures=(_steps_figure(scaled),),
        remark="sigma is such that B = 1, the smallest value; at sigma = 1 the bound cannot fail.",
    )


def _steps_figure(scaled: Tensor) -> Figure:
    return plot(
        "Largest step of a prefix vector",
        ("step", "eta |dL/dw_r|"),
        Series.of("measured", range(len(scaled)), scaled),
        Series.of("0.01", range(len(scaled)), torch.full_like(scaled, 0.01), "bound"),
        log="y",
    )
