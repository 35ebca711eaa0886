"""Appendix F: gradient descent on the kernel predictor, and the trained network against it."""

import math

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Hypothesis, Series
from attangent.audit.registry import claim
from attangent.kernels import log_gap, predict_training, unit_data, vectorise
from attangent.papers.p2_softmax.claims.softmax_regression import (
    SoftmaxRegression,
    kernel_is_definite,
    softmax_regression,
)

_SIZES = {"n": 8, "d": 4, "d_out": 4, "m": 1024, "sigma": 0.5, "rate": 0.5, "steps": 300}


@claim(
    "P2/equation-25",
    place="Appendix F, Eq. (24) and (25)",
    title="The update of the kernel predictor is the gradient of its loss",
    quote="the Eq. (25) is according to gamma(tau+1) = gamma(tau) - eta grad_gamma L_ntk(gamma(tau))",
    statement="""Gradient descent on L(gamma) = 1/2 |m H* gamma - vec Y|^2 is printed as
        gamma <- gamma - eta (m H* gamma - vec Y).""",
    quick=_SIZES,
    full={"n": 16, "d": 8, "d_out": 8, "m": 8192, "sigma": 1.0},
    seconds=0.4,
)
def kernel_update(settings: Settings, seed: int) -> Finding:
    p = softmax_regression(settings, seed)
    mH, y = settings.m * p.network.kernel(p.X), vectorise(p.Y)
    gamma = torch.randn(len(y), generator=generator(seed, "gamma"), dtype=torch.float64)
    printed = mH @ gamma - y
    true = _gradient_of_loss(mH, y, gamma)
    run = p.train(settings)
    as_printed = _descend(mH, y, run.rate, settings.steps, derived=False)
    # At the network's rate the true gradient's descent blows up; its own scale is the square of the kernel's.
    derived = _descend(mH, y, settings.rate / (settings.m * p.lambda_max) ** 2, settings.steps, derived=True)
    return Finding(
        conclusions=(
            Conclusion(
                "relative distance of the printed step to the gradient",
                "<=",
                1e-10,
                ((printed - true).norm() / true.norm()).item(),
            ),
            Conclusion(
                "printed update against the trained network, largest |log L - log L|",
                "<=",
                0.02,
                log_gap(run.loss, as_printed),
                claimed=False,
            ),
            Conclusion(
                "true gradient against the trained network, largest |log L - log L|",
                ">=",
                0.02,
                log_gap(run.loss, derived),
                claimed=False,
            ),
        ),
        numbers={
            "factor a step of the true gradient at the network's rate": abs(
                1 - run.rate * (settings.m * p.lambda_max) ** 2
            ),
        },
        figures=(_updates_figure(run.loss, as_printed, derived),),
        remark="The gradient of the loss is m H* (m H* gamma - vec Y). The printed update is descent in "
        "function space, and it is the one that follows the network.",
    )


def _gradient_of_loss(mH: Tensor, y: Tensor, gamma: Tensor) -> Tensor:
    gamma = gamma.clone().requires_grad_()
    return torch.autograd.grad(0.5 * (mH @ gamma - y).square().sum(), gamma)[0]


def _descend(mH: Tensor, y: Tensor, rate: float, steps: int, *, derived: bool) -> Tensor:
    """The loss at each step of the kernel predictor, by the printed update or by the derived gradient."""
    gamma, losses = torch.zeros_like(y), []
    for _ in range(steps + 1):
        residual = mH @ gamma - y
        losses.append(0.5 * residual.square().sum())
        gamma = gamma - rate * (mH @ residual if derived else residual)
    return torch.stack(losses)


@claim(
    "P2/theorem-f.2",
    place="Appendix F.1, Theorem F.2",
    title="The trained network equals kernel regression",
    quote="""|F_ntk(gamma(tau), x_te)_l - F_nn(W(tau), x_te)_l| <= O(sqrt(nd)/lambda eps_l,test +
        sqrt(nd)/lambda^2 log^2(nd/(eps_H m lambda)) eps_H)""",
    rests_on=("P2/lemma-e.3", "P2/lemma-d.1", "P2/equation-25", "P2/appendix-f-features"),
    statement="""If the kernel drifts by at most eps_H <= lambda/2 in training and by eps_test towards a test
        point, then at every step the network and the kernel predictor of Eq. (25) differ there by at most
        sqrt(nd)/lambda eps_test + sqrt(nd)/lambda^2 log^2(nd/(eps_H m lambda)) eps_H, up to a constant.""",
    quick={**_SIZES, "points": 16, "checks": 12, "widths": [256, 1024]},
    full={"widths": [256, 1024, 4096, 16384], "steps": 1000},
    seconds=1.0,
)
def equivalence(settings: Settings, seed: int) -> Finding:
    runs = [_coupling(settings | {"m": m}, seed) for m in settings.widths]
    last = runs[-1]
    return Finding(
        hypotheses=(
            kernel_is_definite(last["problem"]),
            Hypothesis("eps_H", "<=", last["problem"].lambda_min / 2, last["eps_H"]),
        ),
        conclusions=(
            Conclusion("largest coupling error / bound, constant 1", "<=", 1.0, last["worst"]),
            Conclusion(
                "proof: largest |F_nn(t) - F_ntk(t)|_F / (eta m t |F(0) - Y|_F eps_H) on the data",
                "<=",
                1.0,
                last["step"],
            ),
            Conclusion(
                "largest |log L - log L| of the predicted training curve",
                "<=",
                0.02,
                last["curve gap"],
                claimed=False,
            ),
        ),
        numbers={
            "largest coupling error": last["error"],
            "bound there": last["bound"],
            "eps_H": last["eps_H"],
            "largest |log L - log L|": last["curve gap"],
            "lambda_min": last["problem"].lambda_min,
        },
        figures=(
            Figure(
                "Network against kernel predictor at unseen points",
                "width m",
                "size",
                (
                    Series.of("largest coupling error", settings.widths, [run["error"] for run in runs]),
                    Series.of(
                        "bound of the theorem", settings.widths, [run["bound"] for run in runs], "bound"
                    ),
                    Series.of("largest |log L - log L|", settings.widths, [run["curve gap"] for run in runs]),
                ),
                log_x=True,
                log_y=True,
            ),
        ),
    )


def _coupling(settings: Settings, seed: int) -> dict:
    """The largest distance of network and kernel predictor at test points, with the theorem's bound."""
    p = softmax_regression(settings, seed)
    test, _ = unit_data(settings.points, settings.d, settings.d_out, seed + 1_000_000)
    times = [round(settings.steps * i / settings.checks) for i in range(settings.checks + 1)]
    run = p.train(settings, keep=times)
    residual = p.network.forward(p.X) - p.Y
    prediction = predict_training(p.kernel, residual, run.rate, width=settings.m)
    test_kernel, initial = p.network.kernel(test, p.X), p.network.forward(test)
    trained = [run.snapshots[t] for t in times if t in run.snapshots]
    errors = torch.stack(
        [
            (net.forward(test) - prediction.outputs(test_kernel, t, initial)).abs()
            for t, net in zip(times, trained, strict=False)
        ]
    )
    eps_H = max((net.kernel(p.X) - p.kernel).norm().item() for net in trained)
    drift = torch.stack([(net.kernel(test, p.X) - test_kernel).norm(dim=1) for net in trained])
    eps_test = drift.max(dim=0).values.reshape(settings.d_out, -1).T  # (points, d_out)
    bound = _theorem_bound(p, eps_H, eps_test)
    error = errors.max(dim=0).values
    start = p.network.forward(p.X)
    apart = [
        (net.forward(p.X) - prediction.outputs(p.kernel, t, start)).norm().item()
        / (run.rate * settings.m * t * residual.norm().item() * eps_H)
        for t, net in zip(times[1:], trained[1:], strict=False)
    ]
    at = (error / bound).argmax()
    return {
        "problem": p,
        "error": error.max().item(),
        "bound": bound.flatten()[at].item(),
        "worst": (error / bound).max().item(),
        "step": max(apart, default=math.nan),
        "eps_H": eps_H,
        "curve gap": log_gap(run.loss, prediction.loss(range(run.steps + 1))),
    }


def _theorem_bound(p: SoftmaxRegression, eps_H: float, eps_test: Tensor) -> Tensor:
    scale, lam = math.sqrt(p.size), p.lambda_min
    logarithm = math.log(p.size / (eps_H * p.network.m * lam)) if eps_H > 0 else 0.0
    return scale / lam * eps_test + scale / lam**2 * logarithm**2 * eps_H


@claim(
    "P2/appendix-f-features",
    place="Appendix F.1, proof of Theorem F.2",
    title="The feature map printed for the kernel",
    kind="identity",
    quote="phi(x)_l = 1/sqrt(m) x sum_r <v_l,r, S(0)> m S_r(0) ... K*_te = phi(x_te)' phi(X)",
    statement="""phi(x)_l = x/sqrt(m) sum_r <v_lr, S(x)> m S_r(x) is a feature map of the kernel:
        K = phi' phi.""",
    quick={"n": 8, "d": 4, "d_out": 3, "m": 256, "sigma": 1.0},
    seconds=0.1,
)
def feature_map(settings: Settings, seed: int) -> Finding:
    p = softmax_regression(settings, seed)
    weights = _neuron_features(p)  # <v_lr, S_i> m S_ir as (l n, r)
    printed = weights.sum(dim=1, keepdim=True)
    points = p.X.tile(settings.d_out, 1)
    gram = (printed @ printed.T) * (points @ points.T) / settings.m
    concatenated = (weights @ weights.T) * (points @ points.T) / settings.m
    size = p.kernel.norm()
    t = range(p.size)
    return Finding(
        conclusions=(
            Conclusion(
                "relative distance of phi' phi to K", "<=", 1e-10, ((gram - p.kernel).norm() / size).item()
            ),
            Conclusion(
                "the same with phi concatenated over r, not summed",
                "<=",
                1e-10,
                ((concatenated - p.kernel).norm() / size).item(),
                claimed=False,
            ),
        ),
        numbers={"largest entry of the printed phi": printed.abs().max().item() / math.sqrt(settings.m)},
        figures=(
            Figure(
                "Diagonal of the kernel and of what features give",
                "output and point",
                "diagonal entry",
                (
                    Series.of("K", t, p.kernel.diagonal()),
                    Series.of("features side by side", t, concatenated.diagonal(), "points"),
                    Series.of("features as printed", t, gram.diagonal(), "points"),
                ),
            ),
        ),
        remark="The printed sum over neurons is identically zero, since the softmax sums to one; the "
        "features of the neurons must be put side by side.",
    )


def _neuron_features(p: SoftmaxRegression) -> Tensor:
    S = p.network.probabilities(p.X)
    v = p.network.a[:, None, :] - (S @ p.network.a.T).T[:, :, None]
    return (v * p.network.m * S).reshape(p.size, -1)


def _updates_figure(network: Tensor, as_printed: Tensor, derived: Tensor) -> Figure:
    t = range(len(network))
    return Figure(
        "Two updates of the kernel predictor against the network",
        "step",
        "loss",
        (
            Series.of("network", t, network),
            Series.of("Eq. (25) as printed", t[::15], as_printed[::15], "points"),
            Series.of("true gradient, at its own rate", t, derived),
        ),
        log_y=True,
    )
