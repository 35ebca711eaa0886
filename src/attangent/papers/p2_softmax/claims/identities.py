"""Claim 3.4 and Definitions 3.6 and 3.7 against autograd; facts, Hoeffding and the o(1) of Table 1."""

import math

import torch
from torch import Tensor
from torch.func import jacrev

from attangent.audit import Conclusion, Failure, Finding, Series, Settings, claim
from attangent.kernels import vectorise
from attangent.papers.common.bounds import comparison, falling, worst_ratio
from attangent.papers.common.figures import plot
from attangent.papers.common.sizes import ratios
from attangent.papers.p2_softmax import proofs
from attangent.papers.p2_softmax.claims.regression import SoftmaxRegression

_EXACT = 1e-10
_SIZES = {"n": 8, "d": 4, "d_out": 3, "m": 256, "sigma": 1.0}


@claim(
    "P2/claim-3.4",
    place="Section 3, Claim 3.4 (Claim A.1)",
    title="Gradient of the softmax network",
    quote="""Delta w_r(tau) := m sum_i sum_l (F_l,i(tau) - y_l,i) (<a_l,r 1_m - a_l, S_i(tau)> S_i,r(tau))
        x_i""",
    plain="The printed gradient is right.",
    quick=_SIZES,
    full={"n": 32, "d": 8, "d_out": 8, "m": 4096},
)
def gradient(settings: Settings, seed: int) -> Finding:
    """The gradient of the squared loss in the weights of neuron r is m sum_i sum_l (F_li - y_li) <a_lr 1 -
    a_l, S_i> S_ir x_i.
    """
    p = SoftmaxRegression.draw(settings, seed)
    printed = p.network.gradient(p.X, p.Y)
    automatic = _automatic_gradient(p)
    differences = (printed - automatic).norm(dim=0)
    sizes = automatic.norm(dim=0)
    numeric_error = _difference_error(p, printed)
    return Finding(
        conclusions=(
            Conclusion("relative distance to autograd", "<=", _EXACT, _relative(printed, automatic)),
            comparison("relative distance to central differences", "<=", 1e-6, numeric_error),
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
    plain="The printed kernel is the Gram matrix of the gradients.",
    quick=_SIZES,
    full={"n": 16, "d": 8, "d_out": 8, "m": 2048},
)
def gram(settings: Settings, seed: int) -> Finding:
    """H(W) of Definition 3.6 equals J J'/m, where J is the Jacobian of all outputs in W.

    It is therefore symmetric and has no negative eigenvalue.
    """
    p = SoftmaxRegression.draw(settings, seed)
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
    plain="Pairs of neurons with opposite signs give the output zero, as printed.",
    unconditional=True,
    quick={"n": 64, "d": 4, "d_out": 4, "sigma": 1.0, "widths": [64, 256, 1024, 4096], "m": 4096},
)
def zero_output(settings: Settings, seed: int) -> Finding:
    """If neurons come in pairs with equal hidden weights and opposite output weights, the network is zero at
    every input before training.
    """
    largest = [_largest_output(settings, seed, m, settings.get("init", "symmetric")) for m in settings.widths]
    free = [_largest_output(settings, seed, m, "independent") for m in settings.widths]
    largest_output = max(ratios(largest, settings.widths))
    return Finding(
        conclusions=(Conclusion("largest |F(0)| / m over points and widths", "<=", 1e-14, largest_output),),
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
    p = SoftmaxRegression.draw(settings | {"m": m, "init": init}, seed)
    return p.network.forward(p.X).abs().max().item()


@claim(
    "P2/lemma-5.3-quarter",
    place="Section 5, Lemma 5.3, Loss Property and Loss Induction",
    title="The induction assumes a factor and concludes a weaker one",
    quote="""|F(i) - Y|_F^2 <= |F(0) - Y|_F^2 (1 - m eta lambda/2)^i ... |F(tau+1) - Y|_F^2 <= (1 - m eta
        lambda/4)^(tau+1) |F(0) - Y|_F^2""",
    rests_on=("P2/lemma-5.3",),
    nature="misprint",
    plain="""Lemma 5.3 assumes the factor 1 - x/2 per step and concludes 1 - x/4, so the induction does
        not close as printed. The proof gives 1 - x/2, and training keeps it.""",
    failure=Failure(
        "P2/lemma-5.3-quarter",
        "used nowhere: the proof gives the factor that the induction needs",
        "every step",
        root="a factor 1/4 is printed for 1/2",
    ),
    proof=proofs.weaker_induction,
    quick={"n": 6, "d": 8, "d_out": 4, "m": 512, "sigma": 1.0, "rate": 0.5, "steps": 50, "divisor": 4.0},
)
def quarter(settings: Settings, seed: int) -> Finding:
    """The bound that Lemma 5.3 concludes at step tau + 1 is at most the one that it assumes at the next
    step.
    """
    p = SoftmaxRegression.draw(settings, seed)
    run = p.train(settings)
    contraction = settings.rate * p.lambda_min / p.lambda_max
    assumed = falling(run.loss, contraction / 2)
    concluded = falling(run.loss, contraction / settings.divisor)
    last_ratio = (concluded / assumed)[-1].item()
    return Finding(
        hypotheses=(p.is_definite,),
        conclusions=(
            Conclusion("concluded bound / assumed bound, last step", "<=", 1 + 1e-12, last_ratio),
            comparison("largest loss / assumed bound", "<=", 1 + 1e-9, worst_ratio(run.loss, assumed)),
        ),
    )


@claim(
    "P2/table-1-exponent",
    place="Section 1, Table 1; Section 4, below Theorem 4.2",
    title="exp(Theta(B)) = (nd)^o(1)",
    quote="since exp(Theta(B)) = (nd)^(o(1)), we can simplify the m = Omega(lambda^-2 (nd)^(2+o(1)))",
    nature="remark",
    plain="""The o(1) of Table 1 goes to 0, as printed, but it is 56 at n = 10^6 and above 1 until n =
        10^14000: the bounds are not almost the same as for ReLU at any size that can be run.""",
    ours=("C = 10, sigma = 1 and d = 1; delta = 0.01 is that of Table 1",),
    quick={"logs": [1e3, 1e4, 1e5, 1e6], "C": 10.0, "factor": 18.0, "delta": 0.01, "power": 0.5},
)
def small_exponent(settings: Settings, seed: int) -> Finding:
    """The exponent of n in e^(18B), 18 B / log n, goes to 0 as n grows."""
    # the draw only varies delta, so that the exponents are no exact power law
    draw = torch.rand(1, generator=torch.Generator().manual_seed(seed)).item()
    delta = settings.delta * (0.5 + draw)
    exponents = [_exponent(log_n, settings, delta) for log_n in settings.logs]
    return Finding(
        conclusions=(
            Conclusion("18 B / log n at the largest n", "<=", 1.0, exponents[-1], threshold="ours"),
            Conclusion.of_trend("18 B / log n, over log n", "<=", -0.5, settings.logs, exponents),
        ),
        numbers={
            f"exponent at n = 10^{k}": _exponent(k * math.log(10), settings, settings.delta) for k in (6, 9)
        },
        remark="m needs n^2 in the table; with the o(1) written out it is n^58 at n = 10^6.",
    )


def _exponent(log_n: float, settings: Settings, delta: float) -> float:
    """18 B / log n with B = C (log n + log 1/delta)^power."""
    return settings.factor * settings.C * (log_n - math.log(delta)) ** settings.power / log_n


@claim(
    "P2/definition-f.1",
    place="Appendix F.1, below Theorem F.2",
    title="The optimum of kernel regression",
    quote="We have the optimal solution for kernel regression is gamma* := m^-1 (H*)^-1 vec(Y)",
    rests_on=("P2/definition-3.6",),
    plain="The printed optimum interpolates the data, and the iteration of Eq. (25) converges to it.",
    quick={"n": 6, "d": 8, "d_out": 2, "m": 512, "sigma": 1.0, "steps": 30, "scale": 1.0},
)
def optimum(settings: Settings, seed: int) -> Finding:
    """gamma* = (m H*)^-1 vec(Y) satisfies m H* gamma* = vec(Y), and Eq. (25) converges to it."""
    p = SoftmaxRegression.draw(settings, seed)
    mH = settings.m * p.kernel
    y = vectorise(p.Y)
    star = torch.linalg.solve(mH, y) * settings.scale
    gamma = torch.zeros_like(y)
    for _ in range(settings.steps):
        gamma = gamma - (mH @ gamma - y) / (settings.m * p.lambda_max)
    left = (1 - p.lambda_min / p.lambda_max) ** settings.steps
    return Finding(
        hypotheses=(p.is_definite,),
        conclusions=(
            Conclusion("|m H* gamma* - y| / |y|", "<=", 1e-9, ((mH @ star - y).norm() / y.norm()).item()),
            Conclusion(
                "|gamma(tau) - gamma*| / (its bound (1 - lambda/lambda_max)^tau |gamma*|)",
                "<=",
                1 + 1e-6,
                ((gamma - star).norm() / (left * star.norm())).item(),
            ),
        ),
    )


@claim(
    "P2/fact-a.5",
    place="Appendix A, Facts A.5 to A.8",
    title="Four elementary inequalities",
    quote="""(1 - x)^(1/2) <= 1 - 0.5x (A.5), |exp(x) - 1| <= 2|x| (A.6), sum_i x^i <= 1/(1-x) (A.7),
        exp(x) = 1 + x + Theta(1) x^2 (A.8)""",
    nature="quotation",
    plain="All four elementary inequalities are right in their ranges.",
    quick={"points": 101, "reach": 0.1, "slope": 2.0},
)
def elementary(settings: Settings, seed: int) -> Finding:
    """(1 - x)^(1/2) <= 1 - x/2 and |e^x - 1| <= 2|x| for |x| <= 0.1, sum_i x^i <= 1/(1 - x) for 0 < x <
    0.1, and (e^x - 1 - x)/x^2 lies between 0.49 and 0.51 for |x| <= 0.01.
    """
    grid = torch.linspace(-settings.reach, settings.reach, settings.points, dtype=torch.float64)
    x = grid[grid.abs() > 1e-9]
    small = x / 10
    factor = (torch.expm1(small) - small) / small.square()
    positive = x[x > 0]
    total = sum(positive**i for i in range(40))
    return Finding(
        conclusions=(
            Conclusion("A.5: largest excess", "<=", 0.0, ((1 - x).sqrt() - (1 - x / 2)).max().item()),
            Conclusion(
                "A.6: largest |e^x - 1| / |x|", "<=", settings.slope, (torch.expm1(x) / x).max().item()
            ),
            Conclusion("A.7: largest sum / bound", "<=", 1 + 1e-12, (total * (1 - positive)).max().item()),
            Conclusion("A.8: largest factor", "<=", 0.51, factor.max().item()),
            Conclusion("A.8: smallest factor", ">=", 0.49, factor.min().item()),
        )
    )


@claim(
    "P2/lemma-a.9",
    place="Appendix A, Lemma A.9",
    title="Hoeffding's inequality",
    quote="Pr[|x - E[x]| >= t] <= 2 exp(-2 t^2 / sum_i (beta_i - alpha_i)^2)",
    nature="quotation",
    plain="Hoeffding's inequality is quoted rightly.",
    quick={"counts": [1, 2, 10, 100], "share": 0.3, "factor": 2.0},
    seeds=1,
)
def hoeffding(settings: Settings, seed: int) -> Finding:
    """For n coins in {0, 1} with any chance of 1, the exact two-sided tail is at most 2 exp(-2 t^2/n)."""
    return Finding(
        conclusions=tuple(
            Conclusion(
                f"largest tail / bound, n = {n}, chance {chance:g}",
                "<=",
                1 + 1e-12,
                _worst_tail(n, chance, settings.factor),
            )
            for n in settings.counts
            for chance in (0.5, settings.share)
        )
    )


def _worst_tail(n: int, chance: float, factor: float) -> float:
    """Return the largest exact P(|x - n p| >= t) / (factor exp(-2 t^2/n)); it is attained at a jump."""
    from scipy import stats

    law = stats.binom(n, chance)
    mean = n * chance
    jumps = [abs(k - mean) for k in range(n + 1) if abs(k - mean) > 1e-9]
    tails = [law.sf(math.ceil(mean + t - 1e-9) - 1) + law.cdf(math.floor(mean - t + 1e-9)) for t in jumps]
    return max(tail / (factor * math.exp(-2 * t**2 / n)) for tail, t in zip(tails, jumps, strict=True))
