"""Claim F.12, Lemmas F.1 and I.6, Definitions G.1 and I.1: gradient, kernel and loss at initialisation."""

import math

import torch
from torch import Tensor
from torch.func import jacrev

from attangent.audit import Conclusion, Failure, Figure, Finding, Series, Settings, claim
from attangent.papers.common.bounds import comparison
from attangent.papers.common.figures import plot
from attangent.papers.common.sizes import no_growth
from attangent.papers.p1_prefix.claims.prefix_regression import PrefixRegression
from attangent.papers.p1_prefix.proofs import kernel, signs

_EXACT = 1e-10
_SIZES = {"n": 6, "d": 4, "m": 256, "sigma": 1.0, "init": "independent"}


@claim(
    "P1/claim-f.12",
    place="Appendix F.2, Claim F.12",
    title="Gradient of the prefix network",
    quote="""Delta w_r(tau) = m sum_i sum_k (F_k,i(tau) - y_k,i) (<v_k,r(tau), S_i(tau)> S_i,r(tau) x_i + a_r
        S_i,r(tau) e_k)""",
    rests_on=("P1/lemma-f.1",),
    plain="""The printed gradient is right. It contains the prefix as value, which the printed kernel
        leaves out.""",
    quick=_SIZES,
    full={"n": 32, "d": 8, "m": 4096},
)
def gradient(settings: Settings, seed: int) -> Finding:
    """The gradient of the squared loss in the prefix vector w_r is m sum_i sum_k (F_ki - y_ki) (<v_kr, S_i>
    S_ir x_i + a_r S_ir e_k): w_r acts as key and as value.
    """
    p = PrefixRegression.draw(settings, seed)
    printed = p.network.gradient(p.X, p.Y)
    automatic = _automatic_gradient(p)
    as_key = p.network.tangent(p.X, kind="paper").pull_back(p.residual)
    order = automatic.norm(dim=0).argsort()
    sizes = {"gradient |dL/dw_r|": automatic, "its part with w_r as a value": automatic - as_key}
    return Finding(
        hypotheses=p.in_unit_ball,
        conclusions=(
            Conclusion("relative distance to autograd", "<=", _EXACT, _relative(printed, automatic)),
        ),
        numbers={
            "fraction of the gradient with w_r as a value": _relative(as_key, automatic),
            "gradient norm": automatic.norm().item(),
        },
        figures=(
            plot(
                "Closed form and autograd, per prefix vector",
                ("prefix vector, sorted by gradient", "norm"),
                *(
                    Series.of(name, range(len(order)), part.norm(dim=0)[order])
                    for name, part in sizes.items()
                ),
                Series.of(
                    "distance to autograd",
                    range(len(order)),
                    (printed - automatic).norm(dim=0)[order] + 1e-18,
                    "points",
                ),
                log="y",
            ),
        ),
    )


def _forward(p: PrefixRegression, W: Tensor) -> Tensor:
    """F = m (W o a) S(x): the network as printed in Eq. (3), for automatic differentiation."""
    weights = torch.exp(p.X @ W)
    return p.network.m * (weights @ (W * p.network.a).T) / weights.sum(dim=1, keepdim=True)


def _automatic_gradient(p: PrefixRegression) -> Tensor:
    W = p.network.W.clone().requires_grad_()
    loss = 0.5 * (_forward(p, W) - p.Y).square().sum()
    return torch.autograd.grad(loss, W)[0]


def _relative(a: Tensor, b: Tensor) -> float:
    return ((a - b).norm() / b.norm()).item()


@claim(
    "P1/lemma-f.1",
    place="Appendix F.1, Lemma F.1, parts 1-8",
    title="Derivatives of the prefix network",
    quote="Part 8. dF(W,x,a)_k / dw_r = m a_r S_r e_k - m <beta_k, S> S_r x + m beta_k,r S_r x",
    plain="All eight printed derivatives are right.",
    quick={"d": 4, "m": 12, "sigma": 1.0},
    full={"d": 8, "m": 48},
)
def derivatives(settings: Settings, seed: int) -> Finding:
    """The eight printed derivatives in w_r are right: those of W'x, exp(W'x), alpha, 1/alpha, the softmax S
    and the outputs F_k (for k equal to the differentiated coordinate, for other k, and as a vector).
    """
    p = PrefixRegression.draw(settings | {"n": 1, "init": "independent"}, seed)
    gaps = _derivative_gaps(p.X[0], p.network.W, p.network.a[0])
    return Finding(
        conclusions=tuple(
            Conclusion(f"part {part}: relative distance to autograd", "<=", _EXACT, gap, part=part)
            for part, gap in gaps.items()
        ),
        numbers={f"part {part}": gap for part, gap in gaps.items()},
    )


def _derivative_gaps(x: Tensor, W: Tensor, a: Tensor) -> dict[str, float]:
    """Compare printed with automatic derivatives; indices: value, coordinate k1, prefix vector r."""
    d, m = W.shape
    u = torch.exp(W.T @ x)
    alpha = u.sum()
    S = u / u.sum()
    beta = W * a
    mean = beta @ S
    one = torch.eye(m, dtype=W.dtype)
    same = torch.eye(d, dtype=W.dtype)
    value = m * torch.einsum("kl,r->klr", same, a * S)
    through = m * torch.einsum("l,r,kr->klr", x, S, beta - mean[:, None])
    printed = {
        "1": (lambda V: V.T @ x, torch.einsum("l,sr->slr", x, one)),
        "2": (lambda V: torch.exp(V.T @ x), torch.einsum("l,sr,s->slr", x, one, u)),
        "3": (lambda V: torch.exp(V.T @ x).sum(), torch.outer(x, u)),
        "4": (lambda V: 1 / torch.exp(V.T @ x).sum(), -torch.outer(x, S) / alpha),
        "5": (
            lambda V: torch.softmax(V.T @ x, dim=0),
            torch.einsum("l,sr,s->slr", x, one, S) - torch.einsum("l,r,s->slr", x, S, S),
        ),
    }
    gaps = {part: _relative(formula, jacrev(function)(W)) for part, (function, formula) in printed.items()}
    true = jacrev(lambda V: m * (V * a) @ torch.softmax(V.T @ x, dim=0))(W)
    apart = ~same.bool()
    gaps["6"] = _relative(through[apart], true[apart])
    gaps["7"] = _relative((value + through)[~apart], true[~apart])
    gaps["8"] = _relative(value + through, true)
    return gaps


@claim(
    "P1/definition-g.1",
    place="Section 3.2 and Appendix G, Definition G.1",
    title="The printed kernel is the NTK",
    quote="Now in this section, we give the exact computation of NTK in our analysis below. (Appendix G)",
    plain="""Printed as the exact NTK of the network; it leaves out the part of the gradient in which the
        prefix is a value. Lemma H.3, which would make that part small, is false.""",
    failure=Failure(
        "P1/definition-g.1",
        "Theorem 3.2 and Proposition 3.3 name its eigenvalue; with the exact kernel the theorem is true",
        "n = d = m = 1",
        root="the kernel leaves out the prefix as values",
    ),
    proof=kernel.printed_kernel,
    quick=_SIZES,
    full={"n": 16, "d": 8, "m": 2048},
)
def gram(settings: Settings, seed: int) -> Finding:
    """H(W) = J J'/m for the kernel H(W) of Definition G.1, on which the analysis of training rests. J is the
    Jacobian of all outputs in the prefix W. H is symmetric and positive semi-definite.
    """
    p = PrefixRegression.draw(settings, seed)
    J = jacrev(lambda W: _forward(p, W).T)(p.network.W).reshape(p.size, -1)
    true = J @ J.T / settings.m
    return Finding(
        conclusions=_gram_lines(p, true),
        numbers={
            "lambda_min, printed": p.paper.lambda_min,
            "lambda_min, J J'/m": p.exact.lambda_min,
            "lambda_max, printed": p.paper.lambda_max,
            "lambda_max, J J'/m": p.exact.lambda_max,
        },
        figures=(_spectra_figure({"printed": p.paper.kernel, "J J'/m": true}),),
        remark="Definition G.1 is the kernel of a network with fixed output weights. Here w_r is a value as "
        "well as a key, and the term m a_r S_r e_k of the gradient (Claim F.12) is missing.",
    )


def _gram_lines(p: PrefixRegression, true: Tensor) -> tuple[Conclusion, ...]:
    """Check the statements of Definition G.1, and the same for the kernel with the value term."""
    H = p.paper.kernel
    parts = ("Gram matrix of the gradients", "semi-definite")
    condition = p.paper.lambda_min / p.paper.lambda_max
    return (
        Conclusion(
            "relative distance of the printed H from J J'/m", "<=", _EXACT, _relative(H, true), part=parts[0]
        ),
        Conclusion("relative asymmetry of H", "<=", _EXACT, _relative(H.T, H), part=parts[1]),
        Conclusion("lambda_min / lambda_max of H", ">=", -1e-12, condition, part=parts[1]),
        comparison(
            "relative distance of the kernel with the value term from J J'/m",
            "<=",
            _EXACT,
            _relative(p.exact.kernel, true),
        ),
    )


def _spectra_figure(kernels: dict[str, Tensor]) -> Figure:
    spectra = {name: torch.linalg.eigvalsh(kernel) for name, kernel in kernels.items()}
    return plot(
        "Spectrum at initialisation",
        ("index", "eigenvalue"),
        *(
            Series.of(name, range(len(values)), values.flip(0).clamp(min=1e-12), "points")
            for name, values in spectra.items()
        ),
        log="y",
    )


@claim(
    "P1/lemma-i.6",
    place="Appendix I.5, Lemma I.6",
    title="The loss at initialisation is O(sqrt(nd))",
    quote="Then we have |F(0) - Y|_F <= O(sqrt(nd)).",
    plain="""Printed: the first loss is O(sqrt(nd)). With independent signs it is of order sqrt(nmd), as
        the paper's own Lemma H.8 says. T of Theorem 3.2 needs log m.""",
    failure=Failure(
        "P1/lemma-i.6",
        "T of Theorem 3.2 lacks log m, and its m needs lambda^-4; pairs of opposite signs repair both",
        "every constant, from m of the order of its square on",
        root="a sum of m terms with independent signs is of order sqrt(m)",
    ),
    proof=signs.first_loss,
    quick={**_SIZES, "n": 8, "widths": [64, 256, 1024, 4096, 16384], "m": 64},
    full={"n": 32, "d": 8, "widths": [256, 1024, 4096, 16384, 65536, 262144]},
)
def first_loss(settings: Settings, seed: int) -> Finding:
    """With independent prefix vectors and signs, |F(0) - Y|_F = O(sqrt(nd)) for every prefix length m."""
    starts = {
        init: [
            PrefixRegression.draw(settings | {"m": m, "init": init}, seed).residual.norm().item()
            for m in settings.widths
        ]
        for init in (settings.init, "symmetric")
    }
    root = math.sqrt(settings.n * settings.d)
    largest_start = max(starts[settings.init]) / root
    return Finding(
        conclusions=(
            no_growth("|F(0) - Y|_F over m", settings.widths, starts[settings.init]),
            Conclusion("largest |F(0) - Y|_F / sqrt(nd)", "<=", 10.0, largest_start, threshold="ours"),
            comparison(
                "largest |F(0) - Y|_F / sqrt(nd), symmetric initialisation",
                "<=",
                1.0,
                max(starts["symmetric"]) / root,
            ),
        ),
        numbers={
            "|F(0) - Y|_F / sqrt(nd m) at the largest m": starts[settings.init][-1]
            / (root * math.sqrt(settings.widths[-1]))
        },
        figures=(
            plot(
                "Distance from the targets at initialisation",
                ("prefix length m", "|F(0) - Y|_F"),
                *(Series.of(init, settings.widths, values) for init, values in starts.items()),
                Series.of("sqrt(nd)", settings.widths, [root] * len(settings.widths), "bound"),
            ),
        ),
        remark="The output is m times the mean of m random vectors, so it is of order sqrt(m). Pairs of "
        "equal prefix vectors with opposite signs make it zero; the other claims use such an initialisation.",
    )


@claim(
    "P1/definition-i.1",
    place="Appendix I, Definition I.1, General Conditions 4, 6 and 7",
    title="The conditions of the induction can be met together",
    quote="""D := 2 lambda^-1 exp(20B) (sqrt(nd)/m) |Y - F(0)|_F ... D < R = lambda/poly(n, d, exp(B)) ...
        m = lambda^-2 poly(n, d, exp(B))""",
    rests_on=("P1/lemma-i.6",),
    plain="""The induction asks for D < R with m = lambda^-2 poly. With the true first loss, of order
        sqrt(m), this needs lambda^-4. The theorem that rests on it fails for another reason, too.""",
    failure=Failure(
        "P1/lemma-i.6",
        "m of Theorem 3.2 needs lambda^-4 for lambda^-2; pairs of opposite signs repair it",
        "in the limit only: for lambda below 2c exp(20B) sqrt(nd) Q/sqrt(P), with m = P/lambda^2 and R = "
        "lambda/Q",
    ),
    proof=signs.conditions,
    quick={**_SIZES, "n": 8, "widths": [64, 256, 1024, 4096, 16384], "m": 64},
    full={"n": 32, "d": 8, "widths": [256, 1024, 4096, 16384, 65536]},
)
def conditions(settings: Settings, seed: int) -> Finding:
    """At m = lambda^-2 poly(n, d, exp(B)), D = 2 exp(20B) sqrt(nd) |Y - F(0)|_F / (lambda m) is at most a
    constant times R = lambda / poly(n, d, exp(B)) for every lambda.
    """
    losses = [
        PrefixRegression.draw(settings | {"m": m}, seed).residual.norm().item() for m in settings.widths
    ]
    inverse = [math.sqrt(m) for m in settings.widths]
    ratios = [loss * scale**2 / m for loss, scale, m in zip(losses, inverse, settings.widths, strict=True)]
    return Finding(
        conclusions=(no_growth("D/R at m = 1/lambda^2, over 1/lambda", inverse, ratios),),
        remark="D/R is |F(0) - Y| times a factor without lambda and m. Lambda enters through m = 1/lambda^2.",
    )
