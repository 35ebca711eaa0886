"""Lemma J.7: polynomial features approximate every entry of exp(QK'/d) up to a relative error."""

import math
from dataclasses import dataclass

import torch

from attangent.attention import features
from attangent.audit import Conclusion, Figure, Finding, Series, Settings, claim
from attangent.papers.common.figures import plot
from attangent.papers.p1_prefix.claims.attention_setting import uniform


@dataclass(frozen=True)
class Case:
    """The order that one accuracy and one bound need, and the error and size of its features."""

    order: int
    relative_error: float
    rank: int
    size: int


def promised_order(epsilon: float, bound: float) -> float:
    """max{log(1/eps) / log(log(1/eps)/B^2), B^2}, or B^2 if the first term is not positive."""
    accuracy = math.log(1 / epsilon)
    square = bound**2
    ratio = math.log(accuracy / square)
    return max(accuracy / ratio, square) if ratio > 0 else square


def promised_size(order: int, d: int) -> int:
    """C(2(g + d), 2g)."""
    return math.comb(2 * (order + d), 2 * order)


def measure(epsilon: float, bound: float, d: int, n: int, seed: int) -> Case:
    """Measure the lowest sufficient order on n random rows and the two corners with the largest error.

    The lemma divides logits by d, the map by sqrt d; so both sides are scaled by d^(-1/4).
    """
    order = features.order_for(bound**2, epsilon)
    corner = torch.full((1, d), bound, dtype=torch.float64)
    Q = torch.cat([uniform(n, d, bound=bound, seed=seed, stream="lemma Q"), corner])
    K = torch.cat([uniform(n, d, bound=bound, seed=seed, stream="lemma K"), corner, -corner])
    phi = features.Taylor(d, order)
    approximate = phi(Q * d**-0.25) @ phi(K * d**-0.25).T
    exact = torch.exp(Q @ K.T / d)
    relative = (approximate / exact - 1).abs().max().item()
    return Case(order, relative, int(torch.linalg.matrix_rank(approximate)), phi.size)


@claim(
    "P1/lemma-j.7",
    place="Appendix J.3, Lemma J.7 and Definition J.6",
    title="Low-rank polynomial approximation of exp(QK'/d)",
    quote="""there is a positive integer g = O(max{log(1/eps) / log(log(1/eps)/B^2), B^2}), and a positive
        integer r <= C(2(g+d), 2g) such that: there is a matrix A~ that is an (eps, r)-approximation of A""",
    nature="quotation",
    plain="""The quoted low-rank approximation is right for QK'/d. Algorithm 2 and Theorem 4.1 have
        QK'/sqrt d, for which B becomes d^(1/4) B.""",
    quick={
        "d": 3,
        "n": 60,
        "bounds": [0.5, 1.0, 2.0],
        "accuracies": [1e-1, 1e-2, 1e-4, 1e-6, 1e-8],
        "small": [1e-10, 1e-20, 1e-40, 1e-80, 1e-160],
        "constant": 6.0,
    },
    full={"d": 4, "n": 200, "accuracies": [1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-10]},
    seconds=0.5,
)
def lemma_j_7(settings: Settings, seed: int) -> Finding:
    """If the entries of Q and K are in [-B, B], there are an order g = O(max{log(1/eps)/log(log(1/eps)/B^2),
    B^2}) and r <= C(2(g + d), 2g) features such that U_1 U_2' approximates every entry of exp(QK'/d) up to a
    relative error eps.
    """
    cases = {
        (bound, epsilon): measure(epsilon, bound, settings.d, settings.n, seed)
        for bound in settings.bounds
        for epsilon in settings.accuracies
    }
    return Finding(
        conclusions=(
            Conclusion(
                "largest relative error / eps",
                "<=",
                1.0,
                max(case.relative_error / epsilon for (_, epsilon), case in cases.items()),
            ),
            *(_order_trend(settings, bound) for bound in settings.bounds),
            _largest_order(settings, cases),
            *_sizes_and_ranks(settings.d, list(cases.values())),
        ),
        numbers={
            f"order, B = {bound:g}, eps = {epsilon:g}": case.order for (bound, epsilon), case in cases.items()
        },
        figures=(_order_figure(settings, cases),),
        remark="r = C(g + d, g) features are enough, far fewer than printed. The printed order is right up "
        "to a constant; the setting `constant` is the one we allow for its O.",
    )


def _order_trend(settings: Settings, bound: float) -> Conclusion:
    """Compare needed and printed order for accuracies far below what can be measured."""
    return Conclusion.of_trend(
        f"needed order / printed order, over log(1/eps), B = {bound:g}",
        "<=",
        0.0,
        [math.log(1 / epsilon) for epsilon in settings.small],
        [
            features.order_for(bound**2, epsilon) / promised_order(epsilon, bound)
            for epsilon in settings.small
        ],
    )


def _largest_order(settings: Settings, cases: dict[tuple[float, float], Case]) -> Conclusion:
    largest = max(case.order / promised_order(epsilon, bound) for (bound, epsilon), case in cases.items())
    name = "largest needed order / printed order"
    return Conclusion(name, "<=", settings.constant, largest, threshold="ours")


def _sizes_and_ranks(d: int, cases: list[Case]) -> tuple[Conclusion, ...]:
    """Compare the number of features with the printed one, and the rank with the number of features."""
    sizes = [case.size / promised_size(case.order, d) for case in cases]
    return (
        Conclusion("largest r / C(2(g + d), 2g)", "<=", 1.0, max(sizes)),
        Conclusion("largest rank / r", "<=", 1.0, max(case.rank / case.size for case in cases)),
        Conclusion("smallest r / C(2(g + d), 2g)", ">=", 0.1, min(sizes), claimed=False),
    )


def _order_figure(settings: Settings, cases: dict[tuple[float, float], Case]) -> Figure:
    x = [math.log10(1 / epsilon) for epsilon in settings.accuracies]
    measured = [
        Series.of(f"needed, B = {bound:g}", x, [cases[bound, e].order for e in settings.accuracies])
        for bound in settings.bounds
    ]
    promised = [
        Series.of(
            f"printed, B = {bound:g}", x, [promised_order(e, bound) for e in settings.accuracies], "bound"
        )
        for bound in settings.bounds
    ]
    return plot(
        "Order g over the accuracy",
        ("decimal digits, log10(1/eps)", "order g"),
        *measured,
        *promised,
        log="y",
    )
