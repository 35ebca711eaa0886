"""Theorem 4.2 and Corollary 4.3: gradient descent converges, in how many steps, at which learning rate."""

import math

import torch
from torch import Tensor

from attangent.audit import Conclusion, Failure, Figure, Finding, Hypothesis, Series, Settings, claim
from attangent.kernels import Trajectory, predict_training
from attangent.papers.common.bounds import falling, first_below, log10, never_above, stays_below
from attangent.papers.common.descent import steps_to
from attangent.papers.common.figures import plot
from attangent.papers.common.sizes import by_size, no_growth
from attangent.papers.p2_softmax import proofs
from attangent.papers.p2_softmax.claims.regression import SoftmaxRegression
from attangent.papers.p2_softmax.networks import softmax_limit

_SIZES = {
    "n": 6, "d": 8, "m": 2048, "sigma": 1.0, "rate": 0.5, "delta": 0.05, "epsilon": 0.01,
    "most_steps": 3000,
}  # fmt: skip


@claim(
    "P2/theorem-4.2",
    place="Section 4, Theorem 4.2 (Theorem C.1)",
    title="Gradient descent fits any data",
    quote="after T iterations, with probability at least 1 - delta, we have |F(T) - Y|_F^2 <= eps.",
    rests_on=("P2/lemma-5.3", "P2/lemma-d.1"),
    plain="""Gradient descent fits the data within the promised steps in every run; the width it requires
        is out of reach.""",
    quick={**_SIZES, "d_out": 4},
    full={"n": 12, "d": 16, "m": 8192, "most_steps": 20_000},
    seconds=2.0,
)
def convergence(settings: Settings, seed: int) -> Finding:
    """Let lambda = lambda_min(H*) > 0, a width of order lambda^-2 (nd)^2 e^(18B) log^2(nd/delta) and a rate
    0.1 lambda / (m (nd)^2 e^(16B)). Gradient descent reaches |F - Y|^2 <= epsilon after about log(nd/epsilon)
    / (m eta lambda) steps; the squared error falls by the factor 1 - m eta lambda / 2 per step.
    """
    return _convergence(settings, seed)


@claim(
    "P2/corollary-4.3",
    place="Section 4, Corollary 4.3",
    title="Gradient descent fits any data, scalar outputs",
    quote="after T iterations, with probability at least 1 - delta, we have |F(T) - Y|_2^2 <= eps.",
    rests_on=("P2/theorem-4.2",),
    plain="""Gradient descent fits scalar data within the promised steps in every run; the width it
        requires is out of reach.""",
    quick={**_SIZES, "d_out": 1},
    full={"n": 24, "d": 24, "m": 8192, "most_steps": 20_000},
    seconds=1.0,
)
def scalar_convergence(settings: Settings, seed: int) -> Finding:
    """Theorem 4.2 for one output.

    With a width of order lambda^-2 n^2 e^(18B) log^2(n/delta), gradient descent reaches |F - Y|^2 <= epsilon
    after about log(n/epsilon) / (m eta lambda) steps.
    """
    return _convergence(settings, seed)


def _convergence(settings: Settings, seed: int) -> Finding:
    p = SoftmaxRegression.draw(settings, seed)
    contraction = settings.rate * max(p.lambda_min, 0.0) / p.lambda_max  # m eta lambda
    steps = _promised_steps(contraction, p.size, settings.epsilon)
    run = p.train(settings | {"steps": min(steps, settings.most_steps)})
    squared = 2 * run.loss
    at_the_end = squared[-1].item() if steps <= settings.most_steps or run.diverged else math.nan
    bounds = falling(squared, contraction / 2)
    needed = p.constants(settings)
    return Finding(
        hypotheses=(
            *p.conditions(settings),
            Hypothesis("steps", ">=", needed.log10_steps, math.log10(steps), log10=True),
        ),
        conclusions=(
            Conclusion(
                "|F(T) - Y|^2 after 2 log(nd/eps)/(m eta lambda) steps", "<=", settings.epsilon, at_the_end
            ),
            stays_below("largest |F(t) - Y|^2 / bound (1 - m eta lambda/2)^t", squared, bounds),
        ),
        numbers={
            "lambda_min": p.lambda_min,
            "lambda_max": p.lambda_max,
            "steps promised at this rate": steps,
            "steps needed": first_below(squared, settings.epsilon),
            "log10 of the paper's steps": needed.log10_steps,
            "largest weight movement": run.movement.max().item(),
        },
        figures=(_loss_figure(p, settings, run, bounds),),
    )


def _promised_steps(contraction: float, nd: int, epsilon: float) -> float:
    """Return the steps after which (1 - contraction/2)^t nd <= epsilon."""
    return math.ceil(2 * math.log(nd / epsilon) / contraction) if contraction > 0 else math.inf


def _loss_figure(p: SoftmaxRegression, settings: Settings, run: Trajectory, bounds: Tensor) -> Figure:
    shown = torch.arange(0, run.steps + 1, max(1, run.steps // 300))
    predicted = predict_training(p.kernel, p.residual, run.rate, width=settings.m).loss(shown)
    return plot(
        "Training error",
        ("step", "|F - Y|^2"),
        Series.of("trained", shown, 2 * run.loss[shown]),
        Series.of("from the kernel at the start", shown[::8], 2 * predicted[::8], "points"),
        Series.of("bound of the theorem", shown, bounds[shown], "bound"),
        log="y",
    )


@claim(
    "P2/lemma-5.3",
    place="Section 5, Lemma 5.3 (Lemmas C.2, C.3, C.4)",
    title="Weights, loss and gradient by induction",
    quote="""Weights Induction. |w_r(tau+1) - w_r(0)|_2 <= D. Loss Induction. |F(tau+1) - Y|_F^2 <=
        (1 - m eta lambda/4)^(tau+1) |F(0) - Y|_F^2. Gradient Induction. eta |Delta w_r(tau+1)|_2 <= 0.01""",
    rests_on=("P2/lemma-5.1", "P2/lemma-d.1", "P2/lemma-e.1", "P2/lemma-e.3"),
    plain="""Weights, loss and gradient keep the bounds of the induction in every run; the required width
        is out of reach.""",
    quick={**_SIZES, "d_out": 4, "steps": 200, "widths": [256, 512, 1024, 2048]},
    full={"n": 12, "d": 16, "m": 4096, "steps": 500, "widths": [512, 1024, 2048, 4096]},
    seconds=1.0,
)
def inductions(settings: Settings, seed: int) -> Finding:
    """Suppose that up to step t the weights stay within R, |F - Y|^2 falls by the factor 1 - m eta lambda / 2
    per step, and eta |dL/dw_r| <= 0.01. Then at step t+1 the weights have moved by at most D, |F - Y|^2 is at
    most (1 - m eta lambda / 4)^(t+1) times its first value, and eta |dL/dw_r| <= 0.01 again.
    """
    p = SoftmaxRegression.draw(settings, seed)
    run = p.train(settings)
    needed = p.constants(settings)
    contraction = settings.rate * p.lambda_min / p.lambda_max
    quarter, half = (falling(run.loss, contraction / divisor) for divisor in (4, 2))
    moved = run.movement.max().item()
    scaled_gradient = run.rate * run.gradient_norm
    below = Hypothesis(
        "D below R", "<=", needed.log10_radius, needed.log10_movement, log10=True, in_limit=True
    )
    return Finding(
        hypotheses=(*p.conditions(settings), below),
        conclusions=(
            Conclusion(
                "weights: log10 of the largest movement, at most log10 D",
                "<=",
                needed.log10_movement,
                log10(moved),
                log10=True,
                part="weights",
            ),
            _movement_trend(settings, seed),
            stays_below("loss: largest L(t) / (1 - m eta lambda/4)^t L(0)", run.loss, quarter, part="loss"),
            never_above("gradient: largest eta |dL/dw_r|", 0.01, scaled_gradient, part="gradient"),
            stays_below(
                "loss at the factor that the induction needs: largest L(t) / (1 - m eta lambda/2)^t L(0)",
                run.loss,
                half,
                claimed=False,
            ),
        ),
        numbers={"lambda_min": p.lambda_min, "largest weight movement": moved},
        figures=(_induction_figure(run.loss, quarter, scaled_gradient),),
        remark="The paper assumes a factor of 1 - m eta lambda/2 per step and concludes 1 - m eta lambda/4, "
        "so the induction as stated does not close. The last line measures the stronger factor.",
    )


def _movement_trend(settings: Settings, seed: int) -> Conclusion:
    name = "weights: root mean square of the movement / (sqrt(nd) |F(0) - Y|), over m"
    moved = [_movement(settings | {"m": m}, seed) for m in settings.widths]
    return Conclusion.of_trend(name, "<=", -1.0, settings.widths, moved, part="weights")


def _movement(settings: Settings, seed: int) -> float:
    """Return the root mean square of |w_r(T) - w_r(0)| in units of sqrt(nd) |F(0) - Y|."""
    p = SoftmaxRegression.draw(settings, seed)
    run = p.train(settings)
    moved = (run.final.W - p.network.W).square().sum(dim=0).mean().sqrt().item()
    return moved / (math.sqrt(p.size) * math.sqrt(2 * run.loss[0].item()))


@claim(
    "P2/learning-rate-limit",
    place="Section 4, the rate of Theorem 4.2; Appendix F, Eq. (25)",
    title="The largest stable learning rate",
    kind="ours",
    plain="Gradient descent is stable up to eta m lambda_max = 2, far above the rate of the theorem.",
    quick={
        "n": 6, "d": 8, "d_out": 4, "m": 1024, "sigma": 1.0, "delta": 0.05, "steps": 300, "start": 1e-3,
        "below": [1.0, 1.9, 1.99], "above": [2.01, 2.1], "shown": [1.9, 1.99, 2.01, 2.1],
    },
    full={"m": 2048, "steps": 600},
    seconds=2.0,
)  # fmt: skip
def learning_rate_limit(settings: Settings, seed: int) -> Finding:
    """Descent is stable for eta m lambda_max(H*) < 2 and unstable above.

    The rate of the theorem is sufficient; the largest eigenvalue of the kernel gives the necessary one.
    """
    p = SoftmaxRegression.draw(settings, seed)
    factors = [*settings.below, *settings.above]
    runs = {factor: _errors_along_top(p, settings, factor) for factor in factors}
    below = max(runs[factor].max().item() for factor in settings.below)
    above = min(runs[factor].max().item() for factor in settings.above)
    paper = p.constants(settings).log10_rate
    return Finding(
        hypotheses=(p.is_definite,),
        conclusions=(
            Conclusion(f"largest error, rates up to {max(settings.below)}", "<=", 1.0, below),
            Conclusion(f"largest error, rates from {min(settings.above)}", ">=", 2.0, above),
        ),
        numbers={
            "last error at the largest rate below 2": runs[max(settings.below)][-1].item(),
            "largest error at the smallest rate above 2": above,
            "last error at the largest rate": runs[max(settings.above)][-1].item(),
            "log10 of the paper's rate / the limit": paper - math.log10(p.rate(2.0)),
        },
        figures=(
            plot(
                "Error along the top eigenvector, by eta m lambda_max",
                ("step", "|F(t) - Y| / |F(0) - Y|"),
                *(
                    Series.of(f"{factor}", range(1, len(runs[factor]) + 1), runs[factor] + 1e-18)
                    for factor in settings.shown
                ),
                log="y",
            ),
        ),
        remark="Errors are relative to the first one, rates are in units of 1/(m lambda_max). The targets "
        "lie along the top eigenvector of H*, which becomes unstable first. Above the limit the error "
        "grows until the kernel itself has moved; training may then settle at a smaller lambda_max.",
    )


def _errors_along_top(p: SoftmaxRegression, settings: Settings, factor: float) -> Tensor:
    """Return |F(t) - Y| / |F(0) - Y| from step 1 on, for small targets along the top eigenvector."""
    top = torch.linalg.eigh(p.kernel).eigenvectors[:, -1]
    Y = settings.start * top.reshape(settings.d_out, -1).T
    loss = p.network.descend(p.X, Y, p.rate(factor), settings.steps).loss
    return (loss[1:] / loss[0]).sqrt()


def _induction_figure(loss: Tensor, bound: Tensor, scaled_gradient: Tensor) -> Figure:
    t = range(len(loss))
    return plot(
        "Quantities of the induction",
        ("step", "relative to its start or bound"),
        Series.of("loss / L(0)", t, loss / loss[0]),
        Series.of("(1 - m eta lambda/4)^t", t, bound / loss[0], "bound"),
        Series.of("eta |dL/dw_r| / 0.01", t, scaled_gradient / 0.01),
        log="y",
    )


def close_points(h: float) -> torch.Tensor:
    """Return two unit vectors in the plane at the angle h."""
    return torch.tensor([[1.0, 0.0], [math.cos(h), math.sin(h)]], dtype=torch.float64)


LABELS = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
"""The labels of the two close points."""


def steps_to_fit(h: float, sigma: float, epsilon: float) -> tuple[float, float]:
    """Return lambda at infinite width and the steps to epsilon at the rate 1/lambda_max, for labels +-1."""
    kernel = softmax_limit(close_points(h), sigma=sigma)
    spectrum = torch.linalg.eigvalsh(kernel)
    prediction = predict_training(kernel, LABELS, 1 / spectrum[-1].item())
    return spectrum[0].item(), float(steps_to(prediction, epsilon))


def longest(rows: Tensor) -> float:
    """Return the norm of the longest row."""
    return float(torch.linalg.vector_norm(rows, dim=1).max())


@claim(
    "P2/theorem-4.2-poly",
    place="Section 4, below Theorem 4.2",
    title="poly(nd) neurons and steps fit any data",
    quote="""as we have poly(nd) number of neurons and training steps, the softmax NN can fit any training
        datasets with n number of d-dim training samples""",
    rests_on=("P2/theorem-4.2",),
    nature="remark",
    plain="""Below Theorem 4.2: poly(nd) neurons and steps fit any data. The theorem has 1/lambda in it,
        which no power of nd bounds; it is not affected.""",
    failure=Failure(
        "P2/theorem-4.2-poly",
        "used nowhere: Theorem 4.2 contains lambda",
        "n = d = 2, in the limit of close points",
        root="1/lambda is not a power of nd",
    ),
    proof=proofs.close_points,
    quick={"angles": [0.8, 0.4, 0.2, 0.1, 0.05], "sigma": 1.0, "epsilon": 0.01},
    full={"angles": [0.8, 0.4, 0.2, 0.1, 0.05, 0.025, 0.0125]},
)
def polynomial(settings: Settings, seed: int) -> Finding:
    """A number of steps that is a power of n and d alone suffices to fit any n points in d dimensions."""
    # two points at the angle h with labels +-1: n and d are fixed, the steps grow like h^-2
    fits = [steps_to_fit(h, settings.sigma, settings.epsilon) for h in settings.angles]
    inverse = [1 / h for h in settings.angles]
    steps = [count for _, count in fits]
    return Finding(
        hypotheses=(
            Hypothesis("smallest lambda_min of H*", ">=", 1e-12, min(lam for lam, _ in fits)),
            Hypothesis(
                "largest |x|", "<=", 1 + 1e-12, max(longest(close_points(h)) for h in settings.angles)
            ),
            Hypothesis("largest |y|", "<=", 1.0, longest(LABELS)),
        ),
        conclusions=(no_growth("steps to epsilon over 1/h, n = d = 2", inverse, steps),),
        numbers={f"lambda at h = {h:g}": lam for h, (lam, _) in zip(settings.angles, fits, strict=True)},
        figures=(
            plot(
                "Steps to fit two points of opposite labels",
                ("1 / angle", "steps"),
                Series.of("infinite width", inverse, steps),
            ),
        ),
        remark="1/lambda is not bounded by a power of nd: it becomes arbitrarily large for close points "
        "with different labels. The theorem contains lambda and is not affected. All seeds give the same "
        "result.",
    )


@claim(
    "P2/theorem-4.2-poly-repaired",
    place="Section 4, below Theorem 4.2, repaired",
    title="poly(nd, 1/lambda) steps",
    derivation="Every direction falls by 1 - eta m lambda at least in a step, and (1 - a)^(2T) <= e^(-2aT).",
    nature="remark",
    plain="A number of steps of poly(nd, 1/lambda) is enough.",
    sharp="sharp for labels along the last eigenvector, up to rounding up",
    quick={"angles": [0.8, 0.4, 0.2, 0.1, 0.05], "sigma": 1.0},
    sizes=({"epsilon": 0.01}, {"epsilon": 1e-4}),
)
def steps_with_lambda(settings: Settings, seed: int) -> Finding:
    """In the limit of a wide network log(|Y|^2/epsilon) / (2 eta m lambda) steps suffice: a power of nd and
    1/lambda.
    """
    ratios = []
    for h in settings.angles:
        lam, steps = steps_to_fit(h, settings.sigma, settings.epsilon)
        top = math.cos(h) * math.exp(settings.sigma**2 * math.cos(h)) + math.exp(settings.sigma**2)
        allowed = math.ceil(math.log(2 / settings.epsilon) * top / (2 * lam))
        ratios.append(steps / allowed)
    return Finding(
        conclusions=(Conclusion("largest steps / stated steps", "<=", 1.0, max(ratios)),),
        numbers=by_size("h = {:g}", settings.angles, ratios),
    )
