"""Section 5.1 and Appendices F and H: the kernel of the attention model and training under it."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import jacrev

from attangent._core.random import generator
from attangent.audit import Conclusion, Finding, Hypothesis, Series, Settings, claim
from attangent.kernels import Trajectory
from attangent.papers.common.bounds import LOG10_E, bound_figure, falling, stays_below
from attangent.papers.common.figures import plot
from attangent.papers.p5_forecasting.claims.scalar_regression import (
    CONSTANT,
    ScalarRegression,
    asked,
    exponent,
    log10_poly,
    scalar_regression,
    sizes_of_data_and_weights,
)

_SIZES = {"n": 4, "d": 8, "m": 1024, "noise": 0.01, "delta": 0.05, "rate": 1.0, "steps": 200}
_LARGER = {"m": 2048, "steps": 400}


@claim(
    "P5/definition-f.2",
    plain="""The kernel is the Gram matrix of the gradients. In double precision it is positive definite
        for a handful of windows.""",
    place="Section 5.1 and Appendix F, Definition F.2 and Assumption F.3",
    title="The kernel of the attention model, and when it is positive definite",
    quote="H* := H(0) is a positive definite (PD) matrix, i.e., its minimum eigenvalue lambda > 0",
    quick={"n": 4, "d": 8, "m": 1024, "noise": 0.01, "delta": 0.05, "counts": [2, 4, 8, 16, 32]},
    full={"m": 16384, "counts": [2, 4, 8, 16, 32, 64, 128]},
)
def kernel_definition(settings: Settings, seed: int) -> Finding:
    """The kernel H_ij = (1/m) sum_r x_id x_jd Var_ir(x_i) Var_jr(x_j), with variances under the attention of
    neuron r, is the Gram matrix of the model's gradients; it is assumed to be positive definite.
    """
    p = scalar_regression(settings, seed)
    J = jacrev(lambda w: _printed_model(p, w))(p.network.W).reshape(settings.n, -1)
    distance = ((p.kernel - J @ J.T).norm() / (J @ J.T).norm()).item()
    spectra = {n: scalar_regression(settings | {"n": n}, seed).eigenvalues for n in settings.counts}
    relative = {n: (values[0] / values[-1]).clamp(min=1e-18).item() for n, values in spectra.items()}
    many = spectra[settings.counts[-1]]
    rank = int((many > 1e-13 * many[-1]).sum())
    most = settings.counts[-1]
    ratio = "lambda_min / lambda_max at n ="
    return Finding(
        conclusions=(
            Conclusion("relative distance of H to J J'", "<=", 1e-10, distance),
            Conclusion(f"{ratio} {settings.n}", ">=", 1e-13, p.lambda_min / p.lambda_max),
            Conclusion(f"{ratio} {most}", ">=", 1e-13, relative[most], claimed=False),
        ),
        numbers={"lambda_min": p.lambda_min, f"eigenvalues above 1e-13 lambda_max at n = {most}": rank},
        figures=(
            plot(
                "Smallest eigenvalue against the number of windows",
                ("windows n", "lambda_min / lambda_max"),
                Series.of("measured", list(relative), list(relative.values())),
            ),
        ),
        remark="Each neuron has one weight, and its variance is a smooth function of it: the spectrum of H "
        "falls so fast that in double precision only ten to twenty directions exist, whatever the width. "
        "The assumption is met for a handful of windows only.",
    )


def _printed_model(p: ScalarRegression, w: Tensor) -> Tensor:
    """f(x, w, a) as Section 4.2 prints it, differentiable in w."""
    S = torch.softmax((p.X[:, -1:] * w)[:, :, None] * p.X[:, None, :], dim=2)
    return (S * p.X[:, None, :]).sum(dim=2) @ p.network.a[0] / math.sqrt(p.network.m)


@claim(
    "P5/lemma-5.1",
    plain="The kernel moves little; measured, since the stated R is out of reach.",
    place="Section 5.1, Lemma 5.1 (Lemma F.4)",
    title="Kernel convergence",
    quote="||H(t) - H(0)||_F <= O(nR) exp(O(B^2 D)) and lambda_min(H(t)) >= lambda/2",
    rests_on=("P5/definition-f.2", "P5/lemma-k.3"),
    quick={**_SIZES, "looks": 10},
    full=_LARGER,
)
def kernel_convergence(settings: Settings, seed: int) -> Finding:
    """If no weight moves by more than R <= lambda / (n poly(exp(B^2), exp(D))), the kernel changes by at most
    O(nR) exp(O(B^2 D)) in the Frobenius norm and lambda_min stays at least lambda/2.
    """
    p = scalar_regression(settings, seed)
    at = sorted({round(settings.steps * (i / settings.looks) ** 2) for i in range(settings.looks + 1)})
    run = p.network.descend(p.X, p.y, p.rate(settings.rate), settings.steps, keep=at, drift_at=at)
    looks = [t for t in at if t in run.snapshots]
    lowest = torch.stack([torch.linalg.eigvalsh(run.snapshots[t].kernel(p.X))[0] for t in looks])
    drift = max(run.kernel_drift.values())
    moved = max(run.movement.max().item(), 1e-300)
    allowed = _log10_allowed_move(p, settings)
    least_ratio = (lowest / p.lambda_min).min().item()
    relative_drift = math.log10(max(drift, 1e-300) / (settings.n * moved))
    return Finding(
        hypotheses=(
            Hypothesis("lambda_min of H* above round-off", ">=", 1e-13 * p.lambda_max, p.lambda_min),
            Hypothesis("largest movement R", "<=", allowed, math.log10(moved), log10=True),
        ),
        conclusions=(
            Conclusion("smallest lambda_min(H(t)) / lambda", ">=", 0.5, least_ratio, part="lambda_min"),
            Conclusion(
                "|H(t) - H(0)|_F / (nR)", "<=", exponent(settings), relative_drift, log10=True, part="drift"
            ),
        ),
        numbers={
            "lambda": p.lambda_min,
            "largest weight movement": moved,
            "|H(t) - H(0)|_F / |H(0)|_F": drift / p.kernel.norm().item(),
        },
        figures=(
            plot(
                "Smallest eigenvalue during training",
                ("step", "lambda_min(H(t))"),
                Series.of("measured", looks, lowest),
                Series.of("lambda/2", looks, [p.lambda_min / 2] * len(looks), "bound"),
                log="",
            ),
        ),
    )


@claim(
    "P5/lemma-h.1",
    plain="""Loss and gradient behave as stated in the runs. The largest move falls with the width about
        as the bound does, but is far above the stated R; the stated width is out of reach.""",
    place="Appendix H, Lemmas H.1-H.4",
    title="Inductions for loss, gradient and weights",
    quote="R := max_t max_r |w_r(t) - w_r(0)| <= lambda / (n poly(exp(B^2), exp(D)))",
    quick={**_SIZES, "widths": [64, 256, 1024, 4096], "width_steps": 60},
    rests_on=("P5/lemma-g.1", "P5/lemma-5.1", "P5/lemma-k.3"),
    full=_LARGER,
)
def inductions(settings: Settings, seed: int) -> Finding:
    """The loss falls by (1 - eta lambda/2) per step (H.1); L(0) is O(n B^2) (H.2); every gradient is at most
    n^(3/2) m^(-1/2) exp(O(B^2 D)) |F - y| (H.3); and no weight ever moves by more than lambda / (n
    poly(exp(B^2), exp(D))) for m large, by a bound that falls like m^(-1/2) (H.4).
    """
    p = scalar_regression(settings, seed)
    run = p.network.descend(p.X, p.y, p.rate(settings.rate), settings.steps)
    B, _ = sizes_of_data_and_weights(settings)
    shrink = settings.rate * p.lambda_min / p.lambda_max / 2
    bounds = falling(run.loss, shrink)
    first = run.loss[0].item() / (settings.n * B**2)
    moved = max(run.movement.max().item(), 1e-300)
    most = (1 + 1e-9) * (1 - shrink)
    leaves = (run.loss[1:] / run.loss[:-1]).max().item()
    moves = [_largest_move(settings | {"m": width}, seed) for width in settings.widths]
    growth = "H.4: growth exponent in m of the largest move"
    farthest = "H.4: largest |w_r(t) - w_r(0)| against lambda / (n exp(B^2 + D))"
    allowed = _log10_allowed_move(p, settings)
    start = run.loss[0]
    labels = ("trained", "(1 - eta lambda/2)^t")
    return Finding(
        hypotheses=asked(p, settings),
        conclusions=(
            Conclusion("H.1: largest share of the loss that a step leaves", "<=", most, leaves, part="H.1"),
            stays_below("H.1: largest L(t) / (1 - eta lambda/2)^t L(0)", run.loss, bounds, part="H.1"),
            Conclusion("H.2: L(0) / (n B^2)", "<=", CONSTANT, first, part="H.2"),
            _gradient_line(settings, run),
            Conclusion.of_trend(growth, "<=", -0.5, settings.widths, moves, part="H.4"),
            Conclusion(farthest, "<=", allowed, math.log10(moved), log10=True, part="H.4", threshold="ours"),
        ),
        numbers={
            "lambda": p.lambda_min,
            "largest weight movement": moved,
            "L(T) / L(0)": (run.loss[-1] / start).item(),
        },
        figures=(
            bound_figure("Loss against its bound", "L(t) / L(0)", run.loss / start, bounds / start, labels),
        ),
    )


def _gradient_line(settings: Settings, run: Trajectory) -> Conclusion:
    bound = 1.5 * math.log10(settings.n) - 0.5 * math.log10(settings.m) + exponent(settings)
    steepest = math.log10((run.gradient_norm / (2 * run.loss).sqrt()).max().item())
    return Conclusion("H.3: largest |dL/dw_r| / |F - y|", "<=", bound, steepest, log10=True, part="H.3")


def _log10_allowed_move(p: ScalarRegression, settings: Settings) -> float:
    """lambda / (n exp(B^2 + D))."""
    return math.log10(max(p.lambda_min, 1e-300) / settings.n) - log10_poly(settings)


def _largest_move(settings: Settings, seed: int) -> float:
    p = scalar_regression(settings, seed)
    return p.network.descend(p.X, p.y, p.rate(settings.rate), settings.width_steps).movement[-1].item()


@claim(
    "P5/lemma-k.3",
    plain="Parts 1 to 3 hold; the other ten say nothing at sizes in reach.",
    ours=("O(.) read as 2 around B and D and as 8 in the exponent",),
    place="Appendix K, Lemma K.3",
    title="Thirteen parts on data, weights, exponentials and softmax under a small move",
    quick={"n": 32, "d": 8, "m": 512, "noise": 0.01, "delta": 0.05},
    full={"n": 256, "m": 4096},
)
def perturbation_parts(settings: Settings, seed: int) -> Finding:
    """For windows of the residual state-space model, Gaussian weights and weights moved by at most R <
    0.01/B^2, thirteen bounds on x, w, u = exp(x_d w x), alpha = sum u and S = u/alpha hold with high
    probability, in powers of exp(O(B^2 D)) and R B^2.
    """
    p = scalar_regression(settings, seed)
    B, D = sizes_of_data_and_weights(settings)
    R = 0.0099 / B**2
    moves = torch.randint(0, 2, p.network.W.shape, generator=generator(seed, "perturbation"))
    values = _thirteen(p, R * (2.0 * moves.double() - 1.0))  # each weight moves up or down
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
            plot(
                "Thirteen parts, bound against measured",
                ("part", "decimal logarithm"),
                Series.of("bound", range(1, 14), bounds, "points"),
                Series.of("measured", range(1, 14), list(values.values()), "points"),
                log="",
            ),
        ),
        remark=f"O(.) is read as {c:g} around B and D and as {c**3:g} in the exponent.",
    )


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
