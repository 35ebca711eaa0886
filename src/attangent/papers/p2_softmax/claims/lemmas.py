"""Lemmas 5.1 and B.1 (a move of the weights), D.1-D.3 and E.1-E.7 (one step of descent in four terms)."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attangent.audit import Conclusion, Failure, Figure, Finding, Hypothesis, Series, Settings, claim
from attangent.kernels import SoftmaxNetwork, vectorise
from attangent.papers.common.bounds import LOG10_E, bound_figure, never_above
from attangent.papers.common.descent import SplitStep, gradient_line, second_order_factor, terms_add_up, walk
from attangent.papers.common.figures import plot
from attangent.papers.common.perturbation import (
    Changes,
    beyond_bound,
    change_figure,
    entry_line,
    growth_with_neurons,
    largest_over_radius,
    norm_line,
    random_move,
    thirteen_parts,
)
from attangent.papers.p2_softmax import proofs
from attangent.papers.p2_softmax.claims.regression import SoftmaxRegression

_MOVED = {"n": 6, "d": 8, "d_out": 4, "m": 1024, "sigma": 1.0, "delta": 0.05}


@claim(
    "P2/lemma-5.1",
    place="Section 5, Lemma 5.1 (Lemma B.2)",
    title="A small move of the weights changes the kernel little",
    quote="Then with probability at least 1 - delta, we have |H(W) - H(W~)|_F <= R nd exp(10B).",
    rests_on=("P2/lemma-b.1",),
    plain="""A small move of the weights changes the kernel by at most the printed bound for sigma <= 1,
        with four decades of slack at the smallest B. For very large sigma and m, which the paper does not
        use, the bound is false.""",
    ours=("sigma <= 1; Theorem 4.2 takes sigma = 1",),
    quick={**_MOVED, "sigma": 0.04, "radii": [0.00001, 0.0001, 0.001, 0.0099]},
    full={"n": 12, "d": 16, "d_out": 8, "m": 4096},
)
def kernel_perturbation(settings: Settings, seed: int) -> Finding:
    """If every neuron moves by at most R < 0.01, no entry of the kernel changes by more than R e^(10B), and
    the kernel by no more than R n d e^(10B) in the Frobenius norm.
    """
    p = SoftmaxRegression.draw(settings, seed)
    bound = 10 * p.constants(settings).B * LOG10_E
    directions = {"random": random_move(p.network.W, seed), "adversarial": _worst_directions(p, seed)}
    changes = {f"{name} move": _changes(p, settings.radii, U) for name, U in directions.items()}
    over_radius = {name: largest_over_radius(of_move) for name, of_move in changes.items()}
    return Finding(
        hypotheses=(p.in_unit_ball[0], Hypothesis("largest move R", "<=", 0.01, max(settings.radii))),
        conclusions=(entry_line(changes, bound), norm_line(changes, math.log10(p.size) + bound)),
        numbers={
            **{f"|H(W) - H(W~)|_F / R, {name}": value for name, value in over_radius.items()},
            "|H|_F": p.kernel.norm().item(),
            "log10 of the slack": math.log10(p.size) + bound - math.log10(max(over_radius.values())),
        },
        figures=(change_figure(changes, "neuron"),),
        remark="sigma is such that B = 1, the smallest value; there the bound has about four decades of "
        "slack. At sigma = 1 it has over a hundred and cannot fail. The lemma does not bound sigma. For n = "
        "d = 1 and large m the entry is e^(sigma^2), mostly from neurons with w x > 1.5 sigma^2. A move of "
        "these by R adds 2 R e^(sigma^2), more than R e^(10B) if sigma > 10 C sqrt(log(nd/delta)).",
    )


def _changes(p: SoftmaxRegression, radii: list[float], U: Tensor) -> Changes:
    return {R: _printed_kernel(p, p.network.W + R * U) - p.kernel for R in radii}


def _printed_kernel(p: SoftmaxRegression, W: Tensor) -> Tensor:
    """Return H(W) entry by entry as Definition 3.6 prints it, differentiable in W."""
    S = torch.softmax(p.X @ W, dim=1)
    v = p.network.a[:, None, :] - (S @ p.network.a.T).T[:, :, None]  # <v_lr, S_i> as (l, i, r)
    G = (v * p.network.m * S).reshape(p.size, -1)
    return (G @ G.T) * (p.X @ p.X.T / p.network.m).tile(p.network.d_out, p.network.d_out)


def _worst_directions(p: SoftmaxRegression, seed: int, rounds: int = 5) -> Tensor:
    """Return unit moves, one per neuron, that change the kernel most: power iteration on its derivative."""
    U = random_move(p.network.W, seed)
    for _ in range(rounds):
        change = torch.func.jvp(lambda W: _printed_kernel(p, W), (p.network.W,), (U,))[1]
        pull = torch.func.vjp(lambda W: _printed_kernel(p, W), p.network.W)[1]
        U = pull(change)[0]
        U = U / U.norm(dim=0).clamp(min=1e-300)
    return U


@claim(
    "P2/lemma-b.1",
    place="Appendix B.1, Lemma B.1",
    title="Thirteen bounds on products, exponentials and softmax under a small move",
    quote="Part 1. |<w_r, x_i>| <= B, for all i in [n], for all r in [m]",
    plain="""Printed: |<w_r, x>| <= B for all m neurons, with a B that does not depend on m. False at the
        theorem's own m with C = 10; B needs log m.""",
    failure=Failure(
        "P2/lemma-b.1",
        "a factor changes: B gets sqrt(log m), and e^B becomes m^o(1) in every bound that uses it",
        "m = 10^134 at nd/delta = 480; Theorem 4.2 requires m above 10^198",
        root="the bound B on all m products does not contain m",
    ),
    proof=proofs.union_over_neurons,
    quick={**_MOVED, "m": 4096, "n": 16, "R": 0.0099},
    full={"n": 64, "m": 65536},
)
def concentration(settings: Settings, seed: int) -> Finding:
    """Thirteen bounds on <w, x>, exp<w, x>, the normaliser alpha and the softmax S hold with high
    probability, each in powers of e^B and R, for Gaussian weights w, moved weights v within R < 0.01 of them
    and points in the unit ball.
    """
    p = SoftmaxRegression.draw(settings, seed)
    needed = p.constants(settings)
    finding = thirteen_parts(p.X, p.network.W, needed.B, settings.R)
    beyond = beyond_bound(needed.B, settings.sigma, settings.delta, needed.log10_width)
    return replace(
        finding,
        conclusions=(*finding.conclusions, beyond, growth_with_neurons(p.X @ p.network.W)),
        remark="B does not depend on m, while the largest of m products grows like sqrt(log m). The bound "
        "holds for all r only if m is below about (nd/delta)^(C^2/2). The proof says that m is poly(nd), but "
        "Theorem 4.2 requires m >= lambda^-2 (nd)^2 e^(18B) log^2(nd/delta), which is more for moderate nd "
        "and C = 10.",
    )


_SIZES = {
    "n": 6, "d": 8, "d_out": 4, "m": 2048, "sigma": 1.0, "rate": 0.5, "delta": 0.05, "steps": 150,
    "smallest": 1e-6,
}  # fmt: skip


_LARGER = {"n": 12, "d": 16, "m": 8192, "steps": 600}


@claim(
    "P2/lemma-d.1",
    place="Appendix D, Lemmas D.1, D.2 and D.3",
    title="Bounds on the gradient and on the first loss",
    quote="|Delta w_r(tau)|_2 <= exp(3B) sqrt(nd) |F(tau) - Y|_F (D.1); |F(0) - Y|_F <= O(sqrt(nd)) (D.3)",
    rests_on=("P2/claim-3.4", "P2/lemma-b.1", "P2/definition-3.7"),
    plain="The gradient keeps its bound at the smallest B, and the first loss is at most sqrt(nd).",
    quick={**_SIZES, "sigma": 0.04, "m": 1024, "steps": 50},
    full=_LARGER,
)
def gradient_bounds(settings: Settings, seed: int) -> Finding:
    """At any time the gradient of every neuron is at most e^(3B) sqrt(nd) |F - Y|_F.

    At the rate of the theorem no neuron moves by more than 0.01 in a step, and |F(0) - Y|_F is at most
    sqrt(nd).
    """
    p = SoftmaxRegression.draw(settings, seed)
    run = p.train(settings)
    needed = p.constants(settings)
    residual = (2 * run.loss).sqrt()
    constant = (run.gradient_norm / (math.sqrt(p.size) * residual)).max().item()
    steepest = math.log10(run.gradient_norm.max().item())
    start = p.residual.norm().item()
    largest_step = needed.log10_rate + steepest
    return Finding(
        hypotheses=p.in_unit_ball,
        conclusions=(
            gradient_line("D.1", 3 * needed.B * LOG10_E, math.log10(constant)),
            Conclusion(
                "D.2: eta |dL/dw_r| at the theorem's rate", "<=", -2.0, largest_step, log10=True, part="D.2"
            ),
            Conclusion("D.3: |F(0) - Y|_F", "<=", math.sqrt(p.size), start, part="D.3"),
        ),
        numbers={
            "constant of D.1 measured": constant,
            "eta |dL/dw_r| at the rate used": run.rate * 10**steepest,
        },
        figures=(
            bound_figure(
                "Largest gradient of a neuron",
                "norm",
                run.gradient_norm,
                math.sqrt(p.size) * residual,
                ("|dL/dw_r|", "sqrt(nd) |F - Y|_F"),
            ),
        ),
    )


@dataclass(frozen=True)
class SoftmaxStep(SplitStep):
    """A step split into the terms C0 to C3, and the quantities in their bounds.

    Attributes:
        quadratic_form: vec(F - Y)' H(t) vec(F - Y).
    """

    quadratic_form: float
    lambda_min: float


def take_step(
    p: SoftmaxRegression, network: SoftmaxNetwork, rate: float
) -> tuple[SoftmaxStep, SoftmaxNetwork]:
    """Split a step as Lemma E.1 does.

    v0 comes from the change of the normaliser alpha, v1 is first order in the step z = -eta <dL/dw_r, x_i>,
    and v2 is all of exp(z) - 1 - z, so that Theta(1) is (exp(z) - 1 - z) / z^2.
    """
    gradient = network.gradient(p.X, p.Y)
    moved = network.with_weights(network.W - rate * gradient)
    F = network.forward(p.X)
    F_moved = moved.forward(p.X)
    R = F - p.Y
    z = -rate * p.X @ gradient
    S = network.probabilities(p.X)
    growth = torch.log1p((S * torch.expm1(z)).sum(dim=1, keepdim=True))  # log alpha(t+1)/alpha(t)
    theta = second_order_factor(z)
    remainder = theta * z.square()
    v = {
        "C0": -F_moved * torch.expm1(growth),
        "C1": network.m * (S * z) @ network.a.T,
        "C2": network.m * (S * remainder) @ network.a.T,
    }
    H = network.kernel(p.X)
    r = vectorise(R)
    step = SoftmaxStep(
        before=R.square().sum().item(),
        after=(F_moved - p.Y).square().sum().item(),
        terms={name: 2 * (R * change).sum().item() for name, change in v.items()}
        | {"C3": (F_moved - F).square().sum().item()},
        quadratic_form=(r @ H @ r).item(),
        lambda_min=torch.linalg.eigvalsh(H)[0].item(),
        theta=(theta.min().item(), theta.max().item()),
        move=z.abs().max().item(),
    )
    return step, moved


@claim(
    "P2/lemma-e.1",
    place="Appendix E.1, Lemma E.1",
    title="The change of the loss splits into C0, C1, C2 and C3",
    quote="|F(tau+1) - Y|_F^2 = |F(tau) - Y|_F^2 + C0 + C1 + C2 + C3",
    rests_on=("P2/claim-3.4",),
    plain="The change of the loss splits into the printed terms exactly.",
    quick=_SIZES,
    full=_LARGER,
    seconds=1.0,
)
def decomposition(settings: Settings, seed: int) -> Finding:
    """If no step moves an exponent by more than 0.01, |F(t+1) - Y|^2 = |F(t) - Y|^2 + C0 + C1 + C2 + C3.

    C0 comes from the normaliser, C1 is first order, C2 is second order with a factor Theta(1), and C3 =
    |F(t+1) - F(t)|^2.
    """
    return terms_add_up(walk(SoftmaxRegression.draw(settings, seed), settings, take_step))


@claim(
    "P2/lemma-e.3",
    place="Appendix E, Lemmas E.2-E.4 and Claims E.5-E.7",
    title="Bounds on the four terms",
    quote="""|C0| <= 0.1 m eta lambda |F(tau) - Y|_F^2 (E.3) ... C1 <= -1.6 m eta vec(F - Y)'H(tau) vec(F - Y)
        (E.4) ... lambda_min(H(tau)) >= lambda/2 (E.5)""",
    rests_on=("P2/lemma-5.1", "P2/lemma-b.1", "P2/lemma-d.1"),
    plain="All four terms keep their bounds in every run; the required width is out of reach.",
    quick=_SIZES,
    full=_LARGER,
    seconds=1.0,
)
def term_bounds(settings: Settings, seed: int) -> Finding:
    """C1 <= -1.6 m eta r'H(t)r makes progress, with r = F - Y, and the rest is minor: |C0| <= 0.1 m eta
    lambda |r|^2, C2 <= 2 m eta^2 (nd)^2 e^(9B) |r|^2, C3 <= eta^2 m^2 (nd)^2 e^(16B) |r|^2. The kernel keeps
    lambda_min(H(t)) >= lambda/2, so each step leaves at most 1 - m eta lambda/2 of |r|^2.
    """
    p = SoftmaxRegression.draw(settings, seed)
    steps = walk(p, settings, take_step)
    B = p.constants(settings).B
    eta = p.rate(settings.rate)
    m = settings.m
    nd = p.size
    unit = torch.tensor([m * eta * p.lambda_min * step.before for step in steps], dtype=torch.float64)
    C = torch.tensor([list(step.terms.values()) for step in steps], dtype=torch.float64)
    form = torch.tensor([m * eta * step.quadratic_form for step in steps], dtype=torch.float64)
    before = torch.tensor([step.before for step in steps], dtype=torch.float64)
    left = torch.tensor([step.after / step.before for step in steps], dtype=torch.float64)
    lambda_kept = min(step.lambda_min for step in steps) / p.lambda_min
    log_nd2 = 2 * math.log10(nd)
    return Finding(
        hypotheses=p.conditions(settings),
        conclusions=(
            _over_time("E.3: |C0| / (m eta lambda |r|^2)", 0.1, C[:, 0].abs() / unit),
            _over_time("E.4: C1 / (m eta r'H(t)r)", -1.6, C[:, 1] / form),
            _over_time("E.5: C1 / (m eta lambda |r|^2)", -0.5, C[:, 1] / unit),
            Conclusion("E.5: smallest lambda_min(H(t)) / lambda", ">=", 0.5, lambda_kept, part="E.5"),
            _power(
                "E.6: |C2| / (m eta^2 |r|^2)",
                math.log10(2) + log_nd2 + 9 * B * LOG10_E,
                C[:, 2] / before / (m * eta**2),
            ),
            _power(
                "E.7: C3 / (eta^2 m^2 |r|^2)", log_nd2 + 16 * B * LOG10_E, C[:, 3] / before / (m * eta) ** 2
            ),
            _over_time(
                "E.2: fraction of |r|^2 left by a step",
                1 - settings.rate * p.lambda_min / p.lambda_max / 2,
                left,
            ),
        ),
        numbers={
            "C1 / (m eta r'H(t)r), mean": (C[:, 1] / form).mean().item(),
            "|C0| / |C1|, largest": (C[:, 0] / C[:, 1]).abs().max().item(),
            "|C2| / |C1|, largest": (C[:, 2] / C[:, 1]).abs().max().item(),
            "C3 / |C1|, largest": (C[:, 3] / C[:, 1]).abs().max().item(),
        },
        figures=(_terms_figure(C / unit[:, None]),),
        remark="C1 is measured at -2 m eta r'H(t)r, as its first-order term predicts. Claim E.5 restates it "
        "without the factor 1.6.",
    )


def _over_time(name: str, bound: float, values: Tensor) -> Conclusion:
    """Return the line that no value exceeds `bound`; its part is the lemma at the start of the name."""
    return never_above(name, bound, values, part=_lemma(name))


def _lemma(name: str) -> str:
    return name.partition(":")[0]


def _power(name: str, bound: float, values: Tensor) -> Conclusion:
    largest = values.abs().max().item()
    measured = math.log10(largest) if largest > 0 else -math.inf
    return Conclusion(name, "<=", bound, measured, log10=True, part=_lemma(name))


def _terms_figure(C: Tensor) -> Figure:
    """Draw the terms C0 to C3, one column each, in units of m eta lambda |r|^2."""
    steps = range(len(C))
    return plot(
        "The terms in units of m eta lambda |r|^2",
        ("step", "size"),
        Series.of("-C1, progress", steps, -C[:, 1]),
        Series.of("|C0|", steps, C[:, 0].abs() + 1e-300),
        Series.of("|C2|", steps, C[:, 2].abs() + 1e-300),
        Series.of("C3", steps, C[:, 3]),
        Series.of("bound 0.1 of |C0|", steps, [0.1] * len(steps), "bound"),
        log="y",
    )
