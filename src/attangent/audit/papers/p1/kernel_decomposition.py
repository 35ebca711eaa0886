"""Lemmas H.1-H.7: one step of descent, split into the terms C0, C1 = C11 + C12, C2 and C3."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Hypothesis, Series
from attangent.audit.papers.measures.bounds import LOG10_E
from attangent.audit.papers.measures.descent import second_order_factor, walk
from attangent.audit.papers.p1.prefix_regression import (
    PrefixRegression,
    ordinary_regression,
    properties,
)
from attangent.audit.registry import claim
from attangent.kernels import PrefixNetwork, vectorise

_SIZES = {
    "n": 6,
    "d": 4,
    "m": 1024,
    "sigma": 1.0,
    "rate": 0.5,
    "delta": 0.05,
    "steps": 100,
    "smallest": 1e-6,
}
_LARGER = {"n": 12, "d": 8, "m": 8192, "steps": 600}
_TERMS = ("C0", "C11", "C12", "C2", "C3")


@dataclass(frozen=True)
class Step:
    """One step of descent: |F - Y|^2 before and after, its terms, and what the bounds speak of."""

    before: float
    after: float
    terms: dict[str, float]
    form: float
    """vec(F - Y)' H(t) vec(F - Y) with the printed kernel."""
    theta: tuple[float, float]
    """The range of the factor that the print writes as Theta(1)."""
    move: float
    """The largest eta |<dL/dw_r, x_i>|."""

    @property
    def gap(self) -> float:
        """How far the sum of the terms is from the change of the squared error, relative to that error."""
        return abs(self.after - self.before - sum(self.terms.values())) / self.before


def take_step(p: PrefixRegression, network: PrefixNetwork, rate: float) -> tuple[Step, PrefixNetwork]:
    """Split a step as Lemma H.1 does, each term from its own definition.

    z = -eta <dL/dw_r, x_i> is the change of the exponents; its part z_key comes from the gradient through
    the softmax (C11), the rest from the prefix as values (C12).
    """
    gradient = network.gradient(p.X, p.Y)
    as_key = network.tangent(p.X, kind="paper").pull_back(network.forward(p.X) - p.Y)
    moved = network.with_weights(network.W - rate * gradient)
    F, F_moved = network.forward(p.X), moved.forward(p.X)
    R = F - p.Y
    z, z_key = -rate * p.X @ gradient, -rate * p.X @ as_key
    P = network.m * torch.softmax(p.X @ network.W, dim=1)
    theta = second_order_factor(z)
    v = {
        "C0": _normaliser_and_values(p.X, network, moved),
        "C11": (P * z_key) @ network.beta.T,
        "C12": (P * (z - z_key)) @ network.beta.T,
        "C2": (P * theta * z.square()) @ network.beta.T,
    }
    r = vectorise(R)
    step = Step(
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
    u, u_moved = torch.exp(X @ network.W), torch.exp(X @ moved.W)
    after = (u_moved @ moved.beta.T) / u_moved.sum(dim=1, keepdim=True)
    return network.m * (after - (u_moved @ network.beta.T) / u.sum(dim=1, keepdim=True))


def _column(steps: list[Step], term: str) -> Tensor:
    return torch.tensor([step.terms[term] for step in steps], dtype=torch.float64)


def _terms_figure(steps: list[Step]) -> Figure:
    before = torch.tensor([step.before for step in steps], dtype=torch.float64)
    return Figure(
        "The terms, relative to the squared error",
        "step",
        "|C| / |F - Y|^2",
        tuple(
            Series.of(term, range(len(steps)), _column(steps, term).abs() / before + 1e-300)
            for term in _TERMS
        ),
        log_y=True,
    )


@claim(
    "P1/lemma-h.1",
    place="Appendix H, Lemma H.1",
    title="The change of the loss splits into C0, C1, C2 and C3",
    statement="""If no step moves an exponent by more than 0.01, the squared error after a step is that before
        plus C0 (values and normaliser), C1 (first order), C2 (second order, with a factor Theta(1)) and
        C3 = |F(t+1) - F(t)|^2.""",
    quick=_SIZES,
    full=_LARGER,
    seconds=0.4,
)
def decomposition(settings: Settings, seed: int) -> Finding:
    steps = walk(ordinary_regression(settings, seed), settings, take_step)
    return Finding(
        hypotheses=(
            Hypothesis("largest eta |<dL/dw_r, x_i>|", "<=", 0.01, max(step.move for step in steps)),
        ),
        conclusions=(
            Conclusion("largest gap of the sum, relative", "<=", 1e-9, max(step.gap for step in steps)),
            Conclusion("smallest factor Theta(1)", ">=", 0.45, min(step.theta[0] for step in steps)),
            Conclusion("largest factor Theta(1)", "<=", 0.55, max(step.theta[1] for step in steps)),
        ),
        numbers={
            f"{term} / |F - Y|^2 at the first step": steps[0].terms[term] / steps[0].before for term in _TERMS
        },
        figures=(_terms_figure(steps),),
    )


@claim(
    "P1/lemma-h.2",
    place="Appendix H, Lemma H.2",
    title="The progress term",
    statement="""The part of C1 through the softmax makes progress at the rate of the kernel of
        Definition G.1: C11 <= -1.6 m eta vec(F - Y)'H(t) vec(F - Y).""",
    quick=_SIZES,
    full=_LARGER,
    seconds=0.4,
)
def progress(settings: Settings, seed: int) -> Finding:
    p = ordinary_regression(settings, seed)
    steps = walk(p, settings, take_step)
    form = settings.m * p.rate(settings.rate) * torch.tensor([step.form for step in steps]).double()
    share = _column(steps, "C11") / form
    all_progress = sum(_column(steps, term) for term in ("C0", "C11", "C12")) / form
    return Finding(
        hypotheses=properties(p, settings),
        conclusions=(_at_most("C11 / (m eta r'H(t)r)", -1.6, share),),
        numbers={
            "C11 / (m eta r'H(t)r), mean": share.mean().item(),
            "all first-order terms / (m eta r'H(t)r), mean": torch.as_tensor(all_progress).mean().item(),
        },
        figures=(
            Figure(
                "First-order terms in units of m eta r'H(t)r",
                "step",
                "-C / (m eta r'H(t)r)",
                (
                    Series.of("C11", range(len(share)), -share),
                    Series.of("C0 + C11 + C12", range(len(share)), -torch.as_tensor(all_progress)),
                    Series.of("1.6", range(len(share)), torch.full_like(share, 1.6), "bound"),
                ),
            ),
        ),
        remark="C11 is -2 m eta r'H(t)r up to the mean of the values. It is not the whole first-order "
        "change: that is -2 m eta r'K(t)r with the exact kernel K, and C0 and C12 carry the difference.",
    )


@claim(
    "P1/lemma-h.3",
    place="Appendix H, Lemma H.3 (Lemmas H.4-H.7)",
    title="The other terms are minor",
    statement="""With r = F - Y: |C0| and |C12| are at most 0.1 m eta lambda |r|^2,
        |C2| <= eta^2 m (nd)^2 e^(16B) |r|^2 and |C3| <= eta^2 m^2 |r|^2.""",
    quick=_SIZES,
    full=_LARGER,
    seconds=0.4,
)
def minor_terms(settings: Settings, seed: int) -> Finding:
    p = ordinary_regression(settings, seed)
    steps = walk(p, settings, take_step)
    eta, m, nd = p.rate(settings.rate), settings.m, p.size
    before = torch.tensor([step.before for step in steps], dtype=torch.float64)
    unit = m * eta * p.paper.lambda_min * before
    C = {term: _column(steps, term) for term in _TERMS}
    second = (C["C2"].abs() / before / (m * eta**2)).max().item()
    bound = 2 * math.log10(nd) + 16 * p.bound(settings) * LOG10_E
    largest = p.exact.lambda_max**2
    return Finding(
        hypotheses=properties(p, settings),
        conclusions=(
            _at_most("H.4: |C0| / (m eta lambda |r|^2)", 0.1, C["C0"].abs() / unit),
            _at_most("H.5: |C12| / (m eta lambda |r|^2)", 0.1, C["C12"].abs() / unit),
            Conclusion("H.6: |C2| / (m eta^2 |r|^2)", "<=", bound, math.log10(second + 1e-300), log10=True),
            _at_most("H.7: C3 / (eta^2 m^2 |r|^2)", 1.0, C["C3"] / before / (m * eta) ** 2),
            _at_most(
                "C3 / (eta^2 m^2 lambda_max^2 |r|^2) with the exact kernel",
                1.0,
                C["C3"] / before / (m * eta) ** 2 / largest,
                claimed=False,
                slack=0.05,
            ),
        ),
        numbers={
            f"|{term}| / |C11|, largest": (C[term] / C["C11"]).abs().max().item()
            for term in ("C0", "C12", "C2", "C3")
        },
        figures=(_terms_figure(steps),),
        remark="C0 holds the change of the values and C12 that of the exponents through the values: both are "
        "of the order of the progress itself, for any m. H.5 drops C12 because its terms have mean zero; "
        "S_ir S_jr w_r has not. C3 is eta^2 m^2 |K r|^2, hence bounded by lambda_max^2, not by 1.",
    )


def _at_most(name: str, bound: float, values: Tensor, claimed: bool = True, slack: float = 0.0) -> Conclusion:
    """`values` at each step should not exceed `bound`."""
    above = (values > bound + slack).nonzero()
    first = int(above[0]) if len(above) else None
    return Conclusion(name, "<=", bound + slack, values.max().item(), claimed=claimed, first_violation=first)
