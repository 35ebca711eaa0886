"""Lemmas H.1 to H.7: a step of gradient descent, split into C0, C1 = C11 + C12, C2 and C3."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attangent.audit import Conclusion, Failure, Figure, Finding, Hypothesis, Series, Settings, claim
from attangent.kernels import vectorise
from attangent.papers.common.bounds import LOG10_E, log10, never_above
from attangent.papers.common.descent import SplitStep, second_order_factor, terms_add_up, walk
from attangent.papers.common.figures import plot
from attangent.papers.p1_prefix.claims.prefix_regression import PrefixRegression
from attangent.papers.p1_prefix.network import PrefixNetwork, prefix_limit
from attangent.papers.p1_prefix.proofs import kernel

_SIZES = {
    "n": 6,
    "d": 4,
    "m": 1024,
    "sigma": 1.0,
    "rate": 0.5,
    "delta": 0.05,
    "steps": 100,
    "smallest": 1e-6,
    "init": "independent",
}
_LARGER = {"n": 12, "d": 8, "m": 8192, "steps": 600}


@dataclass(frozen=True)
class PrefixStep(SplitStep):
    """A step, split into the terms C0, C11, C12, C2 and C3, with the quadratic form of their bounds.

    Attributes:
        form: vec(F - Y)' H(t) vec(F - Y), with the printed kernel.
    """

    form: float


def take_step(p: PrefixRegression, network: PrefixNetwork, rate: float) -> tuple[PrefixStep, PrefixNetwork]:
    """Split a step as in Lemma H.1, computing each term from its definition.

    z = -eta <dL/dw_r, x_i> is the change of the exponents. Its part z_key comes from the gradient through the
    softmax (C11), the rest from the prefix as values (C12).
    """
    gradient = network.gradient(p.X, p.Y)
    as_key = network.tangent(p.X, kind="paper").pull_back(network.forward(p.X) - p.Y)
    moved = network.with_weights(network.W - rate * gradient)
    F = network.forward(p.X)
    F_moved = moved.forward(p.X)
    R = F - p.Y
    z = -rate * p.X @ gradient
    z_key = -rate * p.X @ as_key
    P = network.m * torch.softmax(p.X @ network.W, dim=1)
    theta = second_order_factor(z)
    v = {
        "C0": _normaliser_and_values(p.X, network, moved),
        "C11": (P * z_key) @ network.beta.T,
        "C12": (P * (z - z_key)) @ network.beta.T,
        "C2": (P * theta * z.square()) @ network.beta.T,
    }
    r = vectorise(R)
    step = PrefixStep(
        before=R.square().sum().item(),
        after=(F_moved - p.Y).square().sum().item(),
        terms={name: 2 * (R * part).sum().item() for name, part in v.items()}
        | {"C3": (F_moved - F).square().sum().item()},
        form=(r @ network.kernel(p.X, kind="paper") @ r).item(),
        theta=(theta.min().item(), theta.max().item()),
        move=z.abs().max().item(),
    )
    return step, moved


def _normaliser_and_values(X: Tensor, network: PrefixNetwork, moved: PrefixNetwork) -> Tensor:
    """v0 = m sum_r (theta(t+1) - theta(t)) u(t+1) with theta = beta / alpha and u = exp(X W)."""
    u = torch.exp(X @ network.W)
    u_moved = torch.exp(X @ moved.W)
    after = (u_moved @ moved.beta.T) / u_moved.sum(dim=1, keepdim=True)
    return network.m * (after - (u_moved @ network.beta.T) / u.sum(dim=1, keepdim=True))


def _column(steps: list[PrefixStep], term: str) -> Tensor:
    return torch.tensor([step.terms[term] for step in steps], dtype=torch.float64)


@claim(
    "P1/lemma-h.1",
    place="Appendix H, Lemma H.1",
    title="Decomposition of the loss into C0, C1, C2 and C3",
    quote="|F(tau+1) - Y|_F^2 = |F(tau) - Y|_F^2 + C0 + C1 + C2 + C3",
    rests_on=("P1/claim-f.12",),
    plain="The change of the loss splits into the printed terms exactly.",
    quick={**_SIZES, "rate": 0.01, "steps": 40},
    full={**_LARGER, "steps": 200},
)
def decomposition(settings: Settings, seed: int) -> Finding:
    """If no step moves an exponent by more than 0.01, then |F(tau+1) - Y|_F^2 = |F(tau) - Y|_F^2 + C0 + C1 +
    C2 + C3. C0 comes from values and normaliser, C1 is of first and C2 of second order (with a factor
    Theta(1)), and C3 = |F(tau+1) - F(tau)|^2.
    """
    return terms_add_up(walk(PrefixRegression.draw(settings, seed), settings, take_step))


@claim(
    "P1/lemma-h.2",
    place="Appendix H, Lemma H.2",
    title="The progress term C1,1",
    quote="C1,1 <= -1.6 m eta vec(F(tau) - Y)' H(tau) vec(F(tau) - Y)",
    rests_on=("P1/lemma-k.1", "P1/lemma-k.2"),
    plain="""The progress term C11 is at most -1.6 times the quadratic form of the printed kernel, as
        printed; it is about -2 times it.""",
    quick={**_SIZES, "rate": 0.01, "steps": 40},
    full={**_LARGER, "steps": 200},
)
def progress(settings: Settings, seed: int) -> Finding:
    """The part of C1 through the softmax satisfies C11 <= -1.6 m eta vec(F - Y)'H(t) vec(F - Y) with the
    kernel H of Definition G.1.
    """
    p = PrefixRegression.draw(settings, seed)
    steps = walk(p, settings, take_step)
    form = settings.m * p.rate(settings.rate) * torch.tensor([step.form for step in steps]).double()
    share = _column(steps, "C11") / form
    all_progress = sum(_column(steps, term) for term in ("C0", "C11", "C12")) / form
    return Finding(
        hypotheses=p.conditions(settings),
        conclusions=(never_above("C11 / (m eta r'H(t)r)", -1.6, share),),
        numbers={
            "C11 / (m eta r'H(t)r), mean": share.mean().item(),
            "all first-order terms / (m eta r'H(t)r), mean": torch.as_tensor(all_progress).mean().item(),
        },
        figures=(
            plot(
                "First-order terms in units of m eta r'H(t)r",
                ("step", "-C / (m eta r'H(t)r)"),
                Series.of("C11", range(len(share)), -share),
                Series.of("C0 + C11 + C12", range(len(share)), -torch.as_tensor(all_progress)),
                Series.of("1.6", range(len(share)), torch.full_like(share, 1.6), "bound"),
                log="",
            ),
        ),
        remark="C11 is -2 m eta r'H(t)r up to the mean of the values. The full first-order change is "
        "-2 m eta r'K(t)r with the exact kernel K; C0 and C12 contain the difference.",
    )


@claim(
    "P1/lemma-h.3",
    place="Appendix H, Lemma H.3 (Lemmas H.4-H.7)",
    title="The minor terms C0, C1,2, C2 and C3",
    quote="""|C0| <= 0.1 m eta lambda |F(tau) - Y|_F^2, |C1,2| <= 0.1 m eta lambda |F(tau) - Y|_F^2, |C2| <=
        eta^2 m n^2 d^2 exp(16B) |F(tau) - Y|_F^2, |C3| <= eta^2 m^2 |F(tau) - Y|_F^2""",
    rests_on=("P1/lemma-h.8", "P1/lemma-h.9", "P1/lemma-h.10", "P1/lemma-k.1", "P1/lemma-k.2"),
    plain="""Printed: C0 and C12 are small. They are as large as the progress itself, for every m, since
        they carry the prefix as values. Theorem 3.2 falls for this reason.""",
    failure=Failure(
        "P1/lemma-h.3",
        "Lemma I.4, Theorem 3.2 and Proposition 3.3 fall",
        "n = d = 1, in the limit of long prefixes",
        root="a_r^2 = 1, so the terms through the values do not average out",
    ),
    proof=kernel.minor_terms,
    quick={**_SIZES, "rates": [0.001, 0.01, 0.1, 0.5], "lengths": [256, 1024, 4096]},
    full={**_LARGER, "lengths": [256, 1024, 4096, 16384, 65536]},
)
def minor_terms(settings: Settings, seed: int) -> Finding:
    """Let r = F - Y and m = Omega(lambda^-2 n^2 d^2 e^(30B) sqrt(log(nd/delta))). Then |C0| and |C12| are at
    most 0.1 m eta lambda |r|^2, |C2| <= eta^2 m (nd)^2 e^(16B) |r|^2 and |C3| <= eta^2 m^2 |r|^2.
    """
    # Compute the first-order terms for infinite m, which meets every condition on m, at initialisation.
    p = PrefixRegression.draw(settings, seed)
    limit = terms_at_infinity(p)
    second = [_second_order(p, rate) for rate in settings.rates]
    scaled = [value * rate**2 for value, rate in zip(second, settings.rates, strict=True)]
    largest = max(map(log10, second))
    finite = {m: _at_length(settings | {"m": m}, seed) for m in settings.lengths}
    bound = 2 * math.log10(p.size) + 16 * p.bound(settings) * LOG10_E
    return Finding(
        hypotheses=(
            *p.in_unit_ball,
            Hypothesis("length m", ">=", p.guarantee(settings).log10_width, math.inf, log10=True),
        ),
        conclusions=(
            Conclusion("H.4: |C0| / (m eta lambda |r|^2), infinite m", "<=", 0.1, limit["C0"], part="C0"),
            Conclusion("H.5: |C12| / (m eta lambda |r|^2), infinite m", "<=", 0.1, limit["C12"], part="C12"),
            Conclusion("H.6: |C2| / (m eta^2 |r|^2)", "<=", bound, largest, log10=True, part="C2"),
            Conclusion.of_trend("H.6: |C2| / |r|^2 over eta", ">=", 2.0, settings.rates, scaled, part="C2"),
            Conclusion("H.7: C3 / (eta^2 m^2 |r|^2), infinite m", "<=", 1.0, limit["C3"], part="C3"),
        ),
        numbers={
            f"|{term}| / (m eta lambda |r|^2), m = {m}": value
            for m, terms in finite.items()
            for term, value in terms.items()
        },
        figures=(_lengths_figure(finite, limit),),
        remark="C0 contains the change of the values, C12 that of the exponents through the values. Both "
        "are as large as the progress itself, for every m. H.5 neglects C12 because its terms have mean "
        "zero, but S_ir S_jr w_r does not. C3 = eta^2 m^2 |K r|^2, so its constant is lambda_max^2, not 1.",
    )


def terms_at_infinity(p: PrefixRegression) -> dict[str, float]:
    """|C0|, |C12| in units of m eta lambda |r|^2 and C3 in units of (m eta |r|)^2, for infinite m, small eta.

    For infinite m, K - H = X + X' + D with X = e^(s^2 g) s^2 p_k x_il and D = delta_kl e^(s^2 g):
    C12 = -2 m eta r'X r and C0 = -2 m eta r'(X' + D) r, C3 = (m eta)^2 |K r|^2.
    """
    s = p.network.sigma
    exact, paper = (prefix_limit(p.X, sigma=s, kind=kind) for kind in ("exact", "paper"))
    r = vectorise(p.residual)
    r = r / r.norm()
    values = torch.kron(torch.eye(p.X.shape[1], dtype=r.dtype), torch.exp(s**2 * p.X @ p.X.T))
    direct = (r @ values @ r).item()
    crossed = ((r @ (exact - paper) @ r).item() - direct) / 2
    lam = torch.linalg.eigvalsh(paper)[0].item()
    return {
        "C0": 2 * abs(crossed + direct) / lam,
        "C12": 2 * abs(crossed) / lam,
        "C3": (exact @ r).square().sum().item(),
    }


def _second_order(p: PrefixRegression, factor: float) -> float:
    """|C2| / (m eta^2 |r|^2) of the first step at this rate."""
    step, _ = take_step(p, p.network, p.rate(factor))
    return abs(step.terms["C2"]) / step.before / (p.network.m * p.rate(factor) ** 2)


def _at_length(settings: Settings, seed: int) -> dict[str, float]:
    p = PrefixRegression.draw(settings, seed)
    step, _ = take_step(p, p.network, p.rate(0.01))
    unit = settings.m * p.rate(0.01) * p.paper.lambda_min * step.before
    return {term: abs(step.terms[term]) / unit for term in ("C0", "C12")}


def _lengths_figure(finite: dict[int, dict[str, float]], limit: dict[str, float]) -> Figure:
    lengths = list(finite)
    return plot(
        "The minor terms over the prefix length",
        ("prefix length m", "|C| / (m eta lambda |r|^2)"),
        *(Series.of(term, lengths, [finite[m][term] for m in lengths]) for term in ("C0", "C12")),
        *(
            Series.of(f"{term} for infinite m", lengths, [limit[term]] * len(lengths), "points")
            for term in ("C0", "C12")
        ),
        Series.of("0.1", lengths, [0.1] * len(lengths), "bound"),
    )
