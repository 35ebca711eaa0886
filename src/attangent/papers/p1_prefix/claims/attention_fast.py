"""Lemma J.7 and Corollary J.3: NTK-Attention with a fast attention for the tokens."""

import math
from dataclasses import dataclass

import torch

from attangent.attention import PrefixState, features, prefix_attention
from attangent.audit import Conclusion, Failure, Figure, Finding, Hypothesis, Series, Settings, claim
from attangent.papers.common.bounds import comparison
from attangent.papers.common.figures import plot
from attangent.papers.common.sizes import by_size, no_growth
from attangent.papers.p1_prefix.claims.attention_prefix import growing_map, number_of_features, token_trend
from attangent.papers.p1_prefix.claims.attention_setting import BoundedPrefix, multiplications, uniform
from attangent.papers.p1_prefix.fast_attention import (
    FastAttention,
    HyperAttention,
    PolynomialAttention,
    fast_ntk_attention,
)
from attangent.papers.p1_prefix.proofs import attention


def error(fast: FastAttention, m: int, L: int, settings: Settings, seed: int) -> float:
    """Return the largest distance of NTK-Attention with a fast attention from prefix attention."""
    prefix = BoundedPrefix.draw(m, L, settings.d, settings.bound, seed)
    state = PrefixState.from_prefix(
        growing_map(settings.d, settings.bound, m, settings.order), prefix.K_C, prefix.V_C, chunk=1024
    )
    q = prefix.Q[None]
    k = prefix.K[None]
    v = prefix.V[None]
    exact = prefix_attention(q, k, v, prefix.K_C, prefix.V_C)
    with torch.no_grad():
        return (fast_ntk_attention(fast, q, k, v, state) - exact).abs().max().item()


def fast_cost(fast: FastAttention, L: int, d: int) -> int:
    """Count the multiplications in the matrix products of attention over L tokens."""
    return multiplications(fast, *torch.zeros(3, 1, 1, L, d))


def even_order(settings: Settings, m: int) -> int:
    """Return the order of the growing map, made even because the mass of a token must not be negative."""
    order = growing_map(settings.d, settings.bound, m, settings.order).order
    return order + order % 2


_SIZES = {
    "d": 3,
    "bound": 1.0,
    "L": 256,
    "lengths": [2**i for i in range(6, 13, 2)],
    "block": 32,
    "samples": 32,
    "token_lengths": [256, 512, 1024, 2048],
    "order": None,
}
_EXISTS = {"powers": [10, 20, 40, 80], "token_values": [1e4, 1e5, 1e6, 1e7]}
_HYPER = {
    "few": 64,
    "lengths": [2**i for i in range(8, 15, 2)],
    "short_lengths": [2**i for i in range(6, 13, 2)],
}
_LARGER = {
    "d": 4,
    "L": 512,
    "lengths": [2**i for i in range(6, 15, 2)],
    "token_lengths": [512, 1024, 2048, 4096, 8192],
}


@claim(
    "P1/corollary-j.3",
    place="Appendix J.2, Corollary J.3",
    title="NTK-Attention in nearly linear time",
    quote="""then there exists an algorithm that outputs a matrix T within time complexity of O(L^(1+o(1)) d)
        that satisfies: |T - PrefixAttn(X,P)|_inf <= 1/poly(m).""",
    rests_on=("P1/theorem-4.1", "P1/lemma-j.7", "P1/equation-7"),
    plain="""Printed: an algorithm takes time O(L^(1+o(1)) d). True for bounded token keys and values if
        the number of features, which grows with m, is counted; as printed it falls with Theorem 4.1.""",
    failure=Failure(
        "P1/theorem-4.1",
        "Corollary J.3 falls with Theorem 4.1; it holds with bounded token keys and values at the cost L r d",
        "in the limit of long prefixes at fixed L: r grows like a power of log m",
    ),
    proof=attention.token_values,
    quick={**_SIZES, **_EXISTS},
    full=_LARGER,
    seconds=0.6,
)
def corollary_j_3(settings: Settings, seed: int) -> Finding:
    """Under the conditions of Theorem 4.1 there is an algorithm that takes O(L^(1+o(1)) d) time and whose
    output differs from prefix attention by at most 1/poly(m).
    """
    # Use the polynomial method for the tokens too; its order grows with m, its cost is linear in L.
    lengths = settings.lengths
    L = settings.L
    errors = [error(PolynomialAttention(even_order(settings, m)), m, L, settings, seed) for m in lengths]
    method = PolynomialAttention(even_order(settings, lengths[-1]))
    sizes = [number_of_features(settings.d, settings.bound, 2.0**k) for k in settings.powers]
    size_name = "features r, and with them the cost at fixed L, over log m"
    largest = max(e * m for e, m in zip(errors, lengths, strict=True))
    return Finding(
        hypotheses=_conditions(settings),
        conclusions=(
            _operations("polynomial method", method, settings, part="cost in L"),
            no_growth(size_name, settings.powers, sizes, part="cost in m"),
            token_trend(settings, lengths[0], settings.bound, seed),
            comparison("largest error x m if the tokens' values are bounded, too", "<=", 1.0, largest),
        ),
        numbers={
            **by_size("error, m = {}", lengths, errors),
            **by_size("features, m = 2^{}", settings.powers, sizes),
        },
        figures=(_error_figure(lengths, {"polynomial method": errors}),),
        remark="The same two failures as in Theorem 4.1: the number of features grows with m at fixed L, "
        "and the statement does not bound the tokens' keys and values. If they are bounded, the error is "
        "within 1/m.",
    )


@claim(
    "P1/corollary-j.3-hyper",
    place="Section 4.3, below Theorem 4.1; proof of Corollary J.3",
    title="HyperAttention makes NTK-Attention nearly linear in L",
    quote="""if we replace the original attention operation ... with fast attention algorithms like
        HyperAttention, then NTK-Attention can be even more efficient, achieving Eq. (8) within complexity
        O(L^(1+o(1)) d)""",
    rests_on=("P1/theorem-4.1",),
    plain="""With HyperAttention for the tokens the error falls like a power of m if m is much larger than
        L and the tokens' keys and values are bounded; with L = m it does not.""",
    ours=(
        "m much larger than L (Figure 1: Note that m >> L)",
        "bounded keys and values of the tokens, which the paper does not assume",
    ),
    quick={**_SIZES, **_HYPER},
    full={**_LARGER, "lengths": [2**i for i in range(8, 17, 2)]},
    seconds=0.6,
)
def hyper(settings: Settings, seed: int) -> Finding:
    """With HyperAttention for the tokens, NTK-Attention takes O(L^(1+o(1)) d) time and differs from prefix
    attention by at most 1/poly(m): the error falls like a power of m.
    """
    # Figure 1: "Note that m >> L". With L = m, a fixed number of samples does not improve with m.
    lengths = settings.lengths
    method = HyperAttention(block=settings.block, samples=settings.samples, seed=seed)
    fixed = [error(method, m, settings.few, settings, seed) for m in lengths]
    equal = [error(method, m, m, settings, seed) for m in settings.short_lengths]
    sampled = {f"L = {settings.few}": fixed}
    return Finding(
        hypotheses=(
            *_conditions(settings),
            Hypothesis("tokens L / prefix length m, shortest prefix", "<=", 0.25, settings.few / lengths[0]),
        ),
        conclusions=(
            Conclusion.of_trend(f"error over m, L = {settings.few}", "<", 0.0, lengths, fixed),
            _operations("HyperAttention", method, settings),
            Conclusion.of_trend(
                "error over m, L = m", "<", 0.0, settings.short_lengths, equal, claimed=False
            ),
        ),
        numbers={f"error, m = {lengths[-1]}, {name}": values[-1] for name, values in sampled.items()},
        figures=(_error_figure(lengths, sampled),),
        differs=("bounded keys and values of the tokens; the paper does not bound them",),
        remark="We read 1/poly(m) as weakly as possible: any power of m that a trend can detect. With m "
        "much larger than L the error falls, because the prefix outweighs the tokens. With L = m "
        "it does not fall.",
    )


def _conditions(settings: Settings) -> tuple[Hypothesis, ...]:
    shortest = math.log(settings.lengths[0])
    return (
        Hypothesis("bound on the entries", "<=", math.sqrt(shortest), settings.bound, in_limit=True),
        Hypothesis("d", "<=", shortest, settings.d, in_limit=True),
    )


def _operations(name: str, method: FastAttention, settings: Settings, part: str = "") -> Conclusion:
    """Return the trend of the number of multiplications over the number of tokens."""
    counts = [fast_cost(method, n, settings.d) for n in settings.token_lengths]
    return Conclusion.of_trend(
        f"multiplications over L, {name}", "<=", 1.0, settings.token_lengths, counts, part=part
    )


def _error_figure(lengths: list[int], curves: dict[str, list[float]]) -> Figure:
    return plot(
        "Error with a fast attention for the tokens",
        ("prefix length m", "largest error of the output"),
        *(Series.of(name, lengths, errors) for name, errors in curves.items()),
        Series.of("1/m", lengths, [1 / m for m in lengths], kind="bound"),
    )


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
    largest_error = max(case.relative_error / epsilon for (_, epsilon), case in cases.items())
    return Finding(
        conclusions=(
            Conclusion("largest relative error / eps", "<=", 1.0, largest_error),
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
    name = f"needed order / printed order, over log(1/eps), B = {bound:g}"
    logs = [math.log(1 / epsilon) for epsilon in settings.small]
    ratios = [features.order_for(bound**2, e) / promised_order(e, bound) for e in settings.small]
    return no_growth(name, logs, ratios)


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
        comparison("smallest r / C(2(g + d), 2g)", ">=", 0.1, min(sizes)),
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
