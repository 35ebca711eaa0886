"""Section 5.2, Appendix I: what descent converges to, and which signs the hidden weights take."""

import math

import torch
from torch import Tensor

from attangent._random import generator
from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Hypothesis, Series
from attangent.audit.papers.p5.scalar_regression import asked, scalar_regression
from attangent.audit.registry import claim

_LAZY = {"n": 2, "d": 8, "m": 256, "noise": 0.01, "delta": 0.05, "rate": 1.0}


@claim(
    "P5/theorem-5.2-convergence",
    place="Section 5.2, Theorem 5.2 (Theorem I.1)",
    title="The loss converges",
    statement="""With a positive definite kernel and a wide enough network, L(t) <= (1 - eta lambda/2)^t
        L(0), so that L(T) <= epsilon after T = log(L(0)/epsilon)/(eta lambda/2) steps.""",
    quick={**_LAZY, "epsilon": 1e-2, "most_steps": 500, "crowd": 32, "crowd_steps": 100},
    full={"n": 4, "m": 4096, "most_steps": 10_000, "crowd": 64, "crowd_steps": 1000},
    seconds=1.5,
)
def convergence(settings: Settings, seed: int) -> Finding:
    p = scalar_regression(settings, seed)
    rate = p.rate(settings.rate)
    shrink = rate * p.lambda_min / 2
    needed = math.ceil(math.log(1 / settings.epsilon) / shrink) if shrink > 0 else math.inf
    steps = int(min(needed, settings.most_steps))
    run = p.network.descend(p.X, p.y, rate, steps)
    bound = run.loss[0] * (1 - shrink) ** torch.arange(len(run.loss), dtype=torch.float64)
    left = (run.loss[-1] / run.loss[0]).item() if not run.diverged else math.inf
    reached = left if needed <= settings.most_steps or left <= settings.epsilon or run.diverged else math.nan
    crowd = scalar_regression(settings | {"n": settings.crowd}, seed)
    crowded = crowd.network.descend(crowd.X, crowd.y, crowd.rate(settings.rate), settings.crowd_steps)
    return Finding(
        hypotheses=asked(p, settings),
        conclusions=(
            Conclusion("L(T) / L(0)", "<=", settings.epsilon, reached),
            Conclusion("largest L(t) / bound", "<=", 1 + 1e-9, (run.loss / bound).max().item()),
            Conclusion(
                f"L / L(0) with {settings.crowd} points, where the kernel is singular",
                ">=",
                settings.epsilon,
                (crowded.loss[-1] / crowded.loss[0]).item(),
                claimed=False,
            ),
        ),
        numbers={
            "lambda_min": p.lambda_min,
            "T": float(needed),
            "lambda_min with many points": crowd.lambda_min,
        },
        figures=(
            Figure(
                "Loss and its bound",
                "step",
                "loss",
                (
                    Series.of("loss", range(len(run.loss)), run.loss),
                    Series.of("bound", range(len(run.loss)), bound, "bound"),
                ),
                log_y=True,
            ),
        ),
        remark="The kernel has a numerical rank of about ten whatever the width, so that the hypothesis is "
        "met for a handful of points only; with more, descent stops far above the error of linear "
        "regression.",
    )


_CROWD = {"n": 32, "d": 8, "m": 32, "noise": 0.01, "delta": 0.05, "rate": 1.0, "steps": 600}


@claim(
    "P5/theorem-5.2-asymmetry",
    place="Section 5.2, Theorem 5.2 (Theorem I.1), Parts 1 and 2",
    title="Hidden weights take the sign of the output weights",
    statement="After long training w_r has the sign of a_r with probability at least 1 - delta.",
    quick={**_CROWD, "widths": [2, 512], "width_steps": 100},
    full={"n": 64, "m": 64, "steps": 20_000, "widths": [2, 8, 256, 2048], "width_steps": 2500},
    seconds=2.0,
)
def asymmetry(settings: Settings, seed: int) -> Finding:
    p = scalar_regression(settings, seed)
    times = sorted({round(settings.steps * (k / 20) ** 2) for k in range(21)})
    run = p.network.descend(p.X, p.y, p.rate(settings.rate), settings.steps, keep=times)
    aligned = [(run.snapshots[t].W[0] * p.network.a[0] > 0).double().mean().item() for t in times]
    by_width = {m: _aligned_at_width(settings | {"m": m}, seed) for m in settings.widths}
    towards = (p.network.a[0] * p.network.gradient(p.X, p.y)[0] < 0).double().mean().item()
    return Finding(
        hypotheses=asked(p, settings),
        conclusions=(
            Conclusion(
                "share of neurons with the sign of a_r at the end", ">=", 1 - settings.delta, aligned[-1]
            ),
            Conclusion("share that moves towards a_r at the first step", ">=", 1.0, towards, claimed=False),
        ),
        numbers={
            **{f"share at the end with m = {m}": share for m, share in by_width.items()},
            "share at the start": aligned[0],
            "largest share": max(aligned),
            "largest move": run.movement[-1].item(),
        },
        figures=(
            Figure(
                "Neurons with the sign of their output weight",
                "step",
                "share",
                (Series.of("share", times, aligned),),
            ),
        ),
        remark="The first step goes the claimed way for every neuron, but the pull ends with the residual: "
        "weights move by little in wide networks and stop once the loss has fallen.",
    )


@claim(
    "P5/theorem-5.3",
    place="Section 5.2, Theorem 5.3 (Theorem I.2)",
    title="The residual feature gets less attention",
    statement="""For every neuron with a_r = -1 after training and x ~ N(0, I), the expected attention on
        x_d is at most that on any other x_k.""",
    quick={**_CROWD, "draws": 20_000, "grid": [-2.0, -0.5, 0.5, 2.0]},
    full={"n": 128, "m": 256, "steps": 15_000, "draws": 200_000},
    seconds=2.0,
)
def residual_feature(settings: Settings, seed: int) -> Finding:
    p = scalar_regression(settings, seed)
    final = p.network.descend(p.X, p.y, p.rate(settings.rate), settings.steps).final
    w = final.W[0][p.network.a[0] < 0]
    rng = generator(seed, "gaussian")
    x = torch.randn(settings.draws, settings.d, generator=rng, dtype=torch.float64)
    worst = max(w.max().item(), -math.inf)
    excess, error = _excess_attention(x, torch.tensor([worst], dtype=torch.float64))
    on_grid = torch.tensor(settings.grid, dtype=torch.float64)
    grid, grid_error = _excess_attention(x, on_grid)
    right = ((grid < -3 * grid_error) == (on_grid < 0)) & ((grid > 3 * grid_error) == (on_grid > 0))
    return Finding(
        hypotheses=(Hypothesis("largest w_r with a_r = -1", "<=", 0.0, worst),),
        conclusions=(
            Conclusion("largest E S_d - E S_k less three errors", "<=", 0.0, (excess - 3 * error).item()),
            Conclusion(
                "weights for which it holds if and only if w < 0",
                ">=",
                len(grid),
                right.sum().item(),
                claimed=False,
            ),
        ),
        numbers={
            "share of w_r < 0 among a_r = -1": (w < 0).double().mean().item(),
            **{
                f"E S_d - E S_k at w = {value:g}": found
                for value, found in zip(settings.grid, grid.tolist(), strict=True)
            },
        },
        figures=(
            Figure(
                "Extra attention on the last value",
                "w",
                "E S_d - E S_k",
                (Series.of("measured", settings.grid, grid),),
            ),
        ),
        remark="It holds exactly where w_r < 0, by pairing x_k with -x_k (the convexity used in the proof "
        "does not hold). Training leaves many neurons of a_r = -1 with a positive weight.",
    )


def _aligned_at_width(settings: Settings, seed: int) -> float:
    """The share at the end of a run at another width: few neurons move far, many hardly (lazy training)."""
    p = scalar_regression(settings, seed)
    final = p.network.descend(p.X, p.y, p.rate(settings.rate), settings.width_steps).final
    return (final.W[0] * p.network.a[0] > 0).double().mean().item()


def _excess_attention(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """E[S_d - mean_(k<d) S_k] for each weight and its standard error; all k < d are alike."""
    gaps = []
    for value in w:
        S = torch.softmax(x[:, -1:] * value * x, dim=1)
        gaps.append(S[:, -1] - S[:, :-1].mean(dim=1))
    stacked = torch.stack(gaps)
    return stacked.mean(dim=1), stacked.std(dim=1) / math.sqrt(len(x))
