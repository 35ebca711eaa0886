"""Claim 3.4, Definition 3.6 and Definition 3.7: the closed forms against automatic differentiation."""

import math

import torch
from torch import Tensor
from torch.func import jacrev

from attangent.audit import Conclusion, Finding, Series, Settings, claim
from attangent.papers.common.figures import plot
from attangent.papers.p2_softmax.claims.softmax_regression import SoftmaxRegression, softmax_regression

_EXACT = 1e-10
_SIZES = {"n": 8, "d": 4, "d_out": 3, "m": 256, "sigma": 1.0}


@claim(
    "P2/claim-3.4",
    place="Section 3, Claim 3.4 (Claim A.1)",
    title="Gradient of the softmax network",
    quote="""Delta w_r(tau) := m sum_i sum_l (F_l,i(tau) - y_l,i) (<a_l,r 1_m - a_l, S_i(tau)> S_i,r(tau))
        x_i""",
    nature="lemma",
    plain="The printed gradient is right.",
    quick=_SIZES,
    full={"n": 32, "d": 8, "d_out": 8, "m": 4096},
    seconds=0.2,
)
def gradient(settings: Settings, seed: int) -> Finding:
    """The gradient of the squared loss in the weights of neuron r is m sum_i sum_l (F_li - y_li) <a_lr 1 -
    a_l, S_i> S_ir x_i.
    """
    p = softmax_regression(settings, seed)
    printed = p.network.gradient(p.X, p.Y)
    automatic = _automatic_gradient(p)
    differences = (printed - automatic).norm(dim=0)
    sizes = automatic.norm(dim=0)
    return Finding(
        conclusions=(
            Conclusion("relative distance to autograd", "<=", _EXACT, _relative(printed, automatic)),
            Conclusion(
                "relative distance to central differences",
                "<=",
                1e-6,
                _difference_error(p, printed),
                claimed=False,
            ),
        ),
        numbers={"gradient norm": automatic.norm().item()},
        figures=(
            plot(
                "Closed form against autograd, neuron by neuron",
                ("neuron, by gradient size", "norm"),
                Series.of("gradient |dL/dw_r|", range(len(sizes)), sizes.sort().values),
                Series.of("difference", range(len(sizes)), differences[sizes.argsort()] + 1e-18, "points"),
                log="y",
            ),
        ),
    )


def _automatic_gradient(p: SoftmaxRegression) -> Tensor:
    W = p.network.W.clone().requires_grad_()
    loss = 0.5 * (_forward(p, W) - p.Y).square().sum()
    return torch.autograd.grad(loss, W)[0]


def _forward(p: SoftmaxRegression, W: Tensor) -> Tensor:
    """Return the network as Eq. (1) prints it, for automatic differentiation."""
    weights = torch.exp(p.X @ W)
    return p.network.m * (weights @ p.network.a.T) / weights.sum(dim=1, keepdim=True)


def _difference_error(p: SoftmaxRegression, gradient: Tensor, step: float = 1e-5) -> float:
    """Return the distance of the directional derivative along the gradient from a central difference."""
    direction = gradient / gradient.norm()
    ahead, behind = (
        0.5 * (p.network.with_weights(p.network.W + s * direction).forward(p.X) - p.Y).square().sum()
        for s in (step, -step)
    )
    return abs(((ahead - behind) / (2 * step) / gradient.norm()).item() - 1)


def _relative(a: Tensor, b: Tensor) -> float:
    return ((a - b).norm() / b.norm()).item()


@claim(
    "P2/definition-3.6",
    place="Section 3.1, Definition 3.6",
    title="The kernel is the Gram matrix of gradients and positive semi-definite",
    quote="We define the function (Gram matrix) H ... Note that H* is a positive semi-definite matrix",
    rests_on=("P2/claim-3.4",),
    nature="definition",
    plain="The printed kernel is the Gram matrix of the gradients.",
    quick=_SIZES,
    full={"n": 16, "d": 8, "d_out": 8, "m": 2048},
    seconds=0.3,
)
def gram(settings: Settings, seed: int) -> Finding:
    """H(W) of Definition 3.6 equals J J'/m, where J is the Jacobian of all outputs in W.

    It is therefore symmetric and has no negative eigenvalue.
    """
    p = softmax_regression(settings, seed)
    H = p.kernel
    J = jacrev(lambda W: _forward(p, W).T)(p.network.W).reshape(p.size, -1)
    spectrum = torch.linalg.eigvalsh((H + H.T) / 2)
    return Finding(
        conclusions=(
            Conclusion("relative distance of H to J J'/m", "<=", _EXACT, _relative(H, J @ J.T / settings.m)),
            Conclusion("asymmetry of H, relative", "<=", _EXACT, _relative(H.T, H)),
            Conclusion("lambda_min / lambda_max", ">=", -1e-12, (spectrum[0] / spectrum[-1]).item()),
        ),
        numbers={"lambda_min": spectrum[0].item(), "lambda_max": spectrum[-1].item()},
        figures=(
            plot(
                "Spectrum of H at initialisation",
                ("index", "eigenvalue"),
                Series.of("eigenvalues of H", range(len(spectrum)), spectrum.flip(0), "points"),
                log="y",
            ),
        ),
    )


@claim(
    "P2/definition-3.7",
    place="Section 3.1, Definition 3.7",
    title="Symmetric initialisation gives zero output",
    quote="Due to symmetric initialization, we can easily see that F(W(0), x) = 0, for all x.",
    nature="definition",
    plain="Pairs of neurons with opposite signs give the output zero, as printed.",
    unconditional=True,
    quick={"n": 64, "d": 4, "d_out": 4, "sigma": 1.0, "widths": [64, 256, 1024, 4096], "m": 4096},
    seconds=0.2,
)
def zero_output(settings: Settings, seed: int) -> Finding:
    """If neurons come in pairs with equal hidden weights and opposite output weights, the network is zero at
    every input before training.
    """
    largest = [_largest_output(settings, seed, m, settings.get("init", "symmetric")) for m in settings.widths]
    free = [_largest_output(settings, seed, m, "independent") for m in settings.widths]
    return Finding(
        conclusions=(
            Conclusion(
                "largest |F(0)| / m over points and widths",
                "<=",
                1e-14,
                max(value / m for value, m in zip(largest, settings.widths, strict=True)),
            ),
        ),
        numbers={
            "largest |F(0)|": max(largest),
            "largest |F(0)| / sqrt(m), independent": free[-1] / math.sqrt(settings.widths[-1]),
        },
        figures=(
            plot(
                "Output before training",
                ("width m", "largest |F(0)|"),
                Series.of("symmetric", settings.widths, [value + 1e-18 for value in largest], "points"),
                Series.of("independent", settings.widths, free),
            ),
        ),
        remark="Independent neurons start with outputs that grow like the square root of the width.",
    )


def _largest_output(settings: Settings, seed: int, m: int, init: str) -> float:
    p = softmax_regression(settings | {"m": m, "init": init}, seed)
    return p.network.forward(p.X).abs().max().item()
